"""What the store did not take is tried again by the process that knows it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, Runtime, tool
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import CANCELLED, RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.store.commits import Committed, NeverLost, ThreadCommit, has_outcomes
from awaken.core.task import TaskStatus
from awaken.errors import RunLeft, StorageError, StoreUnavailable
from awaken.ext.tasks.records import ATTEMPTS
from awaken.ext.tasks.task import find_live_task
from awaken.stores.memory import MemoryStore
from awaken.testing import FakeClock, FunctionModel, text_response, tool_call_response
from awaken.worker import pending_commits, shutdown

pytestmark = pytest.mark.anyio

T = "t"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is held is tried again at once."""
    monkeypatch.setattr(pending_commits, "RETRY_SECONDS", 0.01)


def calling(name: str) -> FunctionModel:
    """A model that makes one call, and is done."""

    def answer(request: InferenceRequest) -> StreamResult:
        if any(message.role is Role.TOOL for message in request.messages):
            return text_response("Done.")
        return tool_call_response("", name, "c1", {})

    return FunctionModel(answer)


class File:
    """A database that another program can lock."""

    def __init__(self, home: Path) -> None:
        self.path = home / "awaken.db"
        self._other = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        self.effects: list[str] = []

    def runtime(self, **more: Any) -> Runtime:
        """A runtime with an agent that charges, once; the database is locked meanwhile."""

        @tool
        async def charge() -> str:
            """Charge."""
            self.effects.append("charge")
            if len(self.effects) == 1:
                self.lock()
            return "charged"

        agent = Agent("shop", model=calling("charge"), tools=[charge])
        address = f"sqlite:///{self.path}?busy_timeout=0.05"
        return Runtime([agent], store=address, clock=FakeClock(auto=True), **more)

    def lock(self) -> None:
        self._other.execute("BEGIN IMMEDIATE")

    def unlock(self) -> None:
        if self._other.in_transaction:
            self._other.execute("ROLLBACK")

    def close(self) -> None:
        self._other.close()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[File]:
    file = File(tmp_path)
    yield file
    file.close()


async def results(runtime: Runtime) -> list[str]:
    return [m.text() for m in await runtime.messages(T) if m.role is Role.TOOL]


# -- without recovery -------------------------------------------------------------------------


async def test_a_thread_is_given_up_once_the_store_is_back_also_without_recovery(
    file: File,
) -> None:
    async with file.runtime(recover=False) as here, file.runtime(recover=False) as there:
        await there.list_runs()  # its file is open before it is locked
        with pytest.raises(StorageError):
            await here.run("shop", "Go!", thread=T)
        file.unlock()
        async with asyncio.timeout(100):
            await there.run("shop", "And now?", thread=T, when_busy="queue")

        assert "charged" in await results(there)
    assert file.effects == ["charge"]


async def test_a_cancel_ends_a_run_whose_results_were_held(file: File) -> None:
    async with file.runtime(recover=False) as runtime:
        with pytest.raises(StorageError):
            await runtime.run("shop", "Go!", thread=T)
        file.unlock()
        receipt = await runtime.cancel(T, deadline=550)
        (run,) = await runtime.list_runs()

        assert receipt.complete
        assert run.termination_reason == CANCELLED
        assert await results(runtime) == ["charged"]


class Refusing(MemoryStore):
    """A store that does not take some commits, so often."""

    def __init__(self, refuses: Callable[[ThreadCommit], bool], times: int = 1_000_000) -> None:
        super().__init__()
        self._refuses = refuses
        self.left = times

    async def commit(self, commit: ThreadCommit) -> Committed:
        if self.left and self._refuses(commit):
            self.left -= 1
            raise StoreUnavailable("not now")
        return await super().commit(commit)


def ends_a_task(commit: ThreadCommit) -> bool:
    run = commit.run
    return run is not None and run.is_task and run.status is RunStatus.DONE


def digger() -> Agent:
    """An agent that digs in the background, once."""

    @tool
    async def dig() -> str:
        """Dig."""
        return "found gold"

    return Agent("digger", model=calling("dig"), background=[dig])


def test_run_sync_returns_once_the_store_has_taken_how_a_task_ended() -> None:
    store = Refusing(ends_a_task, times=ATTEMPTS + 2)
    runtime = Runtime([digger()], store=store, clock=FakeClock(auto=True))

    assert runtime.run_sync("digger", "Go!", thread=T).response == "Done."
    assert store.left == 0


async def test_a_runtime_that_closes_tries_once_more_to_keep_how_a_task_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pending_commits, "RETRY_SECONDS", 3600)
    store = Refusing(ends_a_task)
    async with Runtime([digger()], store=store, clock=FakeClock(auto=True)) as runtime:
        await runtime.run("digger", "Go!", thread=T)
        (run,) = [run for run in await runtime.list_runs() if run.is_task]
        if (live := find_live_task(run.run_id)) is not None and live.runner is not None:
            await asyncio.wait([live.runner])
        store.left = 0

    async with Runtime([digger()], store=store) as runtime:
        (task,) = await runtime.tasks()
        assert (task.status, task.result) == (TaskStatus.COMPLETED, "found gold")


def test_run_sync_finds_results_that_were_held_when_it_was_called_before() -> None:
    """No event loop was there meanwhile; the thread of another call was not asked for again."""
    store = Refusing(lambda commit: has_outcomes(commit.calls))
    runtime = charging(store)
    with pytest.raises(StorageError):
        runtime.run_sync("shop", "Go!", thread="other")
    with pytest.raises(StorageError):
        runtime.run_sync("shop", "Go!", thread=T)
    store.left = 0

    assert runtime.run_sync("shop", "And now?", thread=T).response == "Done."
    assert asyncio.run(results(runtime)) == ["charged"]
    assert asyncio.run(owner_of(store, "other")) is None


async def owner_of(store: MemoryStore, thread_id: str) -> str | None:
    thread = await store.load_thread(thread_id)
    return thread.owner if thread is not None else None


@pytest.mark.usefixtures("hurry")
@pytest.mark.parametrize("is_back", [False, True])
async def test_a_task_that_ends_while_its_runtime_closes_is_kept_or_said_to_be_lost(
    is_back: bool, caplog: pytest.LogCaptureFixture
) -> None:
    store = Refusing(ends_a_task)
    clock = Halting(store)
    async with Runtime([digger()], store=store, clock=clock) as runtime:
        running = asyncio.ensure_future(runtime.run("digger", "Go!", thread=T))
        await clock.halted.wait()
        store.left = 0 if is_back else store.left
        await runtime.engine.cancel_all()
        clock.go.set()
    await asyncio.wait([running])

    async with Runtime([digger()], store=store, recover=False) as runtime:
        (task,) = await runtime.tasks()
    assert (task.status is TaskStatus.COMPLETED) is is_back
    assert ("the end of its run is lost" in caplog.text) is not is_back


class Halting(FakeClock):
    """A clock that stands still once a store has refused something, until it is let go."""

    def __init__(self, store: Refusing) -> None:
        super().__init__(auto=True)
        self._store, self._times = store, store.left
        self.halted, self.go = asyncio.Event(), asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        if self._store.left < self._times:
            self.halted.set()
            await self.go.wait()
        await super().sleep(seconds)


# -- at the same time -------------------------------------------------------------------------


class Slow(Refusing):
    """A store that takes what it had refused only when it is let."""

    def __init__(self) -> None:
        super().__init__(lambda commit: has_outcomes(commit.calls))
        self.trying, self.go = asyncio.Event(), asyncio.Event()

    async def find_commit(self, commit: ThreadCommit) -> Committed | None:
        if not self.left:
            self.trying.set()
            await self.go.wait()
        return await super().find_commit(commit)


def charging(store: MemoryStore, **more: Any) -> Runtime:
    """A runtime with an agent that charges, and one that pays if it may."""

    @tool
    async def charge() -> str:
        """Charge."""
        return "charged"

    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    shop = Agent("shop", model=calling("charge"), tools=[charge])
    payer = Agent("payer", model=calling("pay"), tools=[pay])
    return Runtime([shop, payer], store=store, clock=FakeClock(auto=True), **more)


async def test_a_request_waits_for_results_that_are_just_being_kept() -> None:
    """It is not told that the thread runs: no run is live in it."""
    store = Slow()
    async with charging(store, recover=False) as runtime:
        with pytest.raises(StorageError):
            await runtime.run("shop", "Go!", thread=T)
        store.left = 0
        await store.trying.wait()
        asking = asyncio.ensure_future(runtime.run("shop", "And now?", thread=T))
        await asyncio.sleep(0)
        store.go.set()

        assert (await asking).response == "Done."
        assert await results(runtime) == ["charged"]


# -- one thread of many -----------------------------------------------------------------------


def refuses_big(commit: ThreadCommit) -> bool:
    return commit.thread_id == "big" and has_outcomes(commit.calls)


async def test_a_thread_whose_results_are_held_keeps_no_other_from_being_recovered() -> None:
    store = Refusing(refuses_big)
    async with charging(store, recover=False) as runtime:
        with pytest.raises(StorageError):
            await runtime.run("shop", "Go!", thread="big")
        asked = await runtime.run("payer", "Go!", thread=T)
        await runtime.decide(T, {asked.tickets[0]: True})
        (run,) = await runtime.recover()

        assert (await run).response == "Done."


async def test_a_command_for_a_thread_whose_results_are_held_keeps_no_other_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(NeverLost, "poll_interval", 3600)
    store = Refusing(refuses_big)
    async with charging(store) as runtime, charging(store, recover=False) as elsewhere:
        with pytest.raises(StorageError):
            await runtime.run("shop", "Go!", thread="big")
        asked = await runtime.run("payer", "Go!", thread=T)
        await elsewhere.cancel("big", deadline=0)
        await elsewhere.decide(T, {asked.tickets[0]: True})

        assert (await elsewhere.wait(T, timeout=250)).response == "Done."


# -- closing ----------------------------------------------------------------------------------


class Stuck(MemoryStore):
    """A store that never answers to a commit that tells how a call ended; it is back when the
    process does not wait any more, or never."""

    def __init__(self, *, comes_back: bool) -> None:
        super().__init__()
        self.immediate = False
        self.away, self._comes_back = True, comes_back
        self.asked = asyncio.Event()

    async def commit(self, commit: ThreadCommit) -> Committed:
        if self.away and has_outcomes(commit.calls):
            self.asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.away = not self._comes_back
        return await super().commit(commit)


async def close(runtime: Runtime, on_close: str) -> None:
    """Close a runtime that gives nothing time to end."""
    if on_close == "leave":
        await runtime.engine.leave_all(grace=0.05)
    await runtime.close()


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is given time to end."""
    monkeypatch.setattr(shutdown, "CANCEL_GRACE", 0.05)


@pytest.mark.usefixtures("hurry")
async def test_a_run_that_is_left_while_the_store_is_away_loses_no_result() -> None:
    store = Stuck(comes_back=True)
    async with charging(store, on_close="leave") as runtime:
        running = asyncio.ensure_future(runtime.run("shop", "Go!", thread=T))
        await store.asked.wait()
        await close(runtime, "leave")
    with pytest.raises(RunLeft):
        await running

    async with charging(store, recover=False) as runtime:
        (run,) = await runtime.recover()
        assert (await run).response == "Done."
        assert await results(runtime) == ["charged"]


@pytest.mark.usefixtures("hurry")
@pytest.mark.parametrize("on_close", ["leave", "cancel"])
async def test_a_result_that_cannot_be_kept_before_a_runtime_closes_is_said_to_be_lost(
    on_close: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = Stuck(comes_back=False)
    async with charging(store, on_close=on_close) as runtime:
        running = asyncio.ensure_future(runtime.run("shop", "Go!", thread=T))
        await store.asked.wait()
        await close(runtime, on_close)
    with pytest.raises((RunLeft, asyncio.CancelledError)):
        await running

    assert "the outcomes of these calls are lost: charge (" in caplog.text
