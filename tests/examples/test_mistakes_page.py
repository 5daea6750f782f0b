"""The page of common mistakes: every row is run as written, and told what it quotes (09/FD-20)."""

from __future__ import annotations

import ast
import asyncio
import gc
import re
import warnings
from inspect import CO_COROUTINE
from logging import WARNING
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import awaken
from awaken import Agent, Runtime

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs" / "mistakes.md"
SPAN = re.compile(r"(`+)(.+?)\1(?!`)")
ROWS = [
    (SPAN.findall(written)[0][1], [text for _, text in SPAN.findall(told)])
    for written, told in re.findall(r"^\| (`.+?) \| (`.+) \|$", PAGE.read_text(), re.MULTILINE)
]


def find(name: str) -> str:
    """Find."""
    return name


def bare(name):  # type: ignore[no-untyped-def]
    """Find."""
    return name


def quiet(name: str) -> str:
    return name


async def look() -> str:
    """Look."""
    return "seen"


async def errors_of(written: str, names: dict[str, Any]) -> list[str]:
    """The error, and Python's warnings, of a line of code in an async function."""
    tree = ast.parse(f"async def mistake():\n    {written}")
    code = next(c for c in compile(tree, "mistake", "exec").co_consts if hasattr(c, "co_code"))
    assert code.co_flags & CO_COROUTINE
    made: Any = FunctionType(code, names)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            await made()
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
        else:
            told = "no error"
        gc.collect()  # Python tells of a coroutine that was not awaited when it is gone
    return [told, *[str(warning.message) for warning in warned]]


@pytest.mark.parametrize(("written", "quoted"), ROWS, ids=[written for written, _ in ROWS])
async def test_a_mistake_is_told_as_the_page_says(
    written: str,
    quoted: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    agent = Agent("a", model="demo")
    async with Runtime([agent]) as runtime:
        names = {**vars(awaken), "Agent": Agent, "Runtime": Runtime, "asyncio": asyncio}
        names |= {"agent": agent, "runtime": runtime, "find": find, "bare": bare, "quiet": quiet}
        names |= {"look": look}
        told = await errors_of(written, names)
    told += [record.getMessage() for record in caplog.records if record.levelno >= WARNING]
    assert len(told) == len(quoted)
    for text, quote in zip(told, quoted, strict=True):
        if quote.endswith(" …"):
            assert text.startswith(quote.removesuffix("…"))
        else:
            assert text == quote.strip()


def test_every_row_of_the_page_is_read() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert len(ROWS) == len(rows) > 40
