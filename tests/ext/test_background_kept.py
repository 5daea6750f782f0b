"""What a thread's state has of its tasks where a journal has all of it (03 §1.1: metadata)."""

from __future__ import annotations

import pytest
from background_kit import Bench, MemoryJournal, call, call_context, giving

from awaken.codec import dumps_text
from awaken.core.task import PersistedTaskMeta, TaskParentContext, TaskStatus
from awaken.ext.tasks import BackgroundTaskManager, TaskContext, TaskResult
from awaken.ext.tasks.record_rules import ERROR_KEPT, shorten_record
from awaken.ext.tasks.state import BACKGROUND_TASK_STATE
from awaken.ext.tasks.task_tools import WaitTaskTool

pytestmark = pytest.mark.anyio

LONG = "x" * 20_000


def size(bench: Bench) -> int:
    """How much is written when a task changes."""
    state = bench.store.read(BACKGROUND_TASK_STATE)
    assert state is not None
    return len(dumps_text(state))


async def failing(_: TaskContext) -> TaskResult:
    return TaskResult.failed(LONG)


async def test_results_are_not_in_the_state_but_can_be_read() -> None:
    """The owner is told, whoever waits reads it, and the state stays small."""
    bench = Bench(journal=MemoryJournal())

    task_id = await bench.spawn(giving(LONG))
    await bench.ended(task_id)

    assert bench.record(task_id).result is None
    assert size(bench) < 1000
    assert bench.get(task_id).result == LONG
    (event,) = bench.events()
    assert event["result"] == LONG


async def test_a_later_process_reads_results_from_the_journal() -> None:
    """`wait_task`, page by page, and `wait`."""
    journal = MemoryJournal()
    first = Bench(journal=journal)
    task_id = await first.spawn(giving(LONG))
    await first.ended(task_id)

    later = Bench(journal=journal)
    await later.restore_for_thread("thread-1", dict(first.manager.records.state_records()))
    (summary,) = await later.wait([task_id])
    ctx = call_context(services={BackgroundTaskManager: later.manager})
    answer = await call(WaitTaskTool(later.manager), {"ids": [task_id]}, ctx)

    assert later.record(task_id).result is None
    assert summary.result == LONG
    assert answer.data["tasks"][0]["result_page"]["total_chars"] == len(LONG)


async def test_of_a_long_error_the_state_has_the_beginning() -> None:
    bench = Bench(journal=MemoryJournal())

    task_id = await bench.spawn(failing)
    await bench.ended(task_id)

    assert bench.record(task_id).error == f"{LONG[:ERROR_KEPT]}…"
    assert bench.get(task_id).error == LONG


async def test_without_a_journal_the_state_has_all() -> None:
    """Nobody else would know."""
    bench = Bench()

    task_id = await bench.spawn(giving(LONG))
    await bench.ended(task_id)

    assert bench.record(task_id).result == LONG


async def test_a_result_the_journal_did_not_take_stays_in_the_state() -> None:
    """03/DB-2: tried again and again, and then kept where it can be."""
    journal = MemoryJournal()
    journal.failures = 100
    bench = Bench(journal=journal)
    bench.clock.auto = True

    task_id = await bench.spawn(giving("small"))
    await bench.ended(task_id)

    assert bench.record(task_id).result == "small"


async def test_what_a_thread_keeps_does_not_grow_with_its_tasks() -> None:
    bench = Bench(journal=MemoryJournal())
    most = bench.handles.limits.kept

    for _ in range(most + 20):
        await bench.ended(await bench.spawn(giving(LONG)))
    before = size(bench)
    for _ in range(20):
        await bench.ended(await bench.spawn(giving(LONG)))

    assert len(bench.manager.records.state_records()) == most
    assert size(bench) < before + 100
    assert size(bench) < 300 * most


def test_of_a_task_that_runs_everything_is_kept() -> None:
    running = PersistedTaskMeta(
        task_id="bg_0",
        task_type="work",
        description="x",
        status=TaskStatus.RUNNING,
        created_at_ms=0,
        parent_context=TaskParentContext(task_id="bg_9", run_id="r"),
    )

    assert shorten_record(running) is running
