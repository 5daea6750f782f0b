"""The README: its examples run, its files exist, and its figures are the measured ones."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from page_blocks import HOME, blocks_of, run_block

README = (HOME / "README.md").read_text()
BLOCKS = blocks_of("README.md")
EXPECTED = [["You said: “Hello”."], ["weather answered: Paris: 21°C, sunny."]]


def test_every_example_has_an_expectation() -> None:
    assert len(BLOCKS) == len(EXPECTED)


@pytest.mark.parametrize("index", range(len(EXPECTED)))
def test_an_example_of_the_readme_prints_what_it_should(index: int, tmp_path: Path) -> None:
    printed = run_block(BLOCKS[index], tmp_path)
    for line in EXPECTED[index]:
        assert line in printed


def test_the_two_commands_exist() -> None:
    makefile = (HOME / "Makefile").read_text()
    for target in ("run", "test"):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
        assert f"make {target}" in README


def test_every_file_the_readme_names_is_there() -> None:
    named = re.findall(r"\]\(([^)#]+)\)", README)
    assert [path for path in named if ":" not in path and not (HOME / path).exists()] == []


def test_plots_and_table_show_the_figures_that_were_measured() -> None:
    """`make plots` makes both from `benchmarks/results.json`."""
    check = [sys.executable, "-m", "benchmarks.readme", "--check"]

    ran = subprocess.run(check, cwd=HOME, capture_output=True, text=True, check=False, timeout=250)

    assert (ran.returncode, ran.stderr) == (0, "")


def test_figures_of_two_pythons_stand_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The optimised Python comes first, whichever was measured last, and a later run on one Python
    leaves the figures of the other."""
    monkeypatch.syspath_prepend(HOME)
    tables = importlib.import_module("benchmarks.table")
    readme = importlib.import_module("benchmarks.readme")
    path = tmp_path / "results.json"

    def measure(python: str, **samples: float) -> None:
        figures = tables.Figures(python)
        for program, value in samples.items():
            figures.add("w2", program, value)
        figures.save(path)

    measure("3.14.5 PGO+LTO", awaken=9.0)
    measure("3.14.6 PGO+LTO", awaken=1.0, agno=3.0)
    measure("3.11.7 plain", awaken=2.0)

    assert readme.table(*json.loads(path.read_text()).values()).splitlines() == [
        "| best of several runs, Python 3.14.6 PGO+LTO | Awaken | Awaken, 3.11.7 plain | Agno |",
        "|---|---|---|---|",
        "| a streamed delta | 1 µs | 2 µs | 3 µs |",
    ]
