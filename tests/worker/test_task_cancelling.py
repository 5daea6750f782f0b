"""Stopping background tasks: by id, by their run, with their tree, by the model, with their owner.

03 §1.3 and §1.6, through the whole runtime.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from delegation_kit import Place, T, ended, open_runs, record
from delegation_kit import told as answered
from task_kit import Yard, dig, latest, over, tasks_in, told, until_told, working

from awaken import Agent, Runtime, ToolCallContext, tool
from awaken.core.lifecycle import CANCELLED, NATURAL_END, RunStatus
from awaken.core.run import CancelReceipt, RunRecord
from awaken.core.task import TaskParentContext
from awaken.ext.tasks import (
    BackgroundLimits,
    BackgroundTaskManager,
    BackgroundTaskPlugin,
    TaskContext,
    TaskResult,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


def outcomes(receipt: CancelReceipt) -> list[tuple[str, str, str]]:
    """Kind, name and outcome of everything, in order of their names."""
    return sorted((item.kind, item.name, item.outcome.value) for item in receipt.items)


# -- one task ---------------------------------------------------------------------------------


async def test_a_task_is_cancelled_by_the_id_of_its_run(place: Place) -> None:
    """The tool is interrupted; the owner is told, and its run goes on."""
    yard = Yard()

    async with place.runtime([yard.digger(dig(1, 2))]) as runtime:
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun(2)
        (task,) = [task for task in await tasks_in(runtime) if task_of(task)["task_id"] == "bg_0"]
        receipt = await runtime.cancel(task.run_id)
        run = await until_told(runtime, 1)
        assert run.status is RunStatus.WAITING
        assert (await record(runtime, task.run_id)).termination_reason == CANCELLED
        yard.let_go(1, 2)
        run = await over(runtime)

    assert outcomes(receipt) == [("task", "dig", "stopped")]
    assert run.final_output == "digger: bg_0 cancelled; bg_1 completed dug 2"
    assert yard.done == ["dug 2"]


async def test_a_task_is_cancelled_by_its_name_for_agents_from_outside(place: Place) -> None:
    """03 §1.3: `manager.cancel`; false for one that is over or unknown."""
    yard, plugin = Yard(), BackgroundTaskPlugin()

    async with place.runtime([yard.digger(dig(1), plugins=[plugin])]) as runtime:
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun()
        assert plugin.manager.cancel_all("another thread") == 0
        assert plugin.manager.cancel("bg_0")
        run = await over(runtime)
        assert not plugin.manager.cancel("bg_0")
        assert not plugin.manager.cancel("bg_7")

    assert run.final_output == "digger: bg_0 cancelled"


async def test_a_task_that_is_over_cannot_be_cancelled(place: Place) -> None:
    yard = Yard()

    async with place.runtime([yard.digger(dig(1))]) as runtime:
        await runtime.run("digger", "go", thread=T)
        (task,) = await tasks_in(runtime)
        yard.let_go(1)
        await over(runtime)
        receipt = await runtime.cancel(task.run_id)
        assert (await record(runtime, task.run_id)).termination_reason == NATURAL_END

    assert not receipt
    assert receipt.items == ()


# -- with its run -----------------------------------------------------------------------------


async def test_a_run_that_waits_is_cancelled_with_its_tasks(place: Place) -> None:
    """03/MH-1: cancelled → `done`; the receipt tells of run, tasks and calls."""
    yard = Yard()

    async with place.runtime([yard.digger(dig(1, 2))]) as runtime:
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun(2)
        receipt = await runtime.cancel(T)
        run = await latest(runtime)
        assert await open_runs(runtime) == []
        tasks = await tasks_in(runtime)

    assert (run.status, run.termination_reason) == (RunStatus.DONE, CANCELLED)
    assert [task.termination_reason for task in tasks] == [CANCELLED, CANCELLED]
    assert receipt.complete
    assert outcomes(receipt) == [
        ("call", "dig", "finished"),
        ("call", "dig", "finished"),
        ("run", "digger", "stopped"),
        ("task", "dig", "stopped"),
        ("task", "dig", "stopped"),
    ]
    assert yard.done == []


async def test_a_live_run_is_cancelled_with_its_tasks(place: Place) -> None:
    """03 §1.3: a guard listens to the run's token."""
    yard = Yard()
    agent = yard.digger(dig(1), [("blast", {"n": 2})])

    async with place.runtime([agent]) as runtime, asyncio.TaskGroup() as group:
        running = group.create_task(runtime.run("digger", "go", thread=T))
        await yard.until_begun(2)
        receipt = await runtime.cancel(T)
        result = await running
        assert await open_runs(runtime) == []

    assert result.termination == CANCELLED
    assert outcomes(receipt) == [
        ("call", "blast", "stopped"),
        ("call", "dig", "finished"),
        ("run", "digger", "stopped"),
        ("task", "dig", "stopped"),
    ]


async def test_what_a_cancelled_run_was_told_is_read_by_the_next_run(place: Place) -> None:
    """Its tasks end after it; the thread's next run hears that they were cancelled."""
    yard = Yard()

    async with place.runtime([yard.digger(dig(1))]) as runtime:
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun()
        assert await runtime.cancel(T)
        # Recovery may own the thread for a moment, to end the cancelled run.
        result = await runtime.run("digger", "what now?", thread=T, when_busy="queue")

    assert (result.response, result.waiting) == ("digger: bg_0 cancelled", False)


# -- trees ------------------------------------------------------------------------------------


class Tree:
    """A tool, `plant`, whose task starts a task, which starts another one."""

    def __init__(self) -> None:
        self._grown = asyncio.Semaphore(0)
        self.stopped: list[int] = []

        @tool
        async def plant(ctx: ToolCallContext) -> str:
            """Plant something."""
            return await self._grow(ctx.service(BackgroundTaskManager), T, 1)

        self.agent = Agent(
            "planter",
            model=working("planter", [("plant", {})]),
            tools=[plant],
            plugins=[BackgroundTaskPlugin()],
        )

    async def _grow(self, manager: BackgroundTaskManager, thread: str, level: int) -> str:
        async def body(task: TaskContext) -> TaskResult:
            if level < 3:
                await self._grow(manager, thread, level + 1)
            self._grown.release()
            await task.cancelled()
            self.stopped.append(level)
            return TaskResult.cancelled()

        name = f"level {level}"
        return await manager.spawn(thread, "work", name, "grow", TaskParentContext(), body)

    @asynccontextmanager
    async def grown(self, place: Place) -> AsyncIterator[tuple[Runtime, list[RunRecord]]]:
        """A runtime in which all of it has grown, and the tasks from the root on."""
        async with place.runtime([self.agent]) as runtime, asyncio.timeout(100):
            await runtime.run("planter", "go", thread=T)
            for _ in range(3):
                await self._grown.acquire()
            tasks = await tasks_in(runtime)
            yield runtime, sorted(tasks, key=lambda task: task_of(task)["name"])


def task_of(record: RunRecord) -> Any:
    assert record.request is not None
    return record.request.request_extras["task"]


async def test_tasks_of_tasks_are_kept_one_beneath_the_other(place: Place) -> None:
    """Lineage: by run, by thread, and in the words of agents."""
    tree = Tree()

    async with tree.grown(place) as (runtime, tasks):
        run = await latest(runtime)
        threads = [await runtime.store.load_thread(task.thread_id) for task in tasks]

    above = [run.run_id, *[task.run_id for task in tasks]]
    assert [task.parent_run_id for task in tasks] == above[:3]
    parents = [thread.parent_thread_id for thread in threads if thread is not None]
    assert parents == [T, tasks[0].run_id, tasks[1].run_id]
    contexts = [task_of(task)["parent_context"] for task in tasks]
    assert [context.get("task_id") for context in contexts] == [None, "bg_0", "bg_1"]
    assert {context["run_id"] for context in contexts} == {run.run_id}


async def test_a_task_is_cancelled_with_all_it_has_started(place: Place) -> None:
    """03/MH-1: tree cancel reaches grandchildren, and not what is above; the receipt too."""
    tree = Tree()

    async with tree.grown(place) as (runtime, (root, middle, leaf)):
        receipt = await runtime.cancel(middle.run_id)
        await until_told(runtime, 2)
        statuses = [(await record(runtime, t.run_id)).status for t in (root, middle, leaf)]
        assert sorted(tree.stopped) == [2, 3]
        whole = await runtime.cancel(T)
        assert await open_runs(runtime) == []

    assert statuses == [RunStatus.RUNNING, RunStatus.DONE, RunStatus.DONE]
    assert outcomes(receipt) == [("task", "level 2", "stopped"), ("task", "level 3", "stopped")]
    assert ("task", "level 1", "stopped") in outcomes(whole)
    assert sorted(tree.stopped) == [1, 2, 3]


async def test_a_cancelled_run_takes_the_whole_tree_along(place: Place) -> None:
    tree = Tree()

    async with tree.grown(place) as (runtime, _):
        receipt = await runtime.cancel(T)
        assert await open_runs(runtime) == []

    assert receipt.complete
    assert [
        name for kind, name, how in outcomes(receipt) if (kind, how) == ("task", "stopped")
    ] == [
        "level 1",
        "level 2",
        "level 3",
    ]


# -- by the model -----------------------------------------------------------------------------


async def test_the_model_cancels_a_task_it_has_started(place: Place) -> None:
    """03 §1.6: a direct child, by its id; the others go on."""
    yard = Yard()
    cancel = [("cancel_task", {"target": {"relation": "child", "name": "bg_0"}})]

    async with place.runtime([yard.digger(dig(1), dig(2), cancel)]) as runtime:
        await runtime.run("digger", "go", thread=T)
        receipt = json.loads((await answered(runtime))[-1])
        yard.let_go(1, 2)
        run = await over(runtime)

    assert receipt == {"status": "accepted", "root_task_id": "bg_0", "cancelled_count": 1}
    assert run.final_output == "digger: bg_0 cancelled; bg_1 completed dug 2"
    assert yard.done == ["dug 2"]


async def test_the_model_cannot_cancel_what_is_not_there(place: Place) -> None:
    yard = Yard()
    cancel = [("cancel_task", {"target": {"relation": "child", "name": "bg_9"}})]

    async with place.runtime([yard.digger(dig(1), cancel)]) as runtime:
        await runtime.run("digger", "go", thread=T)
        receipt = json.loads((await answered(runtime))[-1])
        yard.let_go(1)
        run = await over(runtime)

    assert (receipt["status"], receipt["error"]) == ("failed", "task_not_found")
    assert run.final_output == "digger: bg_0 completed dug 1"


async def test_the_model_cancels_itself_with_its_tasks(place: Place) -> None:
    """03/MH-1: self-cancel from a run counts its tasks and itself, and fires its token."""
    yard = Yard()
    cancel = [("cancel_task", {"target": {"relation": "self"}})]

    async with place.runtime([yard.digger(dig(1, 2), cancel)]) as runtime:
        result = await runtime.run("digger", "go", thread=T)
        for task in await tasks_in(runtime):
            assert (await ended(runtime, task.run_id)).termination_reason == CANCELLED
        calls = await runtime.store.load_calls(result.run_id)
        assert await open_runs(runtime) == []

    assert result.termination == CANCELLED
    assert [call.tool_name for call in calls] == ["dig", "dig", "cancel_task"]
    assert yard.done == []


# -- elsewhere --------------------------------------------------------------------------------


async def test_a_task_is_cancelled_from_another_runtime(tmp_path: Path) -> None:
    """The other one has no agents, and does not touch what is alive."""
    yard, place = Yard(), Place("sqlite", tmp_path)

    async with place.runtime([yard.digger(dig(1, 2))]) as runtime, place.runtime([]) as other:
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun(2)
        first, second = await tasks_in(runtime)
        receipt = await other.cancel(first.run_id)
        assert (await record(other, first.run_id)).termination_reason == CANCELLED
        assert (await record(other, second.run_id)).status is RunStatus.RUNNING
        assert outcomes(await other.cancel(T))[-1] == ("task", "dig", "stopped")
        assert await open_runs(other) == []

    assert outcomes(receipt) == [("task", "dig", "stopped")]
    assert yard.done == []


async def test_a_second_runtime_with_the_same_agents_leaves_live_tasks_alone(
    tmp_path: Path,
) -> None:
    """Whoever is alive keeps what is his: no task is run twice."""
    yard, place = Yard(), Place("sqlite", tmp_path)

    async with place.runtime([yard.digger(dig(1))]) as runtime:
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun()
        async with place.runtime([yard.digger(dig(1))]) as other:
            assert other.recovered == []
            assert await other.recover() == []
            (task,) = await tasks_in(other)
            assert task.status is RunStatus.RUNNING
        yard.let_go(1)
        run = await over(runtime)
        assert await told(runtime) == ["bg_0 completed dug 1"]

    assert run.final_output == "digger: bg_0 completed dug 1"
    assert len(yard.calls) == 1


async def test_a_queued_task_is_cancelled_before_it_begins(place: Place) -> None:
    """03/DB-3: whoever waits for its turn can be stopped as well."""
    yard, plugin = Yard(), BackgroundTaskPlugin(limits=BackgroundLimits(per_thread=1))
    agent = yard.digger(dig(1), dig(2), plugins=[plugin])

    async with place.runtime([agent]) as runtime:
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun()
        first, second = sorted(await tasks_in(runtime), key=lambda t: task_of(t)["task_id"])
        assert await runtime.cancel(second.run_id)
        await until_told(runtime, 1)
        assert (await record(runtime, first.run_id)).status is RunStatus.RUNNING
        yard.let_go(1, 2)
        run = await over(runtime)

    assert run.final_output == "digger: bg_1 cancelled; bg_0 completed dug 1"
    assert yard.done == ["dug 1"]
