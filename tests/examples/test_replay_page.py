"""Every program on `docs/replay.md` runs and prints what it says, and the test on it passes."""

import re
from pathlib import Path

import pytest

from awaken.cli.app import cli
from page_blocks import HOME, blocks_of, run_block

PAGE = "docs/replay.md"
TEXT = (HOME / PAGE).read_text()
PRINTS = dict(re.findall(r"```python\n((?:(?!```).)*)```\n\n```text\n(.*?)```", TEXT, re.DOTALL))


@pytest.mark.parametrize("block", blocks_of(PAGE), ids=range(len(blocks_of(PAGE))))
def test_a_program_on_the_page_prints_what_it_says(block: str, tmp_path: Path) -> None:
    assert run_block(block, tmp_path) == PRINTS.get(block, "")


def test_the_test_on_the_page_passes(tmp_path: Path) -> None:
    (block,) = [block for block in blocks_of(PAGE) if "def test_" in block]
    assert run_block(f"{block}\n\ntest_run_of_clerk()\nprint('passed')\n", tmp_path) == "passed\n"


def test_every_command_on_the_page_has_the_options_it_is_given() -> None:
    lines = [
        line.partition("#")[0].split()[1:]
        for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(lines) == 7
    for name, *args in lines:
        command = cli.commands[name]
        command.make_context(name, [*args])


def test_everything_the_page_points_at_is_there() -> None:
    titles = re.findall(r"^## (.*)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#([^)]*)\)", TEXT)) <= anchors
