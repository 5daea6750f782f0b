"""Answers that come too late, just in time, or to a process that did not ask (01/D-15)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import pytest

from answer_kit import by_id
from awaken import Agent, Runtime, ToolCallResume, tool
from awaken.core.event import RunFinish
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import NATURAL_END, RunStatus, Suspended
from awaken.core.llm import InferenceRequest
from awaken.core.store.commits import NeverLost
from awaken.core.store.threads import ThreadContext, TicketQuery
from awaken.core.suspension import Ticket, TicketStatus
from awaken.errors import AwakenError, InvalidResume
from awaken.stores.memory import MemoryStore
from awaken.testing import FakeClock, FunctionModel, text_response, tool_call_response

pytestmark = pytest.mark.anyio

T = "t"
SOON = 0.005
"""How often an open runtime looks around here."""


class Counter:
    """An agent that pays if somebody approves within a minute, and digs when told to."""

    def __init__(self, store: MemoryStore) -> None:
        self.store, self.clock = store, FakeClock()
        self.paid: list[int] = []
        self.digging, self.dug = asyncio.Event(), asyncio.Event()

    def runtime(self, **options: Any) -> Runtime:
        @tool(needs_approval=True, approval_expires_in=60)
        async def pay(n: int) -> str:
            """Pay."""
            self.paid.append(n)
            return f"paid {n}"

        @tool(effect="read")
        async def dig() -> str:
            """Dig."""
            self.digging.set()
            await self.dug.wait()
            return "dug"

        agent = Agent("till", model=FunctionModel(_answer), tools=[pay, dig])
        return Runtime([agent], store=self.store, clock=self.clock, **options)

    def stranger(self) -> Runtime:
        """A runtime that has no agents: good for looking and deciding."""
        return Runtime([], store=self.store, clock=self.clock, recover=False)

    async def ticket(self) -> Ticket:
        (ticket,) = await self.store.list_tickets(TicketQuery())
        return ticket

    async def told(self) -> list[str]:
        return [m.text() for m in await self.store.load_messages(T) if m.tool_call_id]

    async def finished(self) -> None:
        """Wait until the thread's run is over."""
        async with asyncio.timeout(100):
            async for event in self.stranger().events(T):
                end = event.event
                if isinstance(end, RunFinish) and not isinstance(end.termination, Suspended):
                    return


def _answer(request: InferenceRequest) -> StreamResult:
    match request.messages[-1].text():
        case "pay":
            return tool_call_response("", "pay", "c1", {"n": 5})
        case "dig":
            return tool_call_response("", "dig", "c2", {})
    return text_response("done")


# -- too late ---------------------------------------------------------------------------------


class Racing(MemoryStore):
    """Somebody approves, once, right after a run has read the thread."""

    racing = False

    async def load_context(
        self, thread_id: str, *, tail: int | None = None
    ) -> ThreadContext | None:
        context = await super().load_context(thread_id, tail=tail)
        if self.racing:
            self.racing = False
            (ticket,) = await self.list_tickets(TicketQuery())
            await self.decide(T, [(ticket.key, ToolCallResume.approve())], at_ms=0)
        return context


async def test_an_answer_that_lost_to_a_new_message_harms_nothing() -> None:
    """02/L13: it was given while the message superseded the question; nothing is paid."""
    store = Racing()
    counter = Counter(store)
    runtime = counter.runtime()
    await runtime.run("till", "pay", thread=T)
    store.racing = True

    result = await runtime.run("till", "something else", thread=T)

    assert (result.response, result.termination) == ("done", NATURAL_END)
    assert not store.racing
    assert counter.paid == []


async def test_an_answer_that_lost_to_a_new_message_does_not_poison_recovery() -> None:
    """01/D-16: the process dies with the stale answer unread; the next one goes on all the same."""
    store = Racing()
    counter = Counter(store)
    runtime = counter.runtime()
    await runtime.run("till", "pay", thread=T)
    store.racing = True
    dying = asyncio.create_task(runtime.run("till", "dig", thread=T))
    async with asyncio.timeout(100):
        await counter.digging.wait()
        counter.store.forsake()
        counter.dug.set()
        (run,) = await counter.runtime().recover()
        result = await run
        dying.cancel()
        with suppress(asyncio.CancelledError, AwakenError):
            await dying

    assert (result.response, result.termination) == ("done", NATURAL_END)
    assert list(await counter.store.load_commands(T)) == []
    assert counter.paid == []
    assert (await counter.runtime().run("till", "hello", thread=T)).response == "done"


# -- in time ----------------------------------------------------------------------------------


class Deaf(MemoryStore):
    """Nobody is told of commands: they are found by looking."""

    async def watch_commands(self) -> AsyncGenerator[set[str], None]:
        await asyncio.Event().wait()
        yield set()


async def test_an_approval_in_time_counts_though_the_owner_slept() -> None:
    """01/D-15: the lid was closed when it came; the timer does not win when it is opened."""
    counter = Counter(Deaf())
    runtime, other = counter.runtime(), counter.stranger()

    async with asyncio.timeout(100), runtime.stream("till", "pay", thread=T, wait=True) as events:
        async for event in events:
            if isinstance(event.event, RunFinish) and not counter.paid:
                await counter.clock.until_sleeping()
                counter.clock.advance(30)
                assert await other.decide(T, await by_id(other, {"c1": True}), by="ann")
                counter.clock.advance(600)

    assert events.result.response == "done"
    assert await counter.told() == ["paid 5"]
    ticket = await counter.ticket()
    assert ticket.status is TicketStatus.ANSWERED
    assert ticket.decision is not None
    assert ticket.decision.by == "ann"


async def test_an_approval_in_time_counts_though_nobody_ran() -> None:
    """01/D-15: a run that was given up, too; whoever recovers it is late, the answer is not."""
    counter = Counter(MemoryStore())
    await counter.runtime().run("till", "pay", thread=T)
    await counter.stranger().decide(T, {await counter.ticket(): True})
    counter.clock.advance(600)

    (run,) = await counter.runtime().recover()

    assert (await run).response == "done"
    assert counter.paid == [5]


# -- while a runtime is open ------------------------------------------------------------------


async def test_an_open_runtime_goes_on_with_a_run_another_one_decided() -> None:
    """Design §8: the answer came where the agent is unknown; whoever has it notices."""
    counter = Counter(MemoryStore())

    async with counter.runtime() as runtime:
        assert (await runtime.run("till", "pay", thread=T)).suspended
        assert not await counter.stranger().decide(T, {await counter.ticket(): True})
        await counter.finished()

    assert counter.paid == [5]
    assert (await counter.ticket()).status is TicketStatus.ANSWERED


async def test_an_open_runtime_says_no_for_those_who_did_not_answer_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """01/D-15: without anybody asking; a late answer is refused, before and after."""
    monkeypatch.setattr(NeverLost, "poll_interval", SOON)
    counter = Counter(MemoryStore())

    async with counter.runtime() as runtime:
        await runtime.run("till", "pay", thread=T)
        counter.clock.advance(62)
        with pytest.raises(InvalidResume, match=r"expired"):
            await runtime.decide(T, await by_id(runtime, {"c1": True}))
        await counter.finished()
        with pytest.raises(InvalidResume, match=r"expired"):
            await runtime.run(thread=T, answers=await by_id(runtime, {"c1": True}))

    assert await counter.told() == ["Denied: nobody decided about 'pay' in time"]
    assert (await counter.ticket()).status is TicketStatus.EXPIRED
    assert counter.paid == []


async def test_an_open_runtime_finds_what_another_process_leaves_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Design §8: it dies after this one has opened; nobody has to start anew to recover it."""
    monkeypatch.setattr(NeverLost, "poll_interval", SOON)
    counter = Counter(MemoryStore())
    dying = asyncio.create_task(counter.runtime().run("till", "dig", thread=T))
    await counter.digging.wait()

    async with counter.runtime() as runtime:
        assert runtime.recovered == []
        counter.store.forsake()
        counter.dug.set()
        await counter.finished()
        dying.cancel()
        with suppress(asyncio.CancelledError, AwakenError):
            await dying

    (record,) = await runtime.list_runs()
    assert (record.status, record.termination_reason) == (RunStatus.DONE, NATURAL_END)
    assert await counter.told() == ["dug"]
