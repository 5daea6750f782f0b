"""News that comes at the very moment when its run goes back to waiting, on every store.

No test waits for a periodic look at the store: such looks are switched off.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import pytest
from delegation_kit import T
from task_kit import Yard, dig, over, tasks_in, told, told_in, until_told

from awaken import Agent, Message, Runtime, ToolCallResume, tool
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import CANCELLED, RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.run import RunRecord
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import Committed, Fence, NeverLost, ThreadCommit
from awaken.core.store.store import Store
from awaken.core.store.threads import TicketQuery
from awaken.errors import AgentNotFound
from awaken.stores import waiting
from awaken.stores.memory import MemoryStore
from awaken.stores.postgres import PostgresStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing import (
    FunctionModel,
    ScriptedModel,
    text_response,
    tool_call_response,
    tool_calls_response,
)
from awaken.worker.live_runs import ActiveRun

pytestmark = pytest.mark.anyio

DONE = RunStatus.DONE
Happens = Callable[[], Awaitable[None]]
OFFSETS = range(40)
"""How many passes of the event loop after the model's answer a task ends. A run without I/O has
gone back to waiting, and freed its thread, long before the last of them."""


@pytest.fixture(autouse=True)
def never_looks_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NeverLost, "poll_interval", 3600)
    monkeypatch.setattr(waiting, "REPEAT_SECONDS", 3600)


class Paused:
    """A part of a store: something happens once, at one instant of a pause of the thread's run."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.instant = ""
        self.happens: Happens | None = None
        self._has_paused = False

    async def commit(self, commit: ThreadCommit) -> Committed:
        run = commit.run
        pauses = run is not None and run.thread_id == T and run.status is RunStatus.WAITING
        if pauses:
            await self._happens("before the commit")
        committed: Committed = await super().commit(commit)  # type: ignore[misc]
        if pauses:
            self._has_paused = True
            await self._happens("after the commit")
        return committed

    async def load_commands(
        self, thread_id: str, *, skip: Collection[int] = ()
    ) -> Sequence[ThreadCommand]:
        found: Sequence[ThreadCommand] = await super().load_commands(thread_id, skip=skip)  # type: ignore[misc]
        if thread_id == T and self._has_paused:
            await self._happens("after the last look")
        return found

    def hear(self, run: ActiveRun) -> None:
        """A run has begun or ended in the runtime."""
        if run.thread_id == T and run.has_ended and self._has_paused:
            happening = asyncio.ensure_future(self._happens("after the end"))
            happening.add_done_callback(lambda done: done.result())

    async def _happens(self, instant: str) -> None:
        if instant == self.instant and self.happens is not None:
            happens, self.happens = self.happens, None
            await happens()


class PausedMemory(Paused, MemoryStore): ...


class PausedSqlite(Paused, SqliteStore): ...


class PausedPostgres(Paused, PostgresStore): ...


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def stores(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[Any, Store]]:
    """The store of the run's process, and that of another process."""
    if request.param == "memory":
        store = PausedMemory()
        yield store, store
        return
    mine: SqliteStore | PostgresStore
    other: SqliteStore | PostgresStore
    if request.param == "sqlite":
        mine, other = PausedSqlite(tmp_path / "a.db"), SqliteStore(tmp_path / "a.db")
    else:
        address = request.getfixturevalue("postgres").address()
        mine, other = PausedPostgres(address), PostgresStore(address)
    yield mine, other
    await mine.close()
    await other.close()


INSTANTS = ["before the commit", "after the commit", "after the last look", "after the end"]


@pytest.fixture(params=INSTANTS)
def instant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Digging:
    """A run with two tasks, which has paused once and pauses again when the first has ended."""

    def __init__(self, store: Any, instant: str, *, recover: bool) -> None:
        self.yard, self.store, self.instant = Yard(), store, instant
        self.runtime = Runtime([self.yard.digger(dig(1, 2))], store=store, recover=recover)

    async def pause(self, happens: Happens) -> None:
        await self.runtime.run("digger", "Dig!", thread=T)
        self.runtime.engine.active.changes.subscribe(self.store.hear)
        self.store.instant, self.store.happens = self.instant, happens
        self.yard.let_go(1)

    async def end_second(self) -> None:
        """Let the second task end, and wait until the store knows."""
        open_tasks = [task for task in await tasks_in(self.runtime) if task.status is not DONE]
        second = open_tasks[0].run_id
        self.yard.let_go(2)
        seen = 0
        while True:
            run = await self.store.load_run(second)
            if run.status is DONE:
                return
            seen = await self.store.wait_changed(second, seen)


@pytest.mark.parametrize("recover", [True, False])
async def test_a_task_that_ends_while_its_owner_pauses_is_heard(
    stores: tuple[Any, Store], instant: str, recover: bool
) -> None:
    digging = Digging(stores[0], instant, recover=recover)
    async with digging.runtime as runtime, asyncio.timeout(100):
        await digging.pause(digging.end_second)
        await until_told(runtime, 2)
        await over(runtime)
        assert [news.partition(" ")[2] for news in await told(runtime)] == [
            "completed dug 1",
            "completed dug 2",
        ]


async def test_a_message_from_another_process_is_read_by_a_run_that_pauses(
    stores: tuple[Any, Store], instant: str
) -> None:
    store, other = stores
    digging = Digging(store, instant, recover=True)

    async def send() -> None:
        messages = (Message.user("Deeper!", id="m"),)
        await other.send(ThreadCommand(thread_id=T, kind=CommandKind.MESSAGES, messages=messages))

    async with digging.runtime as runtime, asyncio.timeout(100):
        await digging.pause(send)
        seen = 0
        while "m" not in [message.id for message in await runtime.messages(T)]:
            seen = await store.wait_changed(T, seen)
        digging.yard.let_go(2)
        await over(runtime)


async def test_a_cancel_from_another_process_reaches_a_run_that_pauses(
    stores: tuple[Any, Store], instant: str
) -> None:
    store, other = stores
    digging = Digging(store, instant, recover=True)

    async def cancel() -> None:
        await other.cancel_tree(T, at_ms=1)

    async with digging.runtime as runtime, asyncio.timeout(100):
        await digging.pause(cancel)
        assert (await over(runtime)).termination_reason == CANCELLED


@pytest.mark.parametrize("instant", INSTANTS[1:])  # before the commit, there is no question
@pytest.mark.parametrize("is_other", [False, True], ids=["this process", "another"])
async def test_an_answer_is_carried_out_by_a_run_that_pauses(
    stores: tuple[Any, Store], instant: str, is_other: bool
) -> None:
    (store, other), yard = stores, Yard()
    payer = yard.agent("payer", [("pay", {"n": 1})])
    async with Runtime([payer], store=store) as runtime, asyncio.timeout(100):

        async def decide() -> None:
            (ticket,) = await store.list_tickets(TicketQuery(thread_id=T))
            if is_other:
                await other.decide(T, [(ticket.key, ToolCallResume.approve())], at_ms=1)
            else:
                assert await runtime.decide(ticket.run_id, {ticket.key: True})

        runtime.engine.active.changes.subscribe(store.hear)
        store.instant, store.happens = instant, decide
        await runtime.run("payer", "Pay!", thread=T)
        assert (await over(runtime)).status is DONE
        assert yard.done == ["paid 1"]


def after(passes: int, does: Callable[[], object]) -> None:
    """Call `does` after so many passes of the event loop."""
    loop = asyncio.get_running_loop()
    if passes:
        loop.call_soon(after, passes - 1, does)
    else:
        does()


def digger(yard: Yard, offset: int) -> Agent:
    """An agent with two tasks. The second one ends so many passes of the event loop after the model
    was told that the first one has ended."""

    def answer(request: InferenceRequest) -> StreamResult:
        if not any(message.tool_calls for message in request.messages):
            return tool_calls_response("", ("dig", "a", {"n": 1}), ("dig", "b", {"n": 2}))
        if len(told_in(request.messages)) == 1:
            after(offset, lambda: yard.let_go(2))
        return text_response("Well?")

    return Agent("digger", model=FunctionModel(answer), background=[yard.tool("dig")])


@pytest.mark.parametrize("recover", [True, False])
async def test_a_task_may_end_at_any_pass_of_the_event_loop(recover: bool) -> None:
    for offset in OFFSETS:
        yard = Yard()
        async with Runtime([digger(yard, offset)], recover=recover) as runtime:
            await runtime.run("digger", "Dig!", thread=T)
            yard.let_go(1)
            async with asyncio.timeout(100):
                await until_told(runtime, 2)
                await over(runtime)


async def test_a_cancel_that_comes_at_the_last_look_of_a_run_with_a_question_ends_it() -> None:
    store = PausedMemory()

    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    agent = Agent(
        "payer", model=ScriptedModel([tool_call_response("", "pay", "c", {})]), tools=[pay]
    )
    async with Runtime([agent], store=store, recover=False) as runtime:
        cancelling: list[asyncio.Future[Any]] = []

        async def cancel() -> None:
            cancelling.append(asyncio.ensure_future(runtime.cancel(T)))
            for _ in range(20):
                await asyncio.sleep(0)  # the cancel is stored, and left to the run

        store.instant, store.happens = "after the last look", cancel
        await runtime.run("payer", "Pay!", thread=T)
        assert await cancelling[0]
        run = await store.latest_run(T)
        assert run is not None
        assert run.termination_reason == CANCELLED


class Taken(MemoryStore):
    """A store in which a request takes the thread while another task looks for runs to resume. The
    request cannot be carried out, and ends when that task has seen it."""

    def __init__(self) -> None:
        super().__init__()
        self.takes: Callable[[], Awaitable[object]] | None = None
        self.failed: list[BaseException | None] = []
        self.may_claim = asyncio.Event()
        self.may_claim.set()

    async def list_interrupted(
        self, *, now_ms: int, thread_id: str | None = None, limit: int | None = None
    ) -> Sequence[RunRecord]:
        found = await super().list_interrupted(now_ms=now_ms, thread_id=thread_id, limit=limit)
        takes, self.takes = self.takes, None
        if takes is not None and found:
            taking = asyncio.ensure_future(takes())
            taking.add_done_callback(lambda done: self.failed.append(done.exception()))
            await asyncio.sleep(0)  # it has the thread now
            after(5, self.may_claim.set)
        return found

    async def claim(self, thread_id: str, *, at_ms: int) -> Fence:
        if thread_id == T:
            await self.may_claim.wait()
        return await super().claim(thread_id, at_ms=at_ms)


async def test_news_is_heard_though_a_request_that_fails_has_the_thread_meanwhile() -> None:
    store, yard = Taken(), Yard()
    async with Runtime([yard.digger(dig(1))], store=store, recover=False) as runtime:
        await runtime.run("digger", "Dig!", thread=T)
        store.may_claim.clear()
        store.takes = lambda: runtime.run("nobody", "Dig!", thread=T)
        yard.let_go(1)
        async with asyncio.timeout(100):
            await until_told(runtime, 1)
        assert [type(error) for error in store.failed] == [AgentNotFound]
