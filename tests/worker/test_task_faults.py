"""Background tasks and a store that fails, loses answers, or is just too late (03/DB-2)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence

import msgspec
import pytest
from delegation_kit import T, ended, open_runs, record
from delegation_kit import told as answered
from task_kit import Started, Yard, boss, dig, over, tasks_in, told, working

from awaken import Agent, Runtime
from awaken.core.lifecycle import CANCELLED, NATURAL_END, RunStatus
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import CallEntry, Committed, NeverLost, ThreadCommit
from awaken.errors import CommitUnknown, StoreUnavailable
from awaken.ext.tasks import BackgroundTaskPlugin
from awaken.ext.tasks.task import find_live_task
from awaken.stores.memory import MemoryStore
from awaken.testing import FakeClock
from awaken.testing.failing_store import CommitFailure

pytestmark = pytest.mark.anyio


class FailingTasks(MemoryStore):
    """A store that fails where tasks begin or end, so often."""

    def __init__(self, at: RunStatus, failure: CommitFailure, times: int = 1) -> None:
        super().__init__()
        self._at, self._failure = at, failure
        self.left = times

    async def commit(self, commit: ThreadCommit) -> Committed:
        run = commit.run
        if not self.left or run is None or not run.is_task or run.status is not self._at:
            return await super().commit(commit)
        self.left -= 1
        if self._failure is CommitFailure.REFUSED:
            raise StoreUnavailable("not now")
        if self._failure is CommitFailure.LANDED:
            await super().commit(commit)
        raise CommitUnknown("the answer was lost")


BEGUN, ENDED = RunStatus.RUNNING, RunStatus.DONE


def runner_of(uid: str) -> asyncio.Future[None]:
    """What runs a task that is live in this process."""
    task = find_live_task(uid)
    assert task is not None
    assert task.runner is not None
    return task.runner


@pytest.mark.parametrize(
    ("at", "failure"),
    [
        (BEGUN, CommitFailure.LOST),
        (BEGUN, CommitFailure.LANDED),
        (ENDED, CommitFailure.LOST),
        (ENDED, CommitFailure.LANDED),
        (ENDED, CommitFailure.REFUSED),
    ],
)
async def test_a_task_runs_once_and_its_owner_is_told_once(
    at: RunStatus, failure: CommitFailure
) -> None:
    """An answer that was lost is looked for; what was refused is tried again."""
    yard, store = Yard(), FailingTasks(at, failure)

    async with Runtime([yard.digger(dig(1))], store=store, clock=FakeClock(auto=True)) as runtime:
        await runtime.run("digger", "go", thread=T)
        yard.let_go(1)
        run = await over(runtime)
        (task,) = await tasks_in(runtime)
        assert await told(runtime) == ["bg_0 completed dug 1"]
        assert await store.load_commands(T) == []

    assert store.left == 0
    assert len(yard.calls) == 1
    assert task.termination_reason == NATURAL_END
    assert run.final_output == "digger: bg_0 completed dug 1"


async def test_a_task_that_cannot_be_kept_does_not_start() -> None:
    """The model is told; nothing is left behind, and the next task can begin."""
    yard, store = Yard(), FailingTasks(BEGUN, CommitFailure.REFUSED)

    async with Runtime([yard.digger(dig(1), dig(2))], store=store) as runtime:
        await runtime.run("digger", "go", thread=T)
        yard.let_go(1, 2)
        run = await over(runtime)
        refused, _ = await answered(runtime)
        assert len(await tasks_in(runtime)) == 1

    assert "not now" in refused
    assert yard.done == ["dug 2"]
    assert (run.final_output or "").endswith("completed dug 2")


async def test_an_end_that_a_store_did_not_take_is_kept_later() -> None:
    """03/DB-2: never left `running`: the next look around keeps how it ended, and tells."""
    yard, store = Yard(), FailingTasks(ENDED, CommitFailure.REFUSED, times=6)

    async with Runtime([yard.digger(dig(1))], store=store, clock=FakeClock(auto=True)) as runtime:
        await runtime.run("digger", "go", thread=T)
        (task,) = await tasks_in(runtime)
        gone = runner_of(task.run_id)
        yard.let_go(1)
        await asyncio.wait([gone])
        assert (await record(runtime, task.run_id)).status is RunStatus.RUNNING
        assert await runtime.recover() == []
        assert (await record(runtime, task.run_id)).status is RunStatus.RUNNING
        await runtime.recover()
        run = await over(runtime)
        kept = await record(runtime, task.run_id)
        assert await told(runtime) == ["bg_0 completed dug 1"]
        assert await open_runs(runtime) == []

    assert (kept.termination_reason, kept.final_output) == (NATURAL_END, "dug 1")
    assert run.final_output == "digger: bg_0 completed dug 1"
    assert len(yard.calls) == 1


async def test_the_end_of_a_task_that_was_taken_over_is_the_others_to_tell() -> None:
    """Whoever has lost a task to another process says nothing more of it."""
    yard, store = Yard(), MemoryStore()

    async with Runtime([yard.digger(dig(1))], store=store, recover=False) as runtime:
        await runtime.run("digger", "go", thread=T)
        (task,) = await tasks_in(runtime)
        gone = runner_of(task.run_id)
        store.forsake()
        await store.claim(task.run_id, at_ms=0)
        yard.let_go(1)
        await asyncio.wait([gone])
        assert (await record(runtime, task.run_id)).status is RunStatus.RUNNING
        await runtime.engine.tasks.release_idle()
        assert await store.load_commands(T) == []
        assert runtime.engine.active.find_by_run(task.run_id) is None


async def test_a_task_that_is_gone_without_a_word_is_taken_up() -> None:
    """Whoever tears its work out from under it leaves it to the next look around."""
    yard = Yard()

    async with Runtime([yard.digger(dig(1))]) as runtime:
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun()
        (task,) = await tasks_in(runtime)
        gone = runner_of(task.run_id)
        gone.cancel()
        await asyncio.wait([gone])
        await runtime.recover()
        await yard.until_begun()
        yard.let_go(1)
        run = await over(runtime)
        assert await told(runtime) == ["bg_0 completed dug 1"]

    assert len({call.idempotency_key for call in yard.calls}) == 1
    assert run.final_output == "digger: bg_0 completed dug 1"


class Unread(MemoryStore):
    """A store that cannot read calls when it is away."""

    away = False

    async def load_calls(self, run_id: str) -> Sequence[CallEntry]:
        if self.away:
            raise StoreUnavailable("not now")
        return await super().load_calls(run_id)


async def test_a_task_is_cancelled_though_what_its_agent_had_done_cannot_be_read() -> None:
    yard, store = Yard(), Unread()
    helper = yard.agent("helper", [("blast", {"n": 1})])

    async with Runtime([boss(helper), helper], store=store, recover=False) as runtime:
        await runtime.run("boss", "go", thread=T)
        await yard.until_begun()
        (task,) = await tasks_in(runtime)
        store.away = True
        assert runtime.engine.cancel(task.run_id)
        ended_as = (await ended(runtime, task.run_id)).termination_reason
        (seen,) = await runtime.tasks()

    assert ended_as == CANCELLED
    assert seen.error == "it is unknown what it had done before that"


# -- just too late ----------------------------------------------------------------------------


class Late(MemoryStore):
    """A store in which something happens just behind what is read last before a run pauses."""

    def __init__(self) -> None:
        super().__init__()
        self.happens: Callable[[], Awaitable[None]] | None = None

    async def load_commands(
        self, thread_id: str, *, skip: Collection[int] = ()
    ) -> Sequence[ThreadCommand]:
        found = await super().load_commands(thread_id, skip=skip)
        run = await self.latest_run(thread_id)
        if self.happens is not None and run is not None and run.status is RunStatus.WAITING:
            happens, self.happens = self.happens, None
            await happens()
        return found


async def test_a_task_that_ends_while_its_run_pauses_is_not_overlooked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run has looked for the last time, and is not gone yet: still it goes on at once."""
    monkeypatch.setattr(NeverLost, "poll_interval", 3600)
    yard, store = Yard(), Late()

    async def the_task_ends() -> None:
        yard.let_go(1)
        (task,) = await tasks_in(runtime)
        await ended(runtime, task.run_id)
        for _ in range(20):
            await asyncio.sleep(0)  # everybody who listens hears of it, while the run is there

    store.happens = the_task_ends
    runtime = Runtime([yard.digger(dig(1))], store=store)
    async with runtime:
        await runtime.run("digger", "go", thread=T)
        run = await over(runtime)

    assert run.final_output == "digger: bg_0 completed dug 1"


class JustInTime(Late):
    """The same, and what has happened is read."""

    async def load_commands(
        self, thread_id: str, *, skip: Collection[int] = ()
    ) -> Sequence[ThreadCommand]:
        await super().load_commands(thread_id, skip=skip)
        return await MemoryStore.load_commands(self, thread_id, skip=skip)


@pytest.mark.parametrize("is_over", [False, True])
async def test_a_run_that_another_process_goes_on_with_as_it_pauses_is_returned_as_it_paused(
    is_over: bool,
) -> None:
    """Its caller asked for nothing that was refused."""
    yard, store = Yard(), JustInTime()

    async def another_is_quicker() -> None:
        run = await record(runtime, (await runtime.list_runs()).items[-1].run_id)
        fence = await store.claim(T, at_ms=1)
        if is_over:
            done = msgspec.structs.replace(
                run, status=RunStatus.DONE, revision=run.revision + 1, state=None
            )
            length = len(await store.load_messages(T))
            commit = ThreadCommit(
                thread_id=T, expected_length=length, run=done, fence=fence, release=True
            )
            await store.commit(commit)
        await store.send(ThreadCommand(thread_id=T, kind=CommandKind.MESSAGES))

    runtime = Runtime([yard.digger(dig(1))], store=store, recover=False)
    async with runtime:
        store.happens = another_is_quicker
        result = await runtime.run("digger", "go", thread=T)
        store.forsake()
        yard.let_go(1)

    assert result.waiting


async def test_an_end_and_a_cancel_at_once_are_one_end() -> None:
    """Whichever comes first: the task ends once, and its owner is told once."""
    yard = Yard()

    async with Runtime([yard.digger(dig(1))]) as runtime:
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun()
        (task,) = await tasks_in(runtime)
        yard.let_go(1)
        await runtime.cancel(task.run_id)
        await over(runtime)
        news = await told(runtime)

    assert news in (["bg_0 completed dug 1"], ["bg_0 cancelled"])


# -- what only its maker can resume -----------------------------------------------------------


async def test_a_task_with_a_note_of_its_own_is_not_taken_up() -> None:
    """`TaskOptions.resume` is for who made it; the runtime knows how to run tools again."""
    started = Started(resume={"at": "page 7"})
    agent = Agent(
        "starter",
        model=working("starter", [("start", {})]),
        tools=[started.tool],
        plugins=[BackgroundTaskPlugin()],
    )
    store = MemoryStore()
    async with Runtime([agent], store=store, on_close="leave") as runtime:
        await runtime.run("starter", "go", thread=T)
        await started.begun.wait()
    async with Runtime([agent], store=store) as runtime:
        run = await over(runtime)

    why = "interrupted: the process ended while the task ran"
    assert run.final_output == f"starter: bg_0 failed {why}"
    assert len(started.tasks) == 1
