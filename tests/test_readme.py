"""The README: its examples run, its files exist, and its figures are the measured ones."""

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
