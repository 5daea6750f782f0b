"""Stopping tasks: one, a family, a thread's, a run's; by code and by the model (03 §1.3, §1.6)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from background_kit import (
    Bench,
    Gate,
    call,
    call_context,
    giving,
    settle,
    until_cancelled,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from awaken.codec import Json
from awaken.core.aio.cancel import CancellationToken
from awaken.core.task import PersistedTaskMeta, TaskParentContext, TaskStatus
from awaken.ext.tasks import (
    BackgroundLimits,
    BackgroundTaskError,
    TaskContext,
    TaskOptions,
    TaskResult,
)
from awaken.ext.tasks.record_rules import family
from awaken.ext.tasks.task_tools import CancelTaskTool

pytestmark = pytest.mark.anyio

RUN_1 = TaskParentContext(run_id="run-1")
SELF = {"target": {"relation": "self"}}


def child_of(task_id: str, run_id: str | None = None) -> TaskParentContext:
    return TaskParentContext(task_id=task_id, run_id=run_id)


async def three_generations(bench: Bench, parent: TaskParentContext = RUN_1) -> list[str]:
    top = await bench.spawn(parent=parent, name="top")
    middle = await bench.spawn(parent=child_of(top, parent.run_id), name="middle")
    bottom = await bench.spawn(parent=child_of(middle, parent.run_id), name="bottom")
    return [top, middle, bottom]


# -- by code ----------------------------------------------------------------------------------


async def test_cancelling_what_ended_or_never_was_is_false() -> None:
    """03/MH-1: cancel of a completed or unknown task is false."""
    bench = Bench()
    done, running = await bench.spawn(giving()), await bench.spawn()
    await bench.ended(done)

    assert (bench.cancel(done), bench.cancel("bg_9"), bench.cancel(running)) == (False, False, True)
    await bench.ended(running)
    assert (bench.cancel(running), bench.cancel_tree("bg_9")) == (False, 0)
    assert bench.status(done) == "completed"


async def test_a_tree_is_cancelled_down_to_its_grandchildren() -> None:
    """03/MH-1: tree cancel reaches grandchildren, count included (3)."""
    bench = Bench()
    ids = await three_generations(bench)
    other = await bench.spawn()

    assert bench.cancel_tree(ids[0]) == 3
    await bench.ended(*ids)

    assert [bench.status(task_id) for task_id in ids] == ["cancelled"] * 3
    assert bench.status(other) == "running"


async def test_a_tree_whose_root_has_ended_still_has_branches() -> None:
    """03 §1.3: every live member is told, and only those are counted."""
    bench = Bench()
    gate = Gate()
    top = await bench.spawn(gate)
    below = await bench.spawn(parent=child_of(top))
    gate.open.set()
    await bench.ended(top)

    assert bench.cancel_tree(top) == 1
    await bench.ended(below)
    assert bench.status(top) == "completed"


async def test_tasks_that_are_each_others_parents_are_cancelled_once() -> None:
    """03 §1.3: the visited set guards cycles."""
    bench = Bench()
    one, two = bench.reserve_task_id("thread-1"), bench.reserve_task_id("thread-1")
    for mine, other in ((one, two), (two, one)):
        await bench.spawn(parent=child_of(other), options=TaskOptions(task_id=mine))

    assert bench.cancel_tree(two) == 2


async def test_ids_that_repeat_in_another_thread_are_no_relation() -> None:
    """03/DB-1: a run inside a task has a thread of its own, and there a `bg_0` of its own."""
    bench = Bench()
    inside = Bench(handles=bench.handles)
    inside.manager.attach("sub", "sub-run")
    nested: list[str] = []

    async def body(ctx: TaskContext) -> TaskResult:
        nested.extend([await inside.spawn(thread="sub"), await inside.spawn(thread="sub")])
        await ctx.cancelled()
        return TaskResult.cancelled()

    top = await bench.spawn(body)
    await settle()

    assert (top, nested) == ("bg_0", ["bg_0", "bg_1"])
    assert inside.record("bg_1").parent_context == TaskParentContext(task_id="bg_0")
    assert inside.cancel_tree("bg_0") == 1, "they are siblings, both below the other thread's task"
    await inside.ended("bg_0")
    assert bench.cancel_tree(top) == 2
    await inside.ended("bg_1")


async def test_cancelling_a_threads_tasks_stops_at_its_border() -> None:
    """03/MH-1: `cancel_all` respects thread borders."""
    bench = Bench()
    mine = [await bench.spawn(), await bench.spawn()]
    theirs = await bench.spawn(thread="thread-2")
    done = await bench.spawn(giving())
    await bench.ended(done)

    assert bench.cancel_all("thread-1") == 2
    await bench.ended(*mine)

    assert bench.status(theirs) == "running"


async def test_a_run_takes_its_tasks_along_and_no_others() -> None:
    """03 §1.3: the tasks of the run, and the trees below them."""
    bench = Bench()
    ids = await three_generations(bench)
    other = await bench.spawn(parent=TaskParentContext(run_id="run-2"))

    assert bench.cancel_descendants_for_run("run-1") == 3
    assert bench.cancel_descendants_for_run("  ") == 0
    await bench.ended(*ids)
    assert bench.status(other) == "running"


async def test_late_spawns_of_a_cancelled_run_are_rejected() -> None:
    """03/MH-1: late root and nested spawns after run cancellation are rejected."""
    bench = Bench()
    refusals: list[str] = []

    async def body(ctx: TaskContext) -> TaskResult:
        await ctx.cancelled()
        try:
            await bench.spawn(giving())
        except BackgroundTaskError as error:
            refusals.append(str(error))
        return TaskResult.cancelled()

    task_id = await bench.spawn(body, parent=RUN_1)
    await settle()
    assert bench.cancel_descendants_for_run("run-1") == 1
    with pytest.raises(BackgroundTaskError) as caught:
        await bench.spawn(giving(), parent=TaskParentContext(run_id=" run-1 "))
    await bench.ended(task_id)

    text = "parent run 'run-1' has already been cancelled"
    assert [str(caught.value), *refusals] == [text, text]
    assert len(bench.list("thread-1")) == 1


# -- by the law -------------------------------------------------------------------------------


class Forest:
    """Tasks whose parents came before them, or nobody; some have ended."""

    def __init__(self, parents: list[int | None], ended: set[int], root: int) -> None:
        self.parents, self.ended, self.root = parents, ended, root

    def below(self, task: int) -> set[int]:
        children = [n for n, parent in enumerate(self.parents) if parent == task]
        return {task}.union(*(self.below(child) for child in children))


@st.composite
def forests(draw: st.DrawFn) -> Forest:
    size = draw(st.integers(1, 12))
    parents = [
        draw(st.one_of(st.none(), st.integers(0, n - 1))) if n else None for n in range(size)
    ]
    return Forest(parents, draw(st.sets(st.integers(0, size - 1))), draw(st.integers(0, size - 1)))


@given(forests())
@settings(max_examples=60, deadline=None)
def test_exactly_the_live_members_of_a_tree_are_cancelled(forest: Forest) -> None:
    """03 §1.3, law: in any forest, with any of its tasks ended, and the count is theirs."""
    asyncio.run(_cancel_one_tree(forest))


async def _cancel_one_tree(forest: Forest) -> None:
    bench = Bench(limits=BackgroundLimits(depth=20))
    gates = [Gate() for _ in forest.parents]
    signalled: set[int] = set()

    def body(n: int) -> Any:
        async def work(ctx: TaskContext) -> TaskResult:
            if n in forest.ended:
                return await gates[n](ctx)
            await ctx.cancelled()
            signalled.add(n)
            return TaskResult.cancelled()

        return work

    for n, parent in enumerate(forest.parents):
        above = TaskParentContext(task_id=None if parent is None else f"bg_{parent}")
        await bench.spawn(body(n), parent=above)
    for n in forest.ended:
        gates[n].open.set()
    await bench.ended(*(f"bg_{n}" for n in forest.ended))
    await settle()
    expected = forest.below(forest.root) - forest.ended

    assert bench.cancel_tree(f"bg_{forest.root}") == len(expected)
    await bench.ended(*(f"bg_{n}" for n in expected))

    assert signalled == expected
    rest = set(range(len(forest.parents))) - expected - forest.ended
    assert {bench.status(f"bg_{n}") for n in rest} <= {"running"}
    await bench.handles.close()


@given(st.lists(st.integers(0, 6), min_size=1, max_size=7), st.integers(0, 6))
def test_a_family_is_finite_whatever_it_is_made_of(links: list[int], root: int) -> None:
    """03 §1.3, law: any graph of parents, cycles too; each member once, and the root always."""
    tasks = [
        PersistedTaskMeta(
            task_id=f"bg_{n}",
            owner_thread_id="t",
            task_type="work",
            description="",
            status=TaskStatus.RUNNING,
            created_at_ms=0,
            uid=f"u{n}",
            parent_context=TaskParentContext(task_id=f"bg_{parent}"),
        )
        for n, parent in enumerate(links)
    ]
    start = root % len(tasks)

    found = [task.uid for task in family(tasks[start], tasks)]

    expected = {start}
    while True:
        more = {n for n, parent in enumerate(links) if parent in expected} - expected
        if not more:
            break
        expected |= more
    assert len(found) == len(set(found))
    assert set(found) == {f"u{n}" for n in expected}


# -- by the model -----------------------------------------------------------------------------


def told(result: Any) -> Json:
    assert result.status.value == "success", result
    return result.data


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({}, "missing 'target'"),
        ({"target": "self"}, "missing 'target'"),
        ({"target": {}}, "missing 'target.relation'"),
        ({"target": {"relation": "child"}}, "child requires 'name'"),
        ({"target": {"relation": "child", "name": ""}}, "child requires 'name'"),
        ({"target": {"relation": "task", "name": "bg_0"}}, "unknown relation 'task'"),
    ],
)
async def test_bad_arguments_of_cancel_task_are_named(args: Json, text: str) -> None:
    """03 §1.6: validation errors."""
    result = await call(CancelTaskTool(Bench().manager), args, call_context())

    assert result.message == f"Invalid arguments: {text}"


async def test_a_run_that_cancels_itself_takes_child_and_grandchild_along() -> None:
    """03/MH-1: self-cancel from a run with child and grandchild counts 3 and fires the token."""
    bench, token = Bench(), CancellationToken()
    child = await bench.spawn(parent=RUN_1)
    below = await bench.spawn(parent=child_of(child, "run-1"))

    result = await call(CancelTaskTool(bench.manager), SELF, call_context(token=token))

    assert told(result) == {"status": "accepted", "root_task_id": "run-1", "cancelled_count": 3}
    assert token.is_cancelled()
    await bench.ended(child, below)


async def test_a_run_without_tasks_cancels_only_itself() -> None:
    """03 §1.6: `cancel_descendants_for_run` plus 1."""
    token = CancellationToken()

    result = await call(CancelTaskTool(Bench().manager), SELF, call_context(token=token))

    assert told(result)["cancelled_count"] == 1
    assert token.is_cancelled()


@pytest.mark.parametrize(
    "ctx", [call_context(), call_context(run_id=" ", token=CancellationToken())]
)
async def test_nobody_to_cancel_is_an_execution_error(ctx: Any) -> None:
    """03 §1.6: no task, and no run that could be cancelled."""
    result = await call(CancelTaskTool(Bench().manager), SELF, ctx)

    assert result.message == "Execution failed: current_task_unavailable"


async def test_a_child_is_cancelled_by_name_or_id_with_all_below_it() -> None:
    """03 §1.6: a live direct child of the run."""
    bench, token = Bench(), CancellationToken()
    ids = await three_generations(bench)
    second = await bench.spawn(parent=RUN_1)
    tool = CancelTaskTool(bench.manager)

    def target(name: str) -> Json:
        return {"target": {"relation": "child", "name": name}}

    grandchild = told(await call(tool, target("middle"), call_context(token=token)))
    by_name = told(await call(tool, target("top"), call_context(token=token)))
    by_id = told(await call(tool, target(second), call_context(token=token)))
    await bench.ended(*ids, second)
    again = told(await call(tool, target("top"), call_context(token=token)))

    missing = {"status": "failed", "cancelled_count": 0, "error": "task_not_found"}
    assert grandchild == {"root_task_id": "middle", **missing}
    assert by_name == {"status": "accepted", "root_task_id": ids[0], "cancelled_count": 3}
    assert by_id == {"status": "accepted", "root_task_id": second, "cancelled_count": 1}
    assert again == {"root_task_id": "top", **missing}
    assert not token.is_cancelled()


async def test_inside_a_task_self_is_the_task_and_children_are_its_own() -> None:
    """03 §1.6: the ambient task; a task of the run is no child of it."""
    bench, token = Bench(), CancellationToken()
    results: list[Json] = []
    stranger = await bench.spawn(parent=RUN_1, name="stranger")

    async def body(ctx: TaskContext) -> TaskResult:
        child = await bench.spawn(name="child")
        tool = CancelTaskTool(bench.manager)
        for args in (
            {"target": {"relation": "child", "name": "stranger"}},
            {"target": {"relation": "child", "name": "child"}},
            SELF,
        ):
            results.append(told(await call(tool, args, call_context(token=token))))
        await bench.ended(child)
        await ctx.cancelled()
        return TaskResult.cancelled()

    task_id = await bench.spawn(body, parent=RUN_1)
    await bench.ended(task_id)

    assert [result["status"] for result in results] == ["failed", "accepted", "accepted"]
    assert [result["cancelled_count"] for result in results] == [0, 1, 2]
    assert results[2]["root_task_id"] == task_id
    assert token.is_cancelled()
    assert bench.status(stranger) == "running"


async def test_a_tool_bound_to_a_task_means_that_task_wherever_it_is_called() -> None:
    """03 §1.6: bound goes before ambient and before the run."""
    bench, token = Bench(), CancellationToken()
    task_id = await bench.spawn()

    tool = CancelTaskTool.with_current_task(bench.manager, task_id)
    result = await call(tool, SELF, call_context(token=token))

    assert told(result) == {"status": "accepted", "root_task_id": task_id, "cancelled_count": 1}
    assert token.is_cancelled()
    with pytest.raises(BackgroundTaskError, match="task 'bg_9' not found"):
        CancelTaskTool.with_current_task(bench.manager, "bg_9")


async def test_there_is_no_way_to_cancel_any_id() -> None:
    """03 §1.6: deliberately; a task of another run stays."""
    bench, token = Bench(), CancellationToken()
    theirs = await bench.spawn(until_cancelled, parent=TaskParentContext(run_id="run-2"))

    args = {"target": {"relation": "child", "name": theirs}}
    result = await call(CancelTaskTool(bench.manager), args, call_context(token=token))

    assert told(result)["status"] == "failed"
    assert bench.status(theirs) == "running"
