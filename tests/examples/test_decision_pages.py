"""The pages of decisions: what they name as upholding and proving a decision is there today."""

import re
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import pytest

from page_blocks import HOME

SOURCE = HOME / "src" / "awaken"
FOLDER = HOME / "docs" / "adr"
PAGES = sorted(path.name for path in FOLDER.glob("*.md"))
WITHOUT = {
    "0024-a-server-is-an-edge-and-two-pure-parts.md",
    "0030-protocols-are-read-and-written-without-their-libraries.md",
    "0031-a-signed-out-session-is-written-in-the-store.md",
}
"""Earlier pages that name neither code nor tests."""


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_upholds_a_decision_exists(page: str) -> None:
    paths, words = names_in(page)
    assert bool(paths) is (page not in WITHOUT)
    assert [path for path in paths if not files_of(path)] == []
    assert [word for word in words if not exists(word)] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_name_that_upholds_a_decision_is_in_its_module(page: str) -> None:
    named = re.findall(r"`([^`\s]+\.py)` \(`(\w+)`\)", claim(page))
    assert [
        f"{path}: {name}"
        for path, name in named
        if not any(re.search(rf"\b{name}\b", file.read_text()) for file in files_of(path))
    ] == []


def test_every_decision_is_listed() -> None:
    listed = re.findall(
        r"^(\d+)\. \[.+\]\(adr/(.+)\)$", (HOME / "docs/design.md").read_text(), re.M
    )
    assert listed == [(str(number), page) for number, page in enumerate(PAGES, start=1)]


def test_a_path_that_is_gone_is_noticed() -> None:
    assert files_of("engine/{run,step}.py")
    assert not files_of("engine/{run,no_such_module}.py")
    assert not files_of("loop/run.py")
    assert not exists("awaken.testing.conformance.no_such_module")
    assert not exists("make no-such-target")


def claim(page: str) -> str:
    """The paragraph of a page that names the code and the tests of its decision."""
    _, found, text = (FOLDER / page).read_text().rpartition("**Upheld by**")
    return " ".join(text.split("\n\n")[0].split()) if found else ""


def names_in(page: str) -> tuple[list[str], list[str]]:
    """The paths in a page's claim, and its commands and dotted names."""
    quoted = re.findall(r"`([^`]+)`", claim(page))
    words = [each for each in quoted if each.startswith(("awaken.", "make ", "python -m "))]
    paths = [
        each
        for each in quoted
        if each not in words and ("/" in each or each.endswith((".py", ".sql", ".toml")))
    ]
    return paths, words


def files_of(path: str) -> list[Path]:
    """The files and folders that a path names, in the project or in the package; none if one of
    its alternatives in braces is missing."""
    found = [_glob(each) for each in _alternatives(path)]
    return [file for files in found for file in files] if all(found) else []


def _glob(path: str) -> list[Path]:
    return [*HOME.glob(path), *SOURCE.glob(path)]


def _alternatives(path: str) -> Iterator[str]:
    """`a/{b,c}.py` is `a/b.py` and `a/c.py`."""
    parts = [part.split(",") for part in re.split(r"[{}]", path)]
    return map("".join, product(*parts))


def exists(word: str) -> bool:
    """Whether there is such a target of `make`, such a program or such a module."""
    if word.startswith("make "):
        return word.split()[1] in _targets()
    module = word.split()[2] if word.startswith("python -m ") else word
    return bool(files_of(module.replace(".", "/") + ".py")) or find_spec(module) is not None


@cache
def _targets() -> set[str]:
    return set(re.findall(r"^([\w-]+):", (HOME / "Makefile").read_text(), re.MULTILINE))
