"""A delegate whose store goes away: what it did is told to the model that had asked for it."""

from __future__ import annotations

import pytest
from delegation_kit import T, World, to, told

from awaken import Agent, Runtime, tool
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.errors import StoreUnavailable
from awaken.stores.memory import MemoryStore
from awaken.testing import FakeClock

pytestmark = pytest.mark.anyio


class AwayForDelegates(MemoryStore):
    """Takes nothing of delegates while it is away."""

    away = False

    async def commit(self, commit: ThreadCommit) -> Committed:
        if self.away and commit.thread_id != T:
            raise StoreUnavailable("the disk is full")
        return await super().commit(commit)


async def test_a_charge_that_could_not_be_kept_is_told_to_the_one_who_asked_for_it() -> None:
    """Told only that the delegate failed, its model would have it charged again."""
    store, charged = AwayForDelegates(), list[int]()

    @tool
    async def charge(order: int) -> str:
        """Take the money."""
        charged.append(order)
        store.away = True
        return "charged"

    world = World()
    boss = world.agent("boss", [to("clerk")], delegates=["clerk"])
    helper = world.agent("clerk", [("charge", {"order": 7})])
    clerk = Agent("clerk", model=helper.model, tools=[charge])
    # The time that a run waits for its store passes at once.
    async with Runtime([boss, clerk], store=store, clock=FakeClock(auto=True)) as runtime:
        await runtime.run("boss", "Sell order 7", thread=T)
        (answer,) = await told(runtime)
        store.away = False

    assert "the disk is full" in answer
    assert "before that it had done: charge(order=7) → unknown whether it took effect" in answer
    assert charged == [7]
