"""Runs by their ids: one that is over stays itself, and what cannot be read is said."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pytest
from receipt_kit import Site, T, outcomes

from awaken import Agent, Runtime, tool
from awaken.core.lifecycle import NATURAL_END
from awaken.core.store.commands import ThreadCommand
from awaken.errors import StoreUnavailable
from awaken.stores.memory import MemoryStore
from awaken.testing import ScriptedModel, text_response, tool_call_response
from awaken.worker import operations

pytestmark = pytest.mark.anyio


async def test_a_run_that_is_over_is_found_by_its_id_while_the_next_one_is_open() -> None:
    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel([text_response("first"), tool_call_response("", "pay", "c1", {})])
    async with Runtime([Agent("a", model=model, tools=[pay])]) as runtime:
        over = await runtime.run("a", "hi", thread=T)
        asks = await runtime.run("a", "pay", thread=T)
        assert asks.suspended

        found = await runtime.wait(over.run_id)
        assert (found.run_id, found.response, found.termination) == (
            over.run_id,
            "first",
            NATURAL_END,
        )
        assert not await runtime.cancel(over.run_id)
        assert (await runtime.wait(asks.run_id)).suspended


class Unreadable(MemoryStore):
    """A store that goes away for a moment after it has said which runs are left."""

    away = False

    async def load_commands(
        self, thread_id: str, *, skip: Collection[int] = ()
    ) -> Sequence[ThreadCommand]:
        if self.away:
            self.away = False
            raise StoreUnavailable("the disk is gone")
        return await super().load_commands(thread_id, skip=skip)


async def test_a_store_that_is_away_is_not_taken_for_runs_nobody_can_read() -> None:
    """One odd record is left alone; without a store there is nothing to say of any."""

    @tool(needs_approval=True, approval_expires_in=0.001)
    async def pay() -> str:
        """Pay."""
        return "paid"

    store = Unreadable()
    model = ScriptedModel([tool_call_response("", "pay", "c1", {}), text_response("over")])
    runtime = Runtime([Agent("a", model=model, tools=[pay])], store=store, recover=False)
    async with runtime:
        asks = await runtime.run("a", "pay", thread=T)
        await store.send(ThreadCommand.cancel(T, asks.run_id, at_ms=1))
        other = Runtime([], store=store, recover=False)
        for look in (other.recover(), operations.list_recoverable(runtime.engine)):
            store.away = True
            with pytest.raises(StoreUnavailable):
                await look


async def test_a_delegate_that_had_failed_before_is_no_part_of_a_receipt() -> None:
    """The cancel has not ended it."""
    site = Site()
    failing = Agent("leaf", model=ScriptedModel([ValueError("no such model")]))
    root = site.agent("agent_run_leaf", "read", id="root", delegates=["leaf"], sequential=True)
    async with Runtime([root, failing]) as runtime, site.busy(runtime, "root"):
        receipt = await runtime.cancel(T)
    assert outcomes(receipt) == [
        ("run", "root", "stopped"),
        ("call", "agent_run_leaf", "finished"),
        ("call", "read", "stopped"),
    ]
