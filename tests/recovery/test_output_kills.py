"""Counts of retries, and functions as output, over a kill -9 (09 §2.4, §2.5)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from output_stage import THREAD, made

import forked
from awaken import Runtime

pytestmark = pytest.mark.anyio

STAGE = Path(__file__).with_name("output_stage.py")


async def ended(path: Path, dies_at: int, *ships: str) -> str:
    """Kill a process that plays, go on in this one, and return the run's output."""
    died = await forked.play_beside(STAGE, path, dies_at, *ships)
    assert died.returncode == -signal.SIGKILL, died.stderr
    agent = made(path, 0, ships=ships[0] if ships else None)
    async with Runtime([agent], store=f"sqlite:///{path}") as runtime:
        (recovered,) = runtime.recovered
        await recovered
        return str((await runtime.wait(THREAD)).unwrap())


async def test_tries_are_counted_on_after_a_kill(tmp_path: Path) -> None:
    """09/FD-13"""
    assert await ended(tmp_path / "a.db", 2) == "shipped"
    noted = (tmp_path / "book").read_text().split()
    assert noted == ["look", "look", "look", "look", "ship"]


@pytest.mark.parametrize(
    ("ships", "output"),
    [
        ("before", "shipped"),  # no deed was done: `verify` says so, and the call is made again
        ("in", "yes"),  # the deed was done: what `verify` returns is the output
        ("after", "yes"),
        ("step", "yes"),
        ("run", "yes"),
    ],
)
async def test_an_output_function_runs_once_over_any_kill(
    tmp_path: Path, ships: str, output: str
) -> None:
    """09/FD-16"""
    assert await ended(tmp_path / "a.db", 1, ships) == output
    assert (tmp_path / "book").read_text().split() == ["ship"]
