"""The pages for those who come from other libraries (09/FD-21).

Ours is run with all other pages. Theirs is run against the library itself by `make theirs`.
"""

from __future__ import annotations

import ast
import re

import pytest

from page_blocks import HOME, check_block, read_page

PAGES = {
    "pydantic-ai": "pydantic_ai",
    "openai-agents": "agents",
    "langgraph": "langgraph",
}


@pytest.mark.parametrize("library", PAGES)
def test_a_page_shows_theirs_and_ours_do_the_same(library: str) -> None:
    """09/FD-21"""
    theirs, ours = read_page(f"docs/coming-from-{library}.md")
    assert PAGES[library] in imported(theirs.code)
    assert "theirs" in theirs.notes
    assert "awaken" in imported(ours.code)
    check_block(ours)
    assert theirs.prints == ours.prints
    lengths = [len([x for x in block.code.splitlines() if x.strip()]) for block in (theirs, ours)]
    assert 15 <= min(lengths) <= max(lengths) <= 45


@pytest.mark.parametrize("library", PAGES)
def test_names_are_told_and_what_is_not_here_is_said(library: str) -> None:
    text = (HOME / "docs" / f"coming-from-{library}.md").read_text()
    rows = re.findall(r"^\| .+ \| .+ \|$", text, re.MULTILINE)
    assert len(rows) > 15
    assert "**Not here**" in text


def imported(code: str) -> set[str]:
    """The packages that a program imports."""
    return {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(code))
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    }
