"""What becomes of background tasks when their runtime is closed: ended, or left to the next one."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from delegation_kit import Place, T, only_child, record, to
from task_kit import (
    Yard,
    agent_in_task,
    boss,
    dig,
    latest,
    over,
    tasks_in,
    told,
    until_told,
    working,
)

from awaken import Agent, Runtime, ToolCallContext, tool
from awaken.core.lifecycle import CANCELLED, RunStatus
from awaken.core.run import RunRecord
from awaken.core.task import StoredTask, TaskParentContext
from awaken.core.thread_ids import agent_ids, task_uid
from awaken.errors import RunLeft
from awaken.ext.tasks import (
    BackgroundLimits,
    BackgroundTaskManager,
    BackgroundTaskPlugin,
    TaskContext,
    TaskResult,
)
from awaken.testing import FunctionModel

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


async def left_in(place: Place) -> tuple[RunRecord, list[RunRecord]]:
    """The run of the thread, and the tasks, as they are while nobody runs them."""
    async with place.runtime([], recover=False) as runtime:
        return await latest(runtime), await tasks_in(runtime)


# -- ended ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "news"),
    [("dig", "bg_0 cancelled"), ("blast", "bg_0 cancelled, outcome unknown")],
)
async def test_a_runtime_that_closes_ends_its_tasks(place: Place, name: str, news: str) -> None:
    """None is left running; the next runtime goes on with the run, and tells it. What one that had
    to run once has done nobody knows."""
    yard = Yard()
    agent = yard.agent("digger", [(name, {"n": 1})], background=[name])

    async with place.runtime([agent]) as runtime:
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun()
    run, (task,) = await left_in(place)
    async with place.runtime([agent]) as runtime:
        over_now = await over(runtime)
        assert await told(runtime) == [news]

    assert run.status is RunStatus.WAITING
    assert task.termination_reason == CANCELLED
    assert over_now.final_output == f"digger: {news}"
    assert yard.done == []


async def test_a_live_run_is_cancelled_with_its_tasks_when_the_runtime_closes(
    place: Place,
) -> None:
    yard = Yard()
    agent = yard.digger(dig(1), [("blast", {"n": 2})])

    async with place.runtime([agent]) as runtime:
        running = asyncio.ensure_future(runtime.run("digger", "go", thread=T))
        await yard.until_begun(2)
    result = await running
    run, (task,) = await left_in(place)

    assert result.termination == run.termination_reason == task.termination_reason == CANCELLED


async def test_a_task_that_does_not_stop_is_stopped_for_good(place: Place) -> None:
    """03/DB-3: after a grace period; whatever its body does, its record is closed."""
    begun, let_go = asyncio.Event(), asyncio.Event()

    @tool(effect="read")
    async def sulk() -> str:
        """Do not mind being cancelled."""
        begun.set()
        while not let_go.is_set():
            with suppress(asyncio.CancelledError):
                await let_go.wait()
        return "at last"

    plugin = BackgroundTaskPlugin(limits=BackgroundLimits(grace=0))
    agent = Agent(
        "sulker", model=working("sulker", [("sulk", {})]), background=[sulk], plugins=[plugin]
    )
    async with place.runtime([agent]) as runtime:
        await runtime.run("sulker", "go", thread=T)
        await begun.wait()
    _, (task,) = await left_in(place)
    let_go.set()

    assert task.termination_reason == CANCELLED


# -- left -------------------------------------------------------------------------------------


async def test_a_task_that_may_run_again_is_left_and_taken_up_once(place: Place) -> None:
    """It keeps its key and its names; its owner is told once, by whoever ends it."""
    yard = Yard()
    agent = yard.digger(dig(1))

    async with place.runtime([agent], on_close="leave") as runtime:
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun()
    _, (left,) = await left_in(place)
    async with place.runtime([agent]) as runtime:
        await yard.until_begun()
        assert len(await tasks_in(runtime)) == 1
        yard.let_go(1)
        run = await over(runtime)
        assert await told(runtime) == ["bg_0 completed dug 1"]

    assert left.status is RunStatus.RUNNING
    first, second = yard.calls
    assert first.idempotency_key == second.idempotency_key
    assert left.run_id == task_uid(T, first.idempotency_key)
    assert second.run_identity.run_id == left.run_id
    assert run.final_output == "digger: bg_0 completed dug 1"
    assert yard.done == ["dug 1"]


async def test_a_task_that_must_run_once_is_ended_where_others_are_left(place: Place) -> None:
    """Nobody could take it up: it is stopped while it can be; what it has done nobody knows."""
    yard = Yard()
    agent = yard.agent("digger", [("blast", {"n": 1})], dig(2), background=["blast", "dig"])

    async with place.runtime([agent], on_close="leave") as runtime:
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun(2)
    _, tasks = await left_in(place)
    async with place.runtime([agent]) as runtime:
        yard.let_go(1, 2)
        run = await over(runtime)

    assert {task.agent_id: task.termination_reason for task in tasks} == {
        "task:blast": CANCELLED,
        "task:dig": None,
    }
    assert run.final_output == "digger: bg_0 cancelled, outcome unknown; bg_1 completed dug 2"


async def test_an_agent_in_the_background_is_left_at_the_end_of_its_step(place: Place) -> None:
    """What it has done is not done again; what it had begun is."""
    yard = Yard()
    helper = yard.agent("helper", [("note", {"what": "it"})], [("dig", {"n": 1})])

    async with place.runtime([boss(helper), helper], on_close="leave") as runtime:
        await runtime.run("boss", "go", thread=T)
        await yard.until_begun()
        child = await agent_in_task(runtime)
        closing = asyncio.ensure_future(runtime.close())
        await asyncio.sleep(0)
        yard.let_go(1)
        await closing
    _, (task,) = await left_in(place)
    async with place.runtime([boss(helper), helper]) as runtime:
        run = await over(runtime)
        assert (await record(runtime, child)).steps == 3

    assert task.status is RunStatus.RUNNING
    assert yard.done == ["noted it", "dug 1"]
    assert run.final_output == "boss: bg_0 completed helper: "


@pytest.mark.parametrize("aside", [True, False])
async def test_an_agent_that_waits_for_its_own_task_is_left_at_once(
    place: Place, aside: bool
) -> None:
    """In the background, or while another one waits for it: it goes on waiting in the next
    runtime, and its model is not asked again before there is news."""
    yard = Yard()
    helper = yard.agent("helper", dig(1), background=["dig"])
    waiting = Agent("boss", model=working("boss", [to("helper")]), delegates=["helper"])
    agents = [boss(helper) if aside else waiting, helper]

    runtime = place.runtime(agents, on_close="leave")
    async with runtime:
        running = asyncio.ensure_future(runtime.run("boss", "go", thread=T))
        await yard.until_begun()
        beneath = await only_child(runtime)
        await _said(runtime, agent_ids(beneath)[-1] if aside else beneath)
        async with asyncio.timeout(2):
            await runtime.close()
        with suppress(RunLeft):
            await running
    async with place.runtime(agents) as runtime:
        await yard.until_begun()
        yard.let_go(1)
        await over(runtime)
        child = next(r for r in await runtime.list_runs() if r.agent_id == "helper")
        assert child.final_output == "helper: bg_0 completed dug 1"
        assert await told(runtime, child.thread_id) == ["bg_0 completed dug 1"]

    assert isinstance(helper.model, FunctionModel)
    assert helper.model.calls == 3
    assert yard.done == ["dug 1"]


async def _said(runtime: Runtime, thread: str) -> None:
    """Wait until the agent of a thread has said that it has begun something."""
    seen = 0
    async with asyncio.timeout(100):
        while True:
            seen = await runtime.store.wait_changed(thread, seen)
            log = await runtime.messages(thread)
            if log and log[-1].text().startswith("helper: "):
                return


async def test_a_task_that_was_taken_up_is_left_again(place: Place) -> None:
    """As runs are: whoever only looks in does not end what others began."""
    yard = Yard()
    agent = yard.digger(dig(1))

    async with place.runtime([agent], on_close="leave") as runtime:
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun()
    async with place.runtime([agent]):
        await yard.until_begun()
    _, (task,) = await left_in(place)
    async with place.runtime([agent]) as runtime:
        await yard.until_begun()
        yard.let_go(1)
        run = await over(runtime)

    assert task.status is RunStatus.RUNNING
    assert run.final_output == "digger: bg_0 completed dug 1"
    assert len(yard.calls) == 3


async def test_what_a_task_starts_belongs_to_its_owner_also_after_it_was_taken_up(
    place: Place,
) -> None:
    """A tool starts a task where it runs; in the background, that is nobody's conversation."""
    grown, plugin = asyncio.Semaphore(0), BackgroundTaskPlugin()

    async def sprout(task: TaskContext) -> TaskResult:
        return TaskResult.success("sprouted")

    @tool(effect="idempotent")
    async def sow(ctx: ToolCallContext) -> str:
        """Sow."""
        manager = ctx.service(BackgroundTaskManager)
        thread = ctx.run_identity.thread_id
        await manager.spawn(thread, "seed", None, "sprout", TaskParentContext(), sprout)
        grown.release()
        await asyncio.Event().wait()
        return "never"

    agent = Agent(
        "sower", model=working("sower", [("sow", {})]), background=[sow], plugins=[plugin]
    )
    async with place.runtime([agent], on_close="leave") as runtime, asyncio.timeout(100):
        await runtime.run("sower", "go", thread=T)
        await grown.acquire()
        await until_told(runtime, 1)
    async with place.runtime([agent]) as runtime, asyncio.timeout(100):
        await grown.acquire()
        await until_told(runtime, 2)
        assert await runtime.cancel(T)
        tasks = await tasks_in(runtime)

    names = {StoredTask.of(task).task.task_id: task.agent_id for task in tasks}
    assert names == {"bg_0": "task:sow", "bg_1": "task:seed", "bg_2": "task:seed"}
    assert {StoredTask.of(task).task.owner_thread_id for task in tasks} == {T}


async def test_a_task_of_an_agent_that_is_not_there_is_left_alone(place: Place) -> None:
    """Design §8: a process recovers only what belongs to agents it has."""
    yard = Yard()
    agent = yard.digger(dig(1))

    async with place.runtime([agent], on_close="leave") as runtime:
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun()
    async with place.runtime([Agent("other", model=working("other"))]) as runtime:
        assert await runtime.recover() == []
        (task,) = await tasks_in(runtime)
        assert task.status is RunStatus.RUNNING
        assert await runtime.cancel(task.run_id), "but it can be ended from there"
    run, (task,) = await left_in(place)

    assert task.termination_reason == CANCELLED
    assert run.status is RunStatus.WAITING
    assert len(yard.calls) == 1


async def test_a_tool_that_is_not_there_any_more_is_reported_as_interrupted(place: Place) -> None:
    """The agent is there, the tool is not: nobody can go on with the task, and it is said."""
    yard = Yard()

    async with place.runtime([yard.digger(dig(1))], on_close="leave") as runtime:
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun()
    async with place.runtime([Agent("digger", model=working("digger", dig(1)))]) as runtime:
        run = await over(runtime)

    why = "interrupted: the process ended while the task ran"
    assert run.final_output == f"digger: bg_0 failed {why}"
    assert len(yard.calls) == 1


async def test_what_was_cancelled_while_nobody_ran_it_is_not_taken_up(place: Place) -> None:
    """The wish is kept: whoever has the agent ends the task, and starts nothing."""
    yard = Yard()
    agent = yard.digger(dig(1))

    async with place.runtime([agent], on_close="leave") as runtime:
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun()
    async with place.runtime([], recover=False) as desk:
        assert await desk.cancel(T)
    async with place.runtime([agent]) as runtime:
        assert runtime.recovered == []
    run, (task,) = await left_in(place)

    assert run.termination_reason == task.termination_reason == CANCELLED
    assert len(yard.calls) == 1


async def test_a_question_of_an_agent_in_the_background_outlives_the_runtime(
    place: Place,
) -> None:
    """The task is taken up, and waits for the answer again."""
    yard = Yard()
    helper = yard.agent("helper", [("pay", {"n": 5})])

    async with place.runtime([boss(helper), helper], on_close="leave") as runtime:
        await runtime.run("boss", "go", thread=T)
        child = await agent_in_task(runtime)
        (ticket,) = await _asked(runtime, child)
    async with place.runtime([boss(helper), helper]) as runtime:
        assert await runtime.decide(child, {ticket: True})
        run = await over(runtime)

    assert yard.done == ["paid 5"]
    assert run.final_output == "boss: bg_0 completed helper: "


async def _asked(runtime: Runtime, child: str) -> list[str]:
    """The keys of a run's questions, once there are some."""
    seen = 0
    async with asyncio.timeout(100):
        while True:
            seen = await runtime.store.wait_changed(child, seen)
            tickets = [t.key for t in await runtime.list_tickets() if t.run_id == child]
            if tickets:
                return tickets
