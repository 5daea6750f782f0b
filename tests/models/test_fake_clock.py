"""The clock of the tests, tested."""

from __future__ import annotations

import asyncio

import pytest

from awaken.clock import Clock
from awaken.testing import FakeClock

pytestmark = pytest.mark.anyio


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_it_stands_still_until_told() -> None:
    clock: Clock = FakeClock(start_ms=5_000)
    assert (clock.now_ms(), clock.monotonic()) == (5_000, 0)


def test_both_times_advance_together_and_exactly() -> None:
    clock = FakeClock(start_ms=5_000)
    for _ in range(10):
        clock.advance(0.1)
    assert (clock.now_ms(), clock.monotonic()) == (6_000, 1)


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="forward"):
        FakeClock().advance(-1)


async def test_sleepers_wake_when_their_time_has_come_the_earliest_first() -> None:
    clock = FakeClock()
    woken: list[float] = []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(seconds)

    async with asyncio.TaskGroup() as group:
        for seconds in (3, 1, 2):
            group.create_task(sleeper(seconds))
        await clock.until_sleeping(3)
        assert clock.sleeping == 3
        clock.advance(0.999)
        await turns()
        assert woken == []
        clock.advance(1.001)
        await turns()
        assert woken == [1, 2]
        clock.advance(1)
    assert woken == [1, 2, 3]
    assert clock.sleeps == [3, 1, 2]


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(1))
    await turns()
    task.cancel()
    await turns()
    assert clock.sleeping == 0
    clock.advance(2)


async def test_one_cancelled_and_woken_at_once_hurts_nobody() -> None:
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(1))
    await turns()
    task.cancel()
    clock.advance(1)
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_sleeping_for_nothing_does_not_wait() -> None:
    clock = FakeClock()
    await clock.sleep(0)
    assert clock.sleeps == [0]


async def test_an_automatic_clock_moves_by_sleeping() -> None:
    clock = FakeClock(start_ms=0, auto=True)
    await clock.sleep(90)
    await clock.sleep(0)
    assert (clock.now_ms(), clock.sleeps) == (90_000, [90, 0])
