"""Messages to a live run while another process waits for its thread (design §1.1, 06 §2.5)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
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


@asynccontextmanager
async def two_processes(tmp_path: Path) -> AsyncIterator[tuple[Desk, Desk]]:
    """Two processes on one file."""
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
        here, there = Desk(tmp_path / "a.db"), Desk(tmp_path / "a.db")
        for desk in (here, there):
            await desk.store.open()
            stack.push_async_callback(desk.store.close)
            await stack.enter_async_context(desk.runtime)
        yield here, there


@asynccontextmanager
async def dig_and_queue(
    here: Desk, there: Desk, prompt: str = "dig", *, queued: str = "and?"
) -> AsyncIterator[None]:
    """A run of `here` that digs while one of `there` waits for its thread. In the end it is let go,
    both have ended, and no message was read twice."""
    async with asyncio.TaskGroup() as group:
        group.create_task(here.runtime.run("desk", prompt, thread=T))
        await here.digging.wait()
        group.create_task(there.runtime.run("desk", queued, thread=T, when_busy="queue"))
        yield
        here.dug.set()
    assert read_twice(await here.runtime.messages(T)) == []


def read_twice(log: Sequence[Message]) -> list[str | None]:
    return [id for id, times in Counter(message.id for message in log).items() if times > 1]


async def newest(store: SqliteStore) -> int:
    """The number of the command that was sent last."""
    return max(command.id for command in await store.load_commands(T))


@pytest.mark.parametrize("sender", ["the owner", "the queueing process"])
async def test_a_message_to_a_live_run_is_read_once_though_another_process_queues(
    tmp_path: Path, sender: str
) -> None:
    """The queueing process has a place for the thread, but does not own it: a message that it sends
    is the owner's to read."""
    async with two_processes(tmp_path) as (here, there):
        sends, other = (here, there) if sender == "the owner" else (there, here)
        async with dig_and_queue(here, there):
            assert await sends.runtime.send(T, "pay Bob")
            await other.store.has_passed_on(await newest(here.store))
        log = await here.runtime.messages(T)
    assert [m.text() for m in log if m.is_visible_user()] == ["dig", "pay Bob", "and?"]


async def test_the_end_of_a_task_is_read_once_though_another_process_queues(
    tmp_path: Path,
) -> None:
    async with two_processes(tmp_path) as (here, there):
        async with dig_and_queue(here, there, "bake and dig"):
            here.baked.set()
            version = 0
            while not await here.store.load_commands(T):
                version = await here.store.wait_changed(T, version)
            await there.store.has_passed_on(await newest(here.store))
        log = await here.runtime.messages(T)
    assert sum("a cake" in m.text() for m in log) == 1


async def test_commands_that_were_read_before_the_thread_was_claimed_are_not_passed_on_after(
    tmp_path: Path,
) -> None:
    """The first owner has acknowledged them in between."""
    async with two_processes(tmp_path) as (here, there), dig_and_queue(here, there, queued="dig"):
        there.store.hold.clear()
        assert await here.runtime.send(T, "pay Bob")
        number = await newest(here.store)
        await there.store.read.wait()
        here.dug.set()
        await there.digging.wait()
        there.store.hold.set()
        await there.store.has_passed_on(number)
        there.dug.set()


async def test_a_message_that_comes_while_a_run_is_put_together_is_read_by_it(
    tmp_path: Path,
) -> None:
    """What was heard too early for the run is looked up once it can be reached."""
    async with two_processes(tmp_path) as (here, there):
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
