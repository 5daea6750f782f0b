"""A submitted run that is cancelled before it starts has a start and an end in its thread's log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from awaken import Agent, Runtime, tool
from awaken.core.event import RunEvent, RunFinish, RunStart
from awaken.core.lifecycle import CANCELLED, RunStatus
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, text_response, tool_call_response

pytestmark = pytest.mark.anyio
T = "t"


class Gate:
    """An agent whose tool works until it is let through, and asks before it pays."""

    def __init__(self) -> None:
        self.entered, self.opened = asyncio.Event(), asyncio.Event()

        @tool
        async def dig() -> str:
            """Dig."""
            self.entered.set()
            await self.opened.wait()
            return "gold"

        @tool(needs_approval=True)
        async def pay() -> str:
            """Pay."""
            return "paid"

        said = {
            "dig": tool_call_response("", "dig", "d", {}),
            "pay": tool_call_response("", "pay", "p", {}),
        }
        model = FunctionModel(
            lambda request: said.get(request.messages[-1].text(), text_response("ok"))
        )
        self.agent = Agent("a", model=model, tools=[dig, pay])


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> MemoryStore | str:
    if request.param == "memory":
        return MemoryStore()
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'a.db'}"
    address: str = request.getfixturevalue("postgres").address()
    return address


@asynccontextmanager
async def two_runtimes(
    gate: Gate, store: MemoryStore | str
) -> AsyncIterator[tuple[Runtime, Runtime]]:
    """One that runs the agent, and another one on the same store."""
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(Runtime([gate.agent], store=store))
        other = await stack.enter_async_context(Runtime([gate.agent], store=store, recover=False))
        yield one, other


async def events_until_end(runtime: Runtime, *run_ids: str) -> list[RunEvent]:
    """The events of the thread up to the last of the runs' ends."""
    found: list[RunEvent] = []
    missing = set(run_ids)
    async with asyncio.timeout(100):
        async for event in runtime.events(T):
            if event.seq is None:
                continue
            found.append(event)
            if isinstance(event.event, RunFinish):
                missing.discard(event.run_id or "")
            if not missing:
                break
    return found


def kinds_of(events: list[RunEvent], run_id: str) -> list[type]:
    return [type(event.event) for event in events if event.run_id == run_id]


async def test_its_end_is_in_the_log_soon_if_the_thread_has_no_owner(
    store: MemoryStore | str,
) -> None:
    """Here because the thread's run waits for an approval, which it goes on to do."""
    async with two_runtimes(Gate(), store) as (one, other):
        paused = await one.run("a", "pay", thread=T)
        queued = (await one.submit("a", "hello", thread=T)).run_id
        assert (await other.cancel(queued)).accepted
        events = await events_until_end(other, paused.run_id, queued)

        assert kinds_of(events, queued) == [RunStart, RunFinish]
        assert events[-1].event == RunFinish(thread_id=T, run_id=queued, termination=CANCELLED)
        (ticket,) = paused.tickets
        ended = await one.run(thread=T, answers={str(ticket.key): True})
        assert (ended.run_id, ended.response) == (paused.run_id, "ok")
        assert list(await one.store.load_commands(T)) == []


async def test_its_end_follows_that_of_the_run_which_has_the_thread(
    store: MemoryStore | str,
) -> None:
    """Only the owner writes a thread's events; the cancel itself does not wait for it."""
    gate = Gate()
    async with two_runtimes(gate, store) as (one, other):
        async with asyncio.TaskGroup() as group:
            running = group.create_task(one.run("a", "dig", thread=T))
            await gate.entered.wait()
            first = (await one.submit("a", "hello", thread=T)).run_id
            second = (await other.submit("a", "hello again", thread=T)).run_id
            for runtime, queued in ((other, first), (one, second)):
                assert (await runtime.cancel(queued)).accepted
                assert (await runtime.wait(queued)).termination == CANCELLED
            events = [event async for event in other.events(T, follow=False)]
            assert not kinds_of(events, first) + kinds_of(events, second)
            gate.opened.set()

        busy = running.result().run_id
        events = await events_until_end(other, busy, first, second)
        assert kinds_of(events, first) == kinds_of(events, second) == [RunStart, RunFinish]
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert [event.run_id for event in events[-4:]] == [first, first, second, second]
        assert all(event.run_id == busy for event in events[:-4])
        run = await other.find_run(second)
        assert run is not None
        assert run.status is RunStatus.DONE
        assert [m.text() for m in await one.messages(T, hidden=True)] == ["dig", "", "gold", "ok"]


async def test_a_run_that_starts_first_does_not_lose_it(store: MemoryStore | str) -> None:
    """Another submission waits behind it, and takes the thread when the first run has ended."""
    gate = Gate()
    async with two_runtimes(gate, store) as (one, other):
        async with asyncio.TaskGroup() as group:
            group.create_task(one.run("a", "dig", thread=T))
            await gate.entered.wait()
            first = (await one.submit("a", "hello", thread=T)).run_id
            last = await one.submit("a", "hello again", thread=T)
            await other.cancel(first)
            gate.opened.set()

        assert (await one.wait(last.run_id)).response == "ok"
        events = await events_until_end(other, first, last.run_id)
        assert kinds_of(events, first) == [RunStart, RunFinish]


async def test_one_that_an_interrupt_ends_has_it_too(store: MemoryStore | str) -> None:
    gate = Gate()
    async with two_runtimes(gate, store) as (one, other):
        async with asyncio.TaskGroup() as group:
            group.create_task(one.run("a", "dig", thread=T))
            await gate.entered.wait()
            queued = (await one.submit("a", "hello", thread=T)).run_id
            last = await other.submit("a", "stop", thread=T, mode="interrupt")

        events = await events_until_end(other, queued, last.run_id)
        assert kinds_of(events, queued) == [RunStart, RunFinish]
