"""How many tasks at a time, for how long, and what is kept of them (03/DB-3)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from background_kit import Bench, Gate, giving, settle, until_cancelled
from hypothesis import given
from hypothesis import strategies as st

from awaken.core.task import PersistedTaskMeta, TaskParentContext, TaskStatus
from awaken.errors import ConfigError
from awaken.ext.tasks import (
    BackgroundLimits,
    BackgroundTaskError,
    TaskContext,
    TaskOptions,
    TaskResult,
)
from awaken.ext.tasks.record_rules import retain_latest

pytestmark = pytest.mark.anyio


def limits(**given: Any) -> BackgroundLimits:
    return BackgroundLimits(**given)


# -- how many ---------------------------------------------------------------------------------


async def test_a_thread_runs_so_many_and_the_others_wait_their_turn() -> None:
    """03/DB-3: those that wait are running, and say that they are queued; first come first."""
    bench = Bench(limits=limits(per_thread=2))
    gates = [Gate() for _ in range(4)]
    ids = [await bench.spawn(gate) for gate in gates]
    elsewhere = Gate()
    await bench.spawn(elsewhere, thread="thread-2")
    await settle()

    assert [gate.begun.is_set() for gate in gates] == [True, True, False, False]
    assert elsewhere.begun.is_set(), "another thread has turns of its own"
    assert [s.queued for s in bench.list("thread-1")] == [False, False, True, True]
    assert {s.status for s in bench.list("thread-1")} == {TaskStatus.RUNNING}

    gates[1].open.set()
    await bench.ended(ids[1])
    await settle()
    assert [gate.begun.is_set() for gate in gates] == [True, True, True, False]
    for gate in gates:
        gate.open.set()
    await bench.ended(*ids)
    assert [bench.status(task_id) for task_id in ids] == ["completed"] * 4


async def test_all_threads_together_run_so_many() -> None:
    """03/DB-3: per process as well as per thread."""
    bench = Bench(limits=limits(total=1))
    first, second = Gate(), Gate()
    one = await bench.spawn(first)
    two = await bench.spawn(second, thread="thread-2")
    await settle()
    assert not second.begun.is_set()

    first.open.set()
    await bench.ended(one)
    async with asyncio.timeout(100):
        await second.begun.wait()
    second.open.set()
    await bench.ended(two)


async def test_a_task_that_waits_its_turn_can_be_cancelled() -> None:
    """03/DB-3: it never begins, and whoever came after it is not held up."""
    bench = Bench(limits=limits(per_thread=1))
    first, never, last = Gate(), Gate(), Gate()
    ids = [await bench.spawn(gate) for gate in (first, never, last)]
    await settle()

    assert bench.cancel(ids[1])
    await bench.ended(ids[1])
    first.open.set()
    async with asyncio.timeout(100):
        await last.begun.wait()

    assert bench.status(ids[1]) == "cancelled"
    assert not never.begun.is_set()
    assert bench.handles.slots.waiting == 0


async def test_a_task_that_waits_for_its_child_does_not_take_the_childs_turn() -> None:
    """03/DB-3: levels are counted apart, or a full thread would wait for itself for ever."""
    bench = Bench(limits=limits(per_thread=1, total=1))

    async def parent(ctx: TaskContext) -> TaskResult:
        child = await bench.spawn(giving("from below"))
        [summary] = await bench.wait([child])
        return TaskResult.success(summary.result)

    task_id = await bench.spawn(parent)
    await bench.ended(task_id)

    assert bench.record(task_id).result == "from below"


async def test_tasks_start_tasks_only_so_deep() -> None:
    """03/DB-3: a task that starts itself again and again comes to an end."""
    bench = Bench(limits=limits(depth=3))
    refusals: list[str] = []

    async def body(ctx: TaskContext) -> TaskResult:
        try:
            await bench.ended(await bench.spawn(body))
        except BackgroundTaskError as error:
            refusals.append(str(error))
        return TaskResult.success()

    await bench.ended(await bench.spawn(body))

    assert len(bench.list("thread-1")) == 3
    assert refusals == ["tasks start tasks at most 3 levels deep: do this one's work where you are"]


async def test_the_queue_has_an_end() -> None:
    """03/DB-3: a task that would have to wait behind too many is refused."""
    bench = Bench(limits=limits(per_thread=1, queue=1))
    gates = [Gate(), Gate()]
    ids = [await bench.spawn(gate) for gate in gates]
    await settle()

    with pytest.raises(BackgroundTaskError) as caught:
        await bench.spawn(giving())
    assert str(caught.value) == (
        "1 tasks are waiting to run already: wait until some have ended, or cancel them"
    )
    for gate in gates:
        gate.open.set()
    await bench.ended(*ids)


# -- how long ---------------------------------------------------------------------------------


async def test_a_task_that_passes_its_deadline_has_failed() -> None:
    """03/DB-3: its token is cancelled; what it was started with goes before the plugin's own."""
    bench = Bench(limits=limits(deadline=60))
    slow = await bench.spawn()
    slower = await bench.spawn(options=TaskOptions(deadline=90))
    await bench.clock.until_sleeping(2)

    bench.clock.advance(60)
    await bench.ended(slow)
    assert bench.status(slower) == "running"
    bench.clock.advance(30)
    await bench.ended(slower)

    assert bench.record(slow).error == "the deadline of 60 seconds has passed"
    assert bench.record(slower).error == "the deadline of 90 seconds has passed"
    assert (bench.status(slow), bench.status(slower)) == ("failed", "failed")


async def test_a_body_that_ends_after_its_deadline_all_the_same_has_ended() -> None:
    """03/DB-3: what it brings within its grace counts."""
    bench = Bench(limits=limits(deadline=60))

    async def body(ctx: TaskContext) -> TaskResult:
        await ctx.cancelled()
        return TaskResult.success("just in time")

    task_id = await bench.spawn(body)
    await bench.clock.until_sleeping()
    bench.clock.advance(60)
    await bench.ended(task_id)

    assert bench.record(task_id).result == "just in time"


async def test_waiting_for_a_turn_does_not_count() -> None:
    """03/DB-3: the deadline is the body's."""
    bench = Bench(limits=limits(per_thread=1))
    gate = Gate()
    first = await bench.spawn(gate)
    second = await bench.spawn(options=TaskOptions(deadline=5))
    await settle()

    bench.clock.advance(100)
    gate.open.set()
    await bench.ended(first)
    await bench.clock.until_sleeping()
    assert bench.status(second) == "running"
    bench.clock.advance(5)
    await bench.ended(second)
    assert bench.status(second) == "failed"


async def test_a_body_that_does_not_notice_is_stopped(caplog: pytest.LogCaptureFixture) -> None:
    """03/DB-3: hard stop after a grace period; what it leaves open is closed."""
    bench = Bench(limits=limits(grace=7))
    closed: list[str] = []

    async def deaf(ctx: TaskContext) -> TaskResult:
        try:
            await asyncio.Event().wait()
        finally:
            closed.append(ctx.task_id)
        return TaskResult.success()

    task_id = await bench.spawn(deaf)
    await settle()
    assert bench.cancel(task_id)
    await bench.clock.until_sleeping()
    bench.clock.advance(6.9)
    await settle()
    assert bench.status(task_id) == "running"
    with caplog.at_level(logging.WARNING):
        bench.clock.advance(0.1)
        await bench.ended(task_id)

    assert bench.status(task_id) == "cancelled"
    assert closed == [task_id]
    assert "ignored its token and is cancelled" in caplog.text


async def test_a_body_that_cannot_be_stopped_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """03/DB-3: nothing stays running for ever, whatever the body does."""
    bench = Bench(limits=limits(grace=1))
    let_go = asyncio.Event()

    async def stubborn(ctx: TaskContext) -> TaskResult:
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        return TaskResult.success()

    task_id = await bench.spawn(stubborn)
    await settle()
    bench.cancel(task_id)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            await bench.clock.until_sleeping()
            bench.clock.advance(1)
            await settle()
    await bench.ended(task_id)

    assert bench.status(task_id) == "cancelled"
    assert "cannot be stopped; giving up on it" in caplog.text
    let_go.set()
    await settle()


# -- how many are kept ------------------------------------------------------------------------


async def test_a_thread_keeps_its_last_tasks() -> None:
    """03/DB-3: records of ended tasks do not pile up; numbers are not used again."""
    bench = Bench(limits=limits(kept=3))
    running = await bench.spawn()
    theirs = await bench.spawn(giving(), thread="thread-2")
    await bench.ended(theirs)

    for _ in range(5):
        await bench.ended(await bench.spawn(giving()))

    assert [s.task_id for s in bench.list("thread-1")] == [running, "bg_4", "bg_5", "bg_6"]
    assert [s.task_id for s in bench.list("thread-2")] == [theirs]
    assert await bench.spawn(giving()) == "bg_7"


async def test_a_task_whose_children_run_is_kept_for_their_sake() -> None:
    """03/DB-3: or a tree could not be cancelled from its top any more."""
    bench = Bench(limits=limits(kept=1))
    gate = Gate()
    top = await bench.spawn(gate)
    below = await bench.spawn(parent=TaskParentContext(task_id=top))
    gate.open.set()
    await bench.ended(top)
    for _ in range(3):
        await bench.ended(await bench.spawn(giving()))

    assert top in bench.manager.records.state_records()
    assert bench.cancel_tree(top) == 1
    await bench.ended(below)
    await bench.ended(await bench.spawn(giving()))
    assert top not in bench.manager.records.state_records()


async def test_nothing_else_is_kept_of_tasks_that_ended() -> None:
    """03/DB-3: handles are gone, also of tasks that failed or were cancelled."""
    bench = Bench()
    ids = [await bench.spawn(giving()), await bench.spawn(until_cancelled)]
    bench.cancel_all("thread-1")
    await bench.ended(*ids)

    assert bench.handles.live == {}
    assert bench.handles.slots.waiting == 0
    await settle()
    assert not bench.handles._owned


@st.composite
def many_tasks(draw: st.DrawFn) -> dict[str, PersistedTaskMeta]:
    size = draw(st.integers(0, 10))
    tasks: dict[str, PersistedTaskMeta] = {}
    for n in range(size):
        ended = draw(st.booleans())
        parent = draw(st.one_of(st.none(), st.integers(0, size)))
        tasks[f"bg_{n}"] = PersistedTaskMeta(
            task_id=f"bg_{n}",
            owner_thread_id=draw(st.sampled_from(["a", "b"])),
            task_type="work",
            description="",
            status=TaskStatus.COMPLETED if ended else TaskStatus.RUNNING,
            created_at_ms=n,
            completed_at_ms=draw(st.integers(0, 20)) if ended else None,
            parent_context=TaskParentContext(task_id=None if parent is None else f"bg_{parent}"),
            uid=f"u{n}",
        )
    return tasks


@given(many_tasks(), st.integers(0, 4))
def test_what_runs_and_what_it_belongs_to_is_always_kept(
    tasks: dict[str, PersistedTaskMeta], most: int
) -> None:
    """03/DB-3, law: of the rest, the last so many of each thread."""
    kept = retain_latest(tasks, most)

    assert retain_latest(kept, most) == kept
    needed = {task.task_id for task in tasks.values() if not task.is_terminal}
    above = {""}
    while above:
        above = {tasks[n].parent_context.task_id or "" for n in needed} & tasks.keys() - needed
        needed |= above
    assert needed <= kept.keys()
    for thread in ("a", "b"):
        spare = {n for n, t in tasks.items() if t.owner_thread_id == thread} - needed
        stayed, dropped = spare & kept.keys(), spare - kept.keys()
        assert len(stayed) == min(most, len(spare))
        oldest = min((tasks[n].completed_at_ms or 0 for n in stayed), default=0)
        assert all((tasks[n].completed_at_ms or 0) <= oldest for n in dropped if stayed)


# -- bad limits -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_limits", "text"),
    [
        ({"per_thread": 0}, "per_thread is 1 or more"),
        ({"total": 0}, "total is 1 or more"),
        ({"depth": 0}, "depth is 1 or more"),
        ({"queue": -1}, "queue is 0 or more"),
        ({"grace": -1}, "grace is 0 or more"),
        ({"kept": -1}, "kept is 0 or more"),
        ({"deadline": 0}, "deadline is above 0 seconds, or None"),
    ],
)
def test_limits_that_leave_no_room_are_refused(given_limits: dict[str, Any], text: str) -> None:
    """Bad input: the limit is named."""
    with pytest.raises(ConfigError, match=f"background limits: {text}"):
        BackgroundLimits(**given_limits)
