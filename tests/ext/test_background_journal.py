"""Tasks that survive their process, by a journal (03/DB-1, DB-4: optional durable adapters)."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from background_kit import (
    Bench,
    Gate,
    MemoryJournal,
    giving,
    settle,
    until_cancelled,
)

from awaken.core.task import PersistedTaskMeta, TaskParentContext, TaskStatus
from awaken.errors import RunLeft
from awaken.ext.tasks import (
    BackgroundTaskError,
    BackgroundTaskManager,
    TaskContext,
    TaskOptions,
    TaskResult,
)
from awaken.ext.tasks.handles import TaskHandles
from awaken.ext.tasks.record_rules import shorten_record

pytestmark = pytest.mark.anyio


async def test_a_task_begins_only_after_the_journal_knows_it() -> None:
    """Durable before the body starts, with what is needed to take it up again."""
    journal = MemoryJournal()
    bench, order = Bench(journal=journal), []

    async def before() -> None:
        order.append("journal")
        await settle()

    async def body(ctx: TaskContext) -> TaskResult:
        order.append("body")
        return TaskResult.success("x")

    journal.before_begin = before
    task_id = await bench.spawn(body, options=TaskOptions(resume={"how": "so"}))
    await bench.ended(task_id)

    assert order == ["journal", "body"]
    uid = bench.record(task_id).uid
    assert journal.resumes == {uid: {"how": "so"}}
    assert journal.tasks[uid].result == "x"
    assert shorten_record(journal.tasks[uid]) == bench.record(task_id)


async def test_a_task_the_journal_refuses_does_not_start() -> None:
    """On any error nothing starts, and its name is free again."""
    journal = MemoryJournal()
    bench, started = Bench(journal=journal), []

    async def refuse() -> None:
        raise OSError("disk full")

    async def body(ctx: TaskContext) -> TaskResult:
        started.append(ctx.task_id)
        return TaskResult.success()

    journal.before_begin = refuse
    with pytest.raises(OSError, match="disk full"):
        await bench.spawn(body, name="scout")
    await settle()

    assert started == []
    assert bench.manager.records.state_records() == {}
    journal.before_begin = None
    await bench.ended(await bench.spawn(body, name="scout"))
    assert len(started) == 1


async def test_a_start_that_is_cut_short_is_taken_back() -> None:
    """Whoever starts a task may be cancelled meanwhile: nothing may look as if it ran."""
    journal = MemoryJournal()
    bench, reached, go_on = Bench(journal=journal), asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        reached.set()
        await go_on.wait()

    journal.before_begin = slow
    starting = asyncio.create_task(bench.spawn(giving()))
    await reached.wait()
    starting.cancel()
    await settle()
    assert starting.cancelled()
    go_on.set()
    await settle()

    assert [task.status for task in journal.tasks.values()] == [TaskStatus.CANCELLED]
    assert journal.ends == [("cancelled", None)]
    assert bench.handles.live == {}


@pytest.mark.parametrize("above", [None, "bg_99"])
async def test_a_run_that_is_cancelled_during_a_start_stops_the_task(above: str | None) -> None:
    """03 §1.2: step 6 closes the race, also for a task below one nobody knows any more."""
    journal = MemoryJournal()
    bench, started = Bench(journal=journal), []

    async def cancel_the_run() -> None:
        bench.cancel_descendants_for_run("run-1")

    async def body(ctx: TaskContext) -> TaskResult:
        started.append(ctx.task_id)
        return TaskResult.success()

    journal.before_begin = cancel_the_run
    parent = TaskParentContext(run_id="run-1", task_id=above)
    task_id = await bench.spawn(body, parent=parent)
    await bench.ended(task_id)

    assert started == []
    assert bench.status(task_id) == "cancelled"


@pytest.mark.parametrize("takes_over", [True, False])
async def test_the_owner_is_told_by_the_journal_or_by_the_inbox(takes_over: bool) -> None:
    """Once: what the journal has taken over is not sent as well."""
    journal = MemoryJournal(takes_over=takes_over)
    bench = Bench(journal=journal)

    task_id = await bench.spawn(giving("x"))
    await bench.ended(task_id)

    event = {"kind": "completed", "task_id": task_id, "result": "x"}
    assert journal.ends == [("completed", event)]
    assert bench.events() == ([] if takes_over else [event])
    await bench.restore_for_thread("thread-1", dict(bench.manager.records.state_records()))
    assert bench.events() == []


async def test_an_end_the_journal_cannot_take_is_tried_again() -> None:
    """03/DB-2: failed terminal commits are retried."""
    journal = MemoryJournal(takes_over=True)
    bench = Bench(journal=journal)
    journal.failures = 2

    task_id = await bench.spawn(giving("x"))
    for _ in range(2):
        await bench.clock.until_sleeping()
        assert bench.status(task_id) == "running"
        bench.clock.advance(60)
        await settle()
    await bench.ended(task_id)

    assert bench.status(task_id) == "completed"
    assert len(journal.ends) == 1


async def test_a_journal_that_never_comes_back_does_not_hold_the_owner_up() -> None:
    """03/DB-2: after some attempts the inbox is written to."""
    journal = MemoryJournal(takes_over=True)
    bench = Bench(journal=journal)
    bench.clock.auto = True
    journal.failures = 99

    task_id = await bench.spawn(giving("x"))
    await bench.ended(task_id)

    assert [event["kind"] for event in bench.events()] == ["completed"]


async def test_the_journal_takes_events_for_an_owner_who_does_not_listen() -> None:
    """`emit`: to the inbox while it is open, to the journal after that."""
    journal = MemoryJournal(takes_over=True)
    bench, gate = Bench(journal=journal), Gate()
    task_id = await bench.spawn(gate)
    await gate.begun.wait()
    assert gate.ctx is not None

    assert await gate.ctx.emit("note", 1)
    bench.inbox.close()
    assert await gate.ctx.emit("note", 2)
    journal.takes_over = False
    assert await gate.ctx.emit("note", 3) is False

    assert [event["payload"] for event in journal.emitted] == [2, 3]
    gate.open.set()
    await bench.ended(task_id)


async def test_a_task_that_runs_in_another_process_is_not_an_orphan() -> None:
    """03/DB-1: the journal is asked; what it knows counts, what it does not know is lost."""
    journal = MemoryJournal()
    elsewhere = Bench(journal=journal)
    ids = [await elsewhere.spawn(until_cancelled) for _ in range(3)]
    records = dict(elsewhere.manager.records.state_records())
    await leave(elsewhere)
    uids = [records[task_id].uid for task_id in ids]
    ended = elsewhere.record(ids[1])
    journal.tasks[uids[1]] = _completed(ended)
    del journal.tasks[uids[2]]
    here = Bench(journal=journal)

    await here.restore_for_thread("thread-1", records)

    assert [here.status(task_id) for task_id in ids] == ["running", "completed", "failed"]
    assert [event["task_id"] for event in here.events()] == [ids[2]], (
        "the journal tells of the rest"
    )
    assert here.cancel(ids[0]) is False, "what runs elsewhere is not this process's to stop"
    assert [s.status.value for s in await here.wait([ids[0]])] == ["running"]


def _completed(task: PersistedTaskMeta) -> PersistedTaskMeta:
    return msgspec.structs.replace(task, status=TaskStatus.COMPLETED, result="elsewhere")


async def leave(bench: Bench) -> None:
    async with asyncio.timeout(100):
        await bench.handles.close(leave=True)


async def test_closing_leaves_what_the_journal_keeps() -> None:
    """The next process takes it up: it has not ended, and nobody is told that it has."""
    journal = MemoryJournal()
    bench = Bench(journal=journal)
    kept = await bench.spawn(until_cancelled)
    bench.manager.set_journal(None)
    lost = await bench.spawn(until_cancelled)
    await settle()

    await leave(bench)

    assert bench.record(kept).status is TaskStatus.RUNNING
    assert journal.ends == []
    assert bench.record(lost).status is TaskStatus.CANCELLED
    assert [event["task_id"] for event in bench.events()] == [lost]


async def test_a_body_whose_run_is_carried_on_elsewhere_leaves_its_task_open() -> None:
    """A run inside a task was left to another process, and so is the task."""
    journal = MemoryJournal()
    bench = Bench(journal=journal)

    async def body(_: TaskContext) -> TaskResult:
        raise RunLeft("sub-run")

    task_id = await bench.spawn(body)
    await settle()

    assert bench.record(task_id).status is TaskStatus.RUNNING
    assert journal.ends == []
    assert bench.handles.live == {}


async def test_a_task_is_taken_up_under_its_old_names() -> None:
    """In another process, without a live run: the journal hears of its end."""
    journal = MemoryJournal(takes_over=True)
    first = Bench(journal=journal)
    task_id = await first.spawn(until_cancelled)
    record = first.record(task_id)
    await leave(first)

    manager = BackgroundTaskManager(TaskHandles(clock=first.clock), journal=journal)
    assert manager.resume_task(record, giving("second life")) == task_id
    assert manager.resume_task(record, giving("not twice")) == task_id
    async with asyncio.timeout(100):
        await manager.wait([task_id])

    ended = journal.tasks[record.uid]
    assert (ended.status, ended.result) == (TaskStatus.COMPLETED, "second life")
    assert (ended.task_id, ended.created_at_ms) == (task_id, record.created_at_ms)
    assert len(journal.ends) == 1
    with pytest.raises(BackgroundTaskError, match="task 'bg_0' is completed already"):
        manager.resume_task(ended, giving())


async def test_a_run_that_looks_for_a_task_taken_up_here_keeps_that_it_has_it() -> None:
    """The call that started the task has no outcome on record, and its run no record of the task:
    without one the run would end before the task does."""
    journal = MemoryJournal(takes_over=True)
    first = Bench(journal=journal)
    task_id = await first.spawn(until_cancelled)
    record = first.record(task_id)
    await leave(first)
    here = Bench(journal=journal)
    BackgroundTaskManager(here.handles, journal=journal).resume_task(record, until_cancelled)
    here.manager.attach("thread-1", "run-2")
    assert here.manager.records.state_records() == {}

    found = await here.manager.records.find_by_uid(record.uid, "thread-1")

    assert found is not None
    assert list(here.manager.records.state_records()) == [task_id]
    await leave(here)


async def test_a_task_taken_up_reports_to_the_run_that_is_live() -> None:
    """03/DB-1: route by owner thread, whoever runs the body."""
    journal = MemoryJournal()
    first = Bench(journal=journal)
    task_id = await first.spawn(until_cancelled)
    record = first.record(task_id)
    await leave(first)
    here = Bench(journal=journal)
    here.manager.attach("thread-1", "run-2")
    await here.restore_for_thread("thread-1", {task_id: record})

    BackgroundTaskManager(here.handles, journal=journal).resume_task(record, giving("back"))
    await here.ended(task_id)

    (ended,) = await here.wait([task_id])
    assert ended.result == "back"
    assert here.events() == [{"kind": "completed", "task_id": task_id, "result": "back"}]
