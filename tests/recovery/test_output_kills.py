"""Counts of retries, and functions as output, over a kill -9 (09 §2.4, §2.5)."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest
from output_stage import THREAD, made

from awaken import Runtime

pytestmark = pytest.mark.anyio

STAGE = Path(__file__).with_name("output_stage.py")


@pytest.mark.parametrize(
    ("dies_at", "ships", "noted"),
    [(2, False, ["look", "look", "look", "look", "ship"]), (1, True, ["ship"])],
    ids=["FD-13", "FD-16"],
)
async def test_tries_are_counted_on_and_an_output_function_runs_once(
    tmp_path: Path, dies_at: int, ships: bool, noted: list[str]
) -> None:
    path = tmp_path / "a.db"
    parts = [str(STAGE), str(path), str(dies_at), *(["ships"] if ships else [])]
    process = await asyncio.create_subprocess_exec(sys.executable, *parts)
    assert await process.wait() == -signal.SIGKILL
    async with Runtime([made(path, 0, ships=ships)], store=f"sqlite:///{path}") as runtime:
        (recovered,) = runtime.recovered
        await recovered
        result = await runtime.wait(THREAD)

    assert result.unwrap() == ("yes" if ships else "shipped")
    assert (tmp_path / "book").read_text().splitlines() == noted
