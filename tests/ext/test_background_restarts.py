"""What a new run finds of old tasks: the owners change, the tasks do not (03 §1.4, 03/DB-1)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from background_kit import Bench, Gate, giving, settle, until_cancelled

from awaken.core.aio.cancel import CancellationToken
from awaken.core.inbox import inbox_channel
from awaken.core.state.store import StateStore
from awaken.core.task import PersistedTaskMeta, TaskParentContext, TaskStatus
from awaken.ext.tasks import BackgroundTaskManager, TaskContext, TaskOptions, TaskResult
from awaken.ext.tasks.handles import TaskHandles
from awaken.ext.tasks.state import BACKGROUND_TASK_STATE, ReplaceTasks
from awaken.ids import SequentialIds

pytestmark = pytest.mark.anyio

ORPHANED = "task orphaned: runtime restarted while running"


def record(
    number: int, status: TaskStatus = TaskStatus.RUNNING, **more: object
) -> PersistedTaskMeta:
    fields: dict[str, object] = {
        "task_id": f"bg_{number}",
        "owner_thread_id": "thread-1",
        "task_type": "work",
        "description": "some work",
        "status": status,
        "created_at_ms": 1,
        "uid": f"old-{number}",
    }
    return PersistedTaskMeta(**(fields | more))  # type: ignore[arg-type]


def by_id(*tasks: PersistedTaskMeta) -> Mapping[str, PersistedTaskMeta]:
    return {task.task_id: task for task in tasks}


def next_run(bench: Bench, run_id: str = "run-2", thread: str = "thread-1") -> Bench:
    """A bench of the same process: the next run of a thread."""
    later = Bench(handles=bench.handles)
    later.clock = bench.clock
    later.manager.attach(thread, run_id)
    return later


def over(
    bench: Bench, run_id: str = "run-1", thread: str = "thread-1"
) -> dict[str, PersistedTaskMeta]:
    """End a run as the loop does, and what it leaves in the store."""
    bench.inbox.close()
    bench.handles.detach(thread, run_id)
    return dict(bench.manager.records.state_records())


# -- after a restart --------------------------------------------------------------------------


async def test_an_orphan_has_failed_and_the_owner_is_told() -> None:
    """03/MH-1: orphan → failed; the model, which waits for it, hears of it."""
    bench = Bench()

    await bench.restore_for_thread("thread-1", by_id(record(4)))

    lost = bench.record("bg_4")
    assert (lost.status, lost.error) == (TaskStatus.FAILED, ORPHANED)
    assert lost.completed_at_ms == bench.clock.now_ms()
    assert bench.events() == [{"kind": "failed", "task_id": "bg_4", "error": ORPHANED}]


async def test_the_counter_is_raised_above_what_was_restored() -> None:
    """03/MH-1: ids are sequential, the counter is raised after restore; odd ids do not count."""
    bench = Bench()
    odd = record(9, TaskStatus.COMPLETED, task_id="mine")

    await bench.restore_for_thread("thread-1", by_id(record(4, TaskStatus.COMPLETED), odd))

    assert await bench.spawn(giving()) == "bg_5"


async def test_terminal_records_are_kept_and_belong_to_the_thread() -> None:
    """03/MH-1: terminal kept; `owner_thread_id` is set where it was absent."""
    bench = Bench()
    done = record(0, TaskStatus.COMPLETED, result="old", completed_at_ms=7, owner_thread_id="")

    await bench.restore_for_thread("thread-1", by_id(done))

    kept = bench.record("bg_0")
    assert (kept.status, kept.result, kept.completed_at_ms) == (TaskStatus.COMPLETED, "old", 7)
    assert kept.owner_thread_id == "thread-1"
    assert bench.events() == []


async def test_all_ghosts_are_repaired_though_the_store_holds_them_already() -> None:
    """03/DB-1: in a run, the store and what was restored are the same; the reference skips them."""
    bench = Bench()
    ghosts = {f"bg_{n}": record(n) for n in range(3)}
    bench.store.update(BACKGROUND_TASK_STATE, ReplaceTasks(tasks=dict(ghosts)))

    await bench.restore_for_thread("thread-1", ghosts)

    assert {task.status for task in bench.manager.records.state_records().values()} == {
        TaskStatus.FAILED
    }
    assert len(bench.events()) == 3
    assert await bench.spawn(giving()) == "bg_3", "no id is used twice"


async def test_a_live_task_is_never_degraded() -> None:
    """03/MH-1: live untouched, in the next run of the same process."""
    first = Bench()
    gate = Gate()
    task_id = await first.spawn(gate)
    later = next_run(first)

    await later.restore_for_thread("thread-1", over(first))

    assert later.status(task_id) == "running"
    assert later.events() == []
    gate.open.set()
    await later.ended(task_id)
    assert later.record(task_id).status is TaskStatus.COMPLETED
    assert later.events() == [{"kind": "completed", "task_id": task_id, "result": "through"}]


async def test_a_task_of_another_plugin_is_not_taken_for_lost() -> None:
    """03/DB-1: the next run's agent may bring a plugin of its own; the task then reports to it."""
    first = Bench()
    gate = Gate()
    task_id = await first.spawn(gate)
    second = Bench(handles=TaskHandles(clock=first.clock, ids=SequentialIds()))
    second.manager.attach("thread-1", "run-2")

    await second.restore_for_thread("thread-1", over(first))
    assert second.status(task_id) == "running"
    gate.open.set()
    await second.ended(task_id)

    assert second.record(task_id).status is TaskStatus.COMPLETED
    assert second.events()[0]["kind"] == "completed"


async def test_a_fork_does_not_wait_for_its_originals_tasks() -> None:
    """03/DB-1: route by owner thread; the copy has failed, the original goes on."""
    original = Bench()
    gate = Gate()
    task_id = await original.spawn(gate)
    fork = Bench(handles=original.handles)
    fork.manager.attach("fork", "run-2")

    await fork.restore_for_thread("fork", dict(original.manager.records.state_records()))

    copy = fork.record(task_id)
    assert copy.error == "task stayed with thread 'thread-1', this one was forked from it"
    assert copy.uid != original.record(task_id).uid
    gate.open.set()
    await original.ended(task_id)
    assert original.record(task_id).status is TaskStatus.COMPLETED
    assert [event["kind"] for event in original.events()] == ["completed"]
    assert [event["kind"] for event in fork.events()] == ["failed"]


# -- between runs -----------------------------------------------------------------------------


async def test_what_ended_between_two_runs_is_told_in_the_second() -> None:
    """03/DB-1: nothing is lost though the first run's store and inbox are dead."""
    first = Bench()
    first.manager.attach("thread-1", "run-1")
    gate = Gate()
    task_id = await first.spawn(gate)
    left = over(first)
    gate.open.set()
    await first.ended(task_id)
    later = next_run(first)

    await later.restore_for_thread("thread-1", left)

    assert later.record(task_id).result == "through"
    event = {"kind": "completed", "task_id": task_id, "result": "through"}
    assert later.events() == [event]
    await later.restore_for_thread("thread-1", dict(later.manager.records.state_records()))
    assert later.events() == [], "once"


async def test_what_somebody_was_told_by_the_callback_is_not_told_again() -> None:
    """03 §1.5: the host that watches the closed inbox has taken the event over."""
    told: list[object] = []
    first = Bench(on_closed=told.append)
    gate = Gate()
    task_id = await first.spawn(gate)
    left = over(first)
    gate.open.set()
    await first.ended(task_id)
    later = next_run(first)

    await later.restore_for_thread("thread-1", left)

    assert len(told) == 1
    assert later.record(task_id).status is TaskStatus.COMPLETED
    assert later.events() == []


async def test_a_task_started_between_two_runs_is_in_the_second() -> None:
    """03/DB-1: by a task that outlives its run; its id is not used again."""
    first = Bench()
    first.manager.attach("thread-1", "run-1")
    gate = Gate()
    nested: list[str] = []

    async def body(ctx: TaskContext) -> TaskResult:
        await gate(ctx)
        nested.append(await first.spawn(until_cancelled, name="late"))
        return TaskResult.success()

    task_id = await first.spawn(body)
    left = over(first)
    gate.open.set()
    await first.ended(task_id)
    later = next_run(first)
    await later.restore_for_thread("thread-1", left)

    assert [s.task_id for s in later.list("thread-1")] == ["bg_0", *nested]
    assert await later.spawn(giving()) == "bg_2"
    assert later.cancel(nested[0])
    await later.ended(nested[0])
    assert later.record(nested[0]).status is TaskStatus.CANCELLED


async def test_an_old_runs_manager_speaks_for_the_live_run() -> None:
    """03/DB-1: one manager per run, routed by owner thread: what it starts goes to who is home."""
    first = Bench()
    first.manager.attach("thread-1", "run-1")
    over(first)
    later = next_run(first)

    task_id = await first.spawn(giving("x"))
    await later.ended(task_id)

    assert first.store.read(BACKGROUND_TASK_STATE) is None
    assert later.record(task_id).result == "x"
    assert [event["task_id"] for event in later.events()] == [task_id]
    assert first.get(task_id) == later.get(task_id)


async def test_two_threads_never_hear_of_each_others_tasks() -> None:
    """03/DB-1: the reference's one inbox slot was overwritten by the last run."""
    one = Bench()
    one.manager.attach("thread-1", "run-1")
    two = Bench(handles=one.handles)
    two.manager.attach("thread-2", "run-2")
    gates = [Gate(), Gate()]

    first = await one.spawn(gates[0])
    second = await two.spawn(gates[1], thread="thread-2")
    for gate in gates:
        gate.open.set()
    await one.ended(first)
    await two.ended(second)

    assert first == second == "bg_0"
    assert len(one.events()) == len(two.events()) == 1
    assert one.record("bg_0").owner_thread_id == "thread-1"
    assert two.record("bg_0").owner_thread_id == "thread-2"
    assert one.cancel_all("thread-2") == 0


async def test_a_manager_without_a_store_is_a_door_to_all_live_runs() -> None:
    """03/DB-1: code outside runs starts tasks for the run that is live in a thread."""
    bench = Bench()
    bench.manager.attach("thread-1", "run-1")
    door = BackgroundTaskManager(bench.handles)

    task_id = await door.spawn(
        "thread-1", "work", None, "x", TaskParentContext(), giving("through the door")
    )
    await bench.ended(task_id)

    assert bench.record(task_id).result == "through the door"
    summary = door.get(task_id)
    assert summary is not None
    assert summary.result == "through the door"


async def test_an_end_while_the_inbox_is_full_is_told_later() -> None:
    """03/DB-1: nothing is lost that could not be said at once."""
    bench = Bench()
    bench.manager.attach("thread-1", "run-1")
    sender, receiver = inbox_channel()
    bench.manager.set_owner_inbox(sender)
    while sender.try_send("noise"):
        pass
    task_id = await bench.spawn(giving("x"))
    await bench.ended(task_id)
    receiver.drain()

    await bench.restore_for_thread("thread-1", dict(bench.manager.records.state_records()))

    assert receiver.drain() == [{"kind": "completed", "task_id": task_id, "result": "x"}]


# -- the guard --------------------------------------------------------------------------------


async def test_a_run_whose_token_fires_takes_its_tasks_along() -> None:
    """03 §1.3: a guard awaits the run's token."""
    bench, token = Bench(), CancellationToken()
    bench.manager.attach("thread-1", "run-1", token)
    mine = await bench.spawn(parent=TaskParentContext(run_id="run-1"))
    other = await bench.spawn(parent=TaskParentContext(run_id="run-0"))

    token.cancel()
    await bench.ended(mine)

    assert (bench.status(mine), bench.status(other)) == ("cancelled", "running")


async def test_a_guard_dropped_before_the_token_fires_does_nothing() -> None:
    """03 §1.3: the run ended; its tasks go on."""
    bench, token = Bench(), CancellationToken()
    bench.manager.attach("thread-1", "run-1", token)
    task_id = await bench.spawn(parent=TaskParentContext(run_id="run-1"))
    bench.handles.detach("thread-1", "another-run")
    bench.handles.detach("thread-1", "run-1")

    token.cancel()
    await settle()

    assert bench.status(task_id) == "running"


# -- closing ----------------------------------------------------------------------------------


async def test_closing_ends_every_task_and_waits_for_it() -> None:
    """Every task has an owner, who can end them all."""
    bench = Bench()
    ids = [await bench.spawn(), await bench.spawn(thread="thread-2")]

    async with asyncio.timeout(100):
        await bench.handles.close()

    assert [bench.record(task_id).status for task_id in ids] == [TaskStatus.CANCELLED] * 2
    assert bench.handles.live == {}


async def test_a_task_that_is_torn_down_has_failed() -> None:
    """03/DB-2: an event loop that ends takes no record along."""
    bench = Bench()
    task_id = await bench.spawn()
    await settle()
    handle = bench.handles.of_thread("thread-1")[0]
    assert handle.runner is not None

    handle.runner.cancel()
    await bench.ended(task_id)

    assert bench.record(task_id).error == "task torn down: its event loop ended while it ran"
    assert bench.events()[0]["kind"] == "failed"


async def test_a_task_torn_down_after_its_end_has_ended_as_it_has() -> None:
    """03/DB-2: its end was on the way into the state."""
    bench = Bench()
    gate = Gate()
    task_id = await bench.spawn(gate)
    bench.manager.set_store(StateStore())
    gate.open.set()
    await bench.clock.until_sleeping()
    bench.manager.set_store(bench.store)
    handle = bench.handles.of_thread("thread-1")[0]
    assert handle.runner is not None

    handle.runner.cancel()
    await bench.ended(task_id)

    assert bench.record(task_id).status is TaskStatus.COMPLETED
    assert [event["kind"] for event in bench.events()] == ["completed"]


async def test_records_of_internal_tasks_are_repaired_in_silence() -> None:
    """02/8.31: the model is not told."""
    bench = Bench()

    await bench.restore_for_thread("thread-1", by_id(record(0, internal=True)))

    assert bench.record("bg_0").status is TaskStatus.FAILED
    assert bench.events() == []
    assert await bench.spawn(giving(), options=TaskOptions(internal=True)) == "bg_1"
