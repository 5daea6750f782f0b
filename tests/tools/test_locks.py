"""What `make` fetches is the very files that were looked at before."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PINNED = re.compile(r"[\w.-]+(\[[\w,.-]+\])?==[^\s;]+( ?;[^\\]*?)?( --hash=sha256:[0-9a-f]{64})+")


def requirements(name: str) -> list[str]:
    text = (ROOT / name).read_text().replace("\\\n", " ")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


@pytest.mark.parametrize("name", ["requirements.lock", "constraints.txt", "requirements-llm.txt"])
def test_every_requirement_has_its_version_and_hashes_and_no_place_of_its_own(name: str) -> None:
    found = requirements(name)
    assert found
    assert [line for line in found if PINNED.fullmatch(line) is None] == []


def test_make_installs_nothing_but_what_is_listed_with_hashes() -> None:
    """The package itself is a folder and has none; `make lock` is what writes them down. Without
    `--no-deps`, an old pip takes the newest release for a dependency with an extra."""
    fetched = [
        line
        for line in (ROOT / "Makefile").read_text().splitlines()
        if re.search(r"(pip|PIP\)) install", line)
        and "$(EDITABLE)" not in line
        and ".venv-lock" not in line
    ]
    assert fetched
    for flag in ("--require-hashes", "--no-deps"):
        assert [line for line in fetched if flag not in line] == []
