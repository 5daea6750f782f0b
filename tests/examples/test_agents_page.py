"""Every program on `docs/agents.md` runs, and prints what stands beneath it."""

import re
from pathlib import Path

import pytest

from page_blocks import HOME, blocks_of, run_block

PAGE = "docs/agents.md"
TEXT = (HOME / PAGE).read_text()
PRINTS = dict(re.findall(r"```python\n((?:(?!```).)*)```\n\n```text\n(.*?)```", TEXT, re.DOTALL))
"""What the page says that a block prints."""


@pytest.mark.parametrize("block", blocks_of(PAGE), ids=range(len(blocks_of(PAGE))))
def test_a_program_on_the_page_prints_what_it_says(block: str, tmp_path: Path) -> None:
    printed = "".join(f"{line.rstrip()}\n" for line in run_block(block, tmp_path).splitlines())

    assert printed == PRINTS.get(block, "")


def test_all_but_one_program_show_what_they_print() -> None:
    silent = [block for block in blocks_of(PAGE) if block not in PRINTS]
    assert [("sources=" in block) for block in silent] == [True]


def test_everything_the_page_points_at_is_there() -> None:
    for path, anchor in re.findall(r"\]\(([^)#]*)(#[^)]*)?\)", TEXT):
        assert not path or (HOME / "docs" / path).exists(), path
        assert not anchor or anchor in _anchors(), anchor


def _anchors() -> set[str]:
    titles = re.findall(r"^## (.*)$", TEXT, re.MULTILINE)
    return {"#" + re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}
