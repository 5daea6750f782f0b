"""A run of any kind, written as a test, passes where nothing but pytest and awaken is."""

from __future__ import annotations

import ast
import asyncio
import subprocess
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from replay_kit import KINDS, Kind, Made, summarised_meanwhile

from awaken.cli.pytest_file import Source, public_module, write_test
from awaken.core.inference import StreamResult
from awaken.runtime.replay import Scene, replay
from awaken.testing import ScriptedModel
from page_blocks import public_names


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a test for every kind of run."""
    home = tmp_path_factory.mktemp("exported")
    for kind in KINDS:
        recording, _ = asyncio.run(_made(kind))
        written = write_test(recording)
        assert not written.texts
        (home / f"test_{kind.__name__}.py").write_text(written.source)
    return home


async def _made(kind: Kind) -> Made:
    return await kind()


def run(folder: Path, *args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *args], cwd=folder, capture_output=True, text=True, timeout=250
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_kind_of_run_passes_as_a_test(folder: Path) -> None:
    told = run(folder, "pytest", "-q", "-p", "no:cacheprovider", "-W", "error")
    assert f"{len(KINDS)} passed" in told


def test_every_kind_of_test_is_formatted_and_has_nothing_a_linter_minds(folder: Path) -> None:
    run(folder, "ruff", "check", "--isolated", "--no-cache", "--select", "E,F,W,I,UP,B,SIM,RUF")
    run(folder, "ruff", "format", "--check", "--isolated", "--no-cache")
    run(folder, "ruff", "format", "--check", "--isolated", "--no-cache", "--line-length", "120")


def test_every_kind_of_test_imports_public_names_alone(folder: Path) -> None:
    """Such a file stays in a user's repository, and later releases have to run it."""
    public = public_names()
    taken = {
        (node.module or "", name.name)
        for file in folder.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("awaken")
        for name in node.names
    }
    assert ("awaken.runtime.replay", "replay") in taken
    assert {(module, name) for module, name in taken if name not in public.get(module, ())} == set()


def types_in(hint: Any, seen: set[type]) -> Iterator[type]:
    """Every struct and every enum that a value of this type may contain."""
    for part in get_args(hint):
        yield from types_in(part, seen)
    if not isinstance(hint, type) or hint in seen or not issubclass(hint, msgspec.Struct | Enum):
        return
    seen.add(hint)
    yield hint
    if issubclass(hint, msgspec.Struct):
        for part in get_type_hints(hint).values():
            yield from types_in(part, seen)


def test_every_value_that_a_test_may_contain_has_a_public_type() -> None:
    """Those that no run of these tests has, too."""
    public, seen = public_names(), set[type]()
    made_by_a_function = {StreamResult}
    for kind in (*types_in(Scene, seen), *types_in(StreamResult, seen)):
        written = kind not in made_by_a_function and kind.__module__ != Scene.__module__
        assert not written or kind.__name__ in public[public_module(kind)]


def test_a_value_of_a_private_type_is_not_written() -> None:
    """It would be a test that breaks with the next release."""
    with pytest.raises(LookupError, match="Scene is in none of awaken, "):
        Source().write(Scene(agent="a", input=()))


def test_a_summary_takes_no_answer_when_the_real_tools_run() -> None:
    """It is among the recorded messages, and is not made again."""
    was, agents = asyncio.run(_made(summarised_meanwhile))
    model = ScriptedModel(was.answers(own_code=True))

    now = asyncio.run(replay(was.scene(own_code=True), model, agents, tools="real"))

    assert now.asked_calls == was.asked_calls
    assert now.response == "All read."
    assert model.remaining == 0
    assert any("They talked." in message.text() for message in model.requests[-1].messages)
