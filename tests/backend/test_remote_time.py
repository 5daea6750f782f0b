"""Work elsewhere within limits of time: its own, those of runs above it, what is left of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from remote_kit import RUN, Far, FarBackend, answer
from test_remote_cancelling import Endless

from awaken.core.account import Account
from awaken.core.budget import Amount, Budget, Spending
from awaken.core.lifecycle import NATURAL_END, RunStatus, Stopped
from awaken.core.run import AgentRunResult
from awaken.engine.run_setup import RunSetup
from awaken.errors import RunLeft
from awaken.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio

LONG = 100_000.0


class Limited(Far):
    """Runs of one agent that live off an account."""

    account: Account

    async def _setup(self, texts: tuple[str, ...], run_id: str, is_continuation: bool) -> RunSetup:
        setup = await super()._setup(texts, run_id, is_continuation)
        setup.controls.budget = self.account
        return setup


async def run_limited(account: Account, backend: Any) -> AgentRunResult:
    far = Limited(MemoryStore(), backend)
    far.account = account
    async with asyncio.timeout(100):
        return await far.run()


def is_stopped(result: AgentRunResult) -> bool:
    end = result.termination
    return isinstance(end, Stopped) and end.value.code == "budget"


@pytest.mark.parametrize("limits", [(0.01, LONG), (LONG, 0.01)], ids=["above", "own"])
async def test_the_shortest_of_all_limits_of_time_ends_the_run(
    limits: tuple[float, float],
) -> None:
    above, own = limits
    account = Account(Budget(seconds=above), name="above").child(Budget(seconds=own), name=RUN)
    assert is_stopped(await run_limited(account, Endless()))


async def test_a_run_that_goes_on_has_only_the_time_that_is_left() -> None:
    account = Account(Budget(seconds=LONG), name=RUN)
    account.restore(RUN, Spending(spent=Amount(seconds=LONG - 0.01)))
    assert is_stopped(await run_limited(account, Endless()))


async def test_a_run_that_has_ended_leaves_no_timer_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would keep the run in memory until its time is up, a day later perhaps."""
    loop, timers = asyncio.get_running_loop(), list[asyncio.TimerHandle]()
    call_later = loop.call_later

    def call_later_noting(delay: float, *args: Any, **more: Any) -> asyncio.TimerHandle:
        timer = call_later(delay, *args, **more)
        timers.append(timer)
        return timer

    monkeypatch.setattr(loop, "call_later", call_later_noting)
    account = Account(Budget(seconds=LONG), name=RUN)
    result = await run_limited(account, FarBackend(answer("hi")))
    assert result.termination == NATURAL_END
    long = [timer for timer in timers if timer.when() > loop.time() + LONG / 2]
    assert [timer.cancelled() for timer in long] == [True]


async def test_a_run_its_backend_leaves_stays_open() -> None:
    """Whoever recovers it goes on: it has neither failed nor ended."""
    store = MemoryStore()
    far = Far(store, FarBackend(RunLeft(RUN)))
    with pytest.raises(RunLeft):
        await far.run()
    assert (await far.record()).status is RunStatus.RUNNING
