"""Messages to a live run while another process waits for its thread (design §1.1, 06 §2.5)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from awaken import Agent, Message, Runtime, tool
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.threads import ThreadContext
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FunctionModel, text_response, tool_call_response
from awaken.testing.conformance.helpers import waiting_threads

pytestmark = pytest.mark.anyio

T = "t"
PATIENCE = 100


async def nothing() -> None:
    """Do nothing."""


class Line(SqliteStore):
    """One process's view of the file.

    It names the thread whenever a command comes, whichever process owns it: a store may name a
    thread without a reason. `passed_on` says that its runtime has dealt with all commands up to a
    number; `hold` keeps the name back; `when_read` is awaited when a thread was read for a run.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.passed_on = 0
        self.news = asyncio.Event()
        self.read = asyncio.Event()
        self.hold = asyncio.Event()
        self.hold.set()
        self.when_read: Callable[[], Awaitable[None]] = nothing

    async def watch_commands(self) -> AsyncGenerator[set[str], None]:
        yield set()
        version = highest = 0
        while True:
            version = await self.wait_changed(T, version)
            newest = max([command.id for command in await self.load_commands(T)], default=0)
            if newest > highest:
                highest = newest
                self.read.set()
                await self.hold.wait()
                yield {T}
                self.passed_on = max(self.passed_on, highest)
                self.news.set()

    async def load_context(
        self, thread_id: str, *, tail: int | None = None
    ) -> ThreadContext | None:
        found = await super().load_context(thread_id, tail=tail)
        when_read, self.when_read = self.when_read, nothing
        await when_read()
        return found

    async def has_passed_on(self, number: int) -> None:
        while self.passed_on < number:
            self.news.clear()
            await self.news.wait()


class Desk:
    """A process: an agent that digs when told to, until it is let go; all else it answers."""

    def __init__(self, path: Path) -> None:
        self.store = Line(path)
        self.digging, self.dug, self.baked = asyncio.Event(), asyncio.Event(), asyncio.Event()

        @tool(effect="read")
        async def dig() -> str:
            """Dig."""
            self.digging.set()
            await self.dug.wait()
            return "dug"

        @tool(effect="idempotent")
        async def bake() -> str:
            """Bake, in the background."""
            await self.baked.wait()
            return "a cake"

        agent = Agent("desk", model=FunctionModel(_answer), tools=[dig], background=[bake])
        self.runtime = Runtime([agent], store=self.store, recover=False)


def _answer(request: InferenceRequest) -> StreamResult:
    last, calls = request.messages[-1].text(), sum(bool(m.tool_calls) for m in request.messages)
    if last == "bake and dig":
        return tool_call_response("", "bake", "c1", {})
    if last == "dig" or (calls == 1 and "bg_0" in last):
        return tool_call_response("", "dig", "c2", {})
    return text_response("done")


class Two:
    """Two processes on one file."""

    def __init__(self, tmp_path: Path) -> None:
        self.here, self.there = Desk(tmp_path / "a.db"), Desk(tmp_path / "a.db")

    async def __aenter__(self) -> tuple[Desk, Desk]:
        for desk in (self.here, self.there):
            await desk.store.open()
            await desk.runtime.__aenter__()
        return self.here, self.there

    async def __aexit__(self, *_: object) -> None:
        for desk in (self.here, self.there):
            await desk.runtime.close()
            await desk.store.close()


def read_twice(log: Sequence[Message]) -> list[str | None]:
    return [id for id, times in Counter(message.id for message in log).items() if times > 1]


async def newest(store: SqliteStore) -> int:
    """The number of the command that was sent last."""
    return max(command.id for command in await store.load_commands(T))


async def test_a_message_to_a_live_run_is_read_once_though_another_process_queues(
    tmp_path: Path,
) -> None:
    async with Two(tmp_path) as (here, there), asyncio.timeout(PATIENCE):
        async with asyncio.TaskGroup() as group:
            group.create_task(here.runtime.run("desk", "dig", thread=T))
            await here.digging.wait()
            group.create_task(there.runtime.run("desk", "and?", thread=T, when_busy="queue"))
            assert await here.runtime.send(T, "pay Bob")
            await there.store.has_passed_on(await newest(here.store))
            here.dug.set()

        log = await here.runtime.messages(T)
    assert read_twice(log) == []
    assert [m.text() for m in log if m.is_visible_user()] == ["dig", "pay Bob", "and?"]


async def test_a_message_that_the_queueing_process_sends_is_read_once(tmp_path: Path) -> None:
    """It has a place for the thread, but does not own it: the message is the owner's to read."""
    async with Two(tmp_path) as (here, there), asyncio.timeout(PATIENCE):
        async with asyncio.TaskGroup() as group:
            group.create_task(here.runtime.run("desk", "dig", thread=T))
            await here.digging.wait()
            group.create_task(there.runtime.run("desk", "and?", thread=T, when_busy="queue"))
            assert await there.runtime.send(T, "pay Bob")
            await here.store.has_passed_on(await newest(here.store))
            here.dug.set()

        log = await here.runtime.messages(T)
    assert read_twice(log) == []
    assert [m.text() for m in log if m.is_visible_user()] == ["dig", "pay Bob", "and?"]


async def test_the_end_of_a_task_is_read_once_though_another_process_queues(
    tmp_path: Path,
) -> None:
    async with Two(tmp_path) as (here, there), asyncio.timeout(PATIENCE):
        async with asyncio.TaskGroup() as group:
            group.create_task(here.runtime.run("desk", "bake and dig", thread=T))
            await here.digging.wait()
            group.create_task(there.runtime.run("desk", "and?", thread=T, when_busy="queue"))
            here.baked.set()
            version = 0
            while not await here.store.load_commands(T):
                version = await here.store.wait_changed(T, version)
            await there.store.has_passed_on(await newest(here.store))
            here.dug.set()

        log = await here.runtime.messages(T)
    assert read_twice(log) == []
    assert sum("a cake" in m.text() for m in log) == 1


async def test_commands_that_were_read_before_the_thread_was_claimed_are_not_passed_on_after(
    tmp_path: Path,
) -> None:
    """The first owner has acknowledged them in between."""
    async with Two(tmp_path) as (here, there), asyncio.timeout(PATIENCE):
        async with asyncio.TaskGroup() as group:
            group.create_task(here.runtime.run("desk", "dig", thread=T))
            await here.digging.wait()
            group.create_task(there.runtime.run("desk", "dig", thread=T, when_busy="queue"))
            there.store.hold.clear()
            assert await here.runtime.send(T, "pay Bob")
            number = await newest(here.store)
            await there.store.read.wait()
            here.dug.set()
            await there.digging.wait()
            there.store.hold.set()
            await there.store.has_passed_on(number)
            there.dug.set()

        log = await here.runtime.messages(T)
    assert read_twice(log) == []


async def test_a_message_that_comes_while_a_run_is_put_together_is_read_by_it(
    tmp_path: Path,
) -> None:
    """What was heard too early for the run is looked up once it can be reached."""
    async with Two(tmp_path) as (here, there), asyncio.timeout(PATIENCE):
        await here.runtime.run("desk", "hello", thread=T)

        async def write() -> None:
            message = (Message.user("pay Bob"),)
            sent = ThreadCommand(thread_id=T, kind=CommandKind.MESSAGES, messages=message)
            await there.store.has_passed_on(await here.store.send(sent))

        there.store.when_read = write
        there.dug.set()
        await there.runtime.run("desk", "dig", thread=T)

        log = await here.runtime.messages(T)
        waiting = await waiting_threads(here.store)
    assert read_twice(log) == []
    assert [m.text() for m in log if m.is_visible_user()] == ["hello", "dig", "pay Bob"]
    assert not waiting
