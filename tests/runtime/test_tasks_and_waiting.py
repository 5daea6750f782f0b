"""`Runtime.tasks` and `Runtime.wait`: what goes on in the background, seen from the front door."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, Budget, Runtime, ToolCallContext, tool
from awaken.core.event import RunFinish
from awaken.core.lifecycle import CANCELLED, NATURAL_END, Failed
from awaken.core.llm import InferenceRequest
from awaken.core.task import TaskStatus
from awaken.errors import ConfigError, NotFound
from awaken.ext.tasks import BackgroundLimits, BackgroundTaskPlugin, TaskProgress
from awaken.testing import FakeClock, FunctionModel, ScriptedModel, tool_calls_response

pytestmark = pytest.mark.anyio

T = "t"


@pytest.fixture(params=["memory:", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return request.param if request.param == "memory:" else f"sqlite:///{tmp_path / 'a.db'}"


class Oven:
    """An agent that bakes so many things in the background, and says so."""

    def __init__(self, *things: str, **more: Any) -> None:
        self.ready = asyncio.Event()
        self.baking = asyncio.Semaphore(0)

        @tool(effect="idempotent")
        async def bake(what: str, ctx: ToolCallContext) -> str:
            """Bake something."""
            await ctx.report_progress(message=f"{what} rises", progress=0.5)
            self.baking.release()
            await self.ready.wait()
            if what == "stone":
                raise ValueError("a stone cannot be baked")
            return f"a {what}"

        def answer(request: InferenceRequest) -> Any:
            if not any(message.tool_calls for message in request.messages):
                calls = [("bake", f"c{n}", {"what": what}) for n, what in enumerate(things)]
                return tool_calls_response("", *calls)
            news = sum("background-task-event" in m.text() for m in request.messages)
            return "all is ready" if news == len(things) else "it is in the oven"

        self.agent = Agent("baker", model=FunctionModel(answer), background=[bake], **more)

    async def until_hot(self, things: int = 1) -> None:
        async with asyncio.timeout(100):
            for _ in range(things):
                await self.baking.acquire()


# -- tasks ------------------------------------------------------------------------------------


async def test_a_task_is_listed_while_it_runs_and_after(store: str) -> None:
    """With what only this process knows, as long as it runs here."""
    oven, clock = Oven("cake"), FakeClock()

    async with Runtime([oven.agent], store=store, clock=clock) as runtime:
        await runtime.run("baker", "bake", thread=T)
        await oven.until_hot()
        (running,) = await runtime.tasks()
        clock.advance(1.5)
        oven.ready.set()
        await runtime.wait(T, timeout=5)
        (done,) = await runtime.tasks()
        found = await runtime.find_run(done.id)

    assert (running.thread_id, running.task_id, running.description) == (T, "bg_0", "bake")
    assert (running.status, running.result, running.completed_at_ms) == (
        TaskStatus.RUNNING,
        None,
        None,
    )
    assert running.progress == TaskProgress(message="cake rises", fraction=0.5)
    assert not running.queued
    assert (done.id, done.status, done.result, done.error) == (
        running.id,
        TaskStatus.COMPLETED,
        "a cake",
        None,
    )
    assert done.progress is None
    assert done.completed_at_ms == done.created_at_ms + 1500
    assert found is not None
    assert found.run_id == done.id


async def test_tasks_are_listed_by_thread_and_status_the_last_one_first(store: str) -> None:
    oven = Oven("cake", "stone")

    async with Runtime([oven.agent], store=store) as runtime:
        await runtime.run("baker", "bake", thread="one")
        await runtime.run("baker", "bake", thread="two")
        assert len(await runtime.tasks(status="running")) == 4
        oven.ready.set()
        for thread in ("one", "two"):
            await runtime.wait(thread, timeout=5)
        both = (await runtime.tasks()).items
        of_one = await runtime.tasks("one")
        failed = await runtime.tasks(status=TaskStatus.FAILED)
        assert not await runtime.tasks("one", status="running")
        assert not await runtime.tasks("none such")
        assert (await runtime.tasks(limit=3)).items == both[:3]

    assert [task.created_at_ms for task in both] == sorted(
        (task.created_at_ms for task in both), reverse=True
    )
    assert sorted(task.thread_id for task in both) == ["one", "one", "two", "two"]
    assert {task.thread_id for task in of_one} == {"one"}
    assert {task.task_id for task in of_one} == {"bg_0", "bg_1"}
    assert {task.error for task in failed} == {
        "Execution failed: ValueError: a stone cannot be baked"
    }


async def test_a_task_that_waits_for_its_turn_is_queued(store: str) -> None:
    plugin = BackgroundTaskPlugin(limits=BackgroundLimits(per_thread=1))
    oven = Oven("cake", "bread", plugins=[plugin])

    async with Runtime([oven.agent], store=store) as runtime:
        await runtime.run("baker", "bake", thread=T)
        await oven.until_hot()
        queued = [task.queued for task in await runtime.tasks(T)]
        oven.ready.set()
        await runtime.wait(T, timeout=5)

    assert sorted(queued) == [False, True]


async def test_what_a_task_has_started_is_among_a_threads_tasks(store: str) -> None:
    """An agent in the background that bakes in the background."""
    oven = Oven("cake")
    boss = Agent(
        "boss",
        model=ScriptedModel(
            [tool_calls_response("", ("agent_run_baker", "c", {"prompt": "bake"})), "ok", "done"]
        ),
        background=[oven.agent],
    )
    async with Runtime([boss, oven.agent], store=store) as runtime:
        await runtime.run("boss", "go", thread=T)
        await oven.until_hot()
        tasks = {task.description: task for task in await runtime.tasks(T)}
        oven.ready.set()
        result = await runtime.wait(T, timeout=5)

    assert set(tasks) == {"agent_run_baker", "bake"}
    assert tasks["agent_run_baker"].thread_id == T
    assert tasks["bake"].thread_id != T
    assert result.response == "done"


async def test_a_status_that_does_not_exist_is_named(store: str) -> None:
    async with Runtime([Oven().agent], store=store) as runtime:
        with pytest.raises(ConfigError, match=r"status is one of 'running', .* not 'baking'"):
            await runtime.tasks(status="baking")  # type: ignore[arg-type]  # that is the point
        with pytest.raises(ConfigError, match=r"children is one of 'reject', .* not 'all'"):
            await runtime.delete_thread(T, children="all")  # type: ignore[arg-type]


async def test_an_agent_whose_name_looks_like_a_tasks_is_none(store: str) -> None:
    agent = Agent("task:master", model=ScriptedModel(["hello"]))
    async with Runtime([agent], store=store) as runtime:
        await runtime.run("task:master", "hi", thread=T)
        assert not await runtime.tasks()
        assert (await runtime.wait(T)).response == "hello"


# -- waiting ----------------------------------------------------------------------------------


async def test_waiting_gives_how_a_run_ends_after_its_tasks(store: str) -> None:
    """By its run or its thread; and it says what `run` would have said."""
    oven = Oven("cake")

    async with Runtime([oven.agent], store=store) as runtime:
        first = await runtime.run("baker", "bake", thread=T)
        assert (first.response, first.waiting) == ("it is in the oven", True)
        await oven.until_hot()
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(runtime.wait(id)) for id in (T, first.run_id)]
            await asyncio.sleep(0)
            oven.ready.set()
        again = await runtime.run("baker", "and?", thread=T)

    for wait in waits:
        result = wait.result()
        assert (result.thread_id, result.run_id) == (T, first.run_id)
        assert (result.response, result.termination) == ("all is ready", NATURAL_END)
        assert (result.waiting, result.steps) == (False, 3)
    assert again.response == "all is ready", "the thread was free at once"


async def test_a_run_that_is_over_is_not_waited_for(store: str) -> None:
    """The same as its caller was told, with what was used up."""
    agent = Agent("quick", model=ScriptedModel(["done"]), budget=Budget(steps=5))

    async with Runtime([agent], store=store) as runtime:
        result = await runtime.run("quick", "go", thread=T)
        assert await runtime.wait(T) == result
        assert await runtime.wait(result.run_id) == result

    assert result.spent is not None
    assert result.spent.steps == 1


async def test_a_run_that_needs_an_answer_is_returned_suspended(store: str) -> None:
    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    call = tool_calls_response("", ("pay", "c", {}))
    agent = Agent("payer", model=ScriptedModel([call, "done"]), tools=[pay])
    async with Runtime([agent], store=store) as runtime:
        asked = await runtime.run("payer", "go", thread=T)
        found = await runtime.wait(T)
        await runtime.decide(T, {found.tickets[0]: True})
        result = await runtime.wait(T, timeout=5)

    assert found.suspended
    assert found.waiting
    assert found == asked
    assert result.response == "done"


async def test_waiting_does_not_take_longer_than_it_may(store: str) -> None:
    """And changes nothing: the run goes on."""
    oven = Oven("cake")

    async with Runtime([oven.agent], store=store) as runtime:
        await runtime.run("baker", "bake", thread=T)
        with pytest.raises(TimeoutError):
            await runtime.wait(T, timeout=0)
        oven.ready.set()
        assert (await runtime.wait(T, timeout=5)).response == "all is ready"


@pytest.mark.parametrize("ends", ["cancelled", "failed"])
async def test_however_a_run_ends_it_is_told(store: str, ends: str) -> None:
    """What a run raised is not raised at whoever waits."""
    oven = Oven("cake")
    broken = Agent("broken", model=ScriptedModel([ValueError("no")]))

    async with Runtime([oven.agent, broken], store=store) as runtime:
        if ends == "failed":
            with pytest.raises(Exception, match="no"):
                await runtime.run("broken", "go", thread=T)
        else:
            await runtime.run("baker", "bake", thread=T)
            await runtime.cancel(T)
        result = await runtime.wait(T)

    if ends == "failed":
        assert isinstance(result.termination, Failed)
    else:
        assert result.termination == CANCELLED
    assert not result.waiting


async def test_who_is_not_there_cannot_be_waited_for(store: str) -> None:
    async with Runtime([Oven().agent], store=store) as runtime:
        with pytest.raises(NotFound, match="run 'nobody' does not exist"):
            await runtime.wait("nobody")


async def test_a_task_can_be_waited_for_by_its_id(store: str) -> None:
    """A task is a run; its result is its response."""
    oven = Oven("cake")

    async with Runtime([oven.agent], store=store) as runtime:
        await runtime.run("baker", "bake", thread=T)
        (task,) = await runtime.tasks(T)
        oven.ready.set()
        result = await runtime.wait(task.id, timeout=5)
        events = [event.event async for event in runtime.events(task.id, follow=False)]

    assert (result.response, result.termination) == ("a cake", NATURAL_END)
    assert isinstance(events[-1], RunFinish)


async def test_a_run_of_another_process_is_waited_for_as_well(tmp_path: Path) -> None:
    oven, store = Oven("cake"), f"sqlite:///{tmp_path / 'a.db'}"

    async with Runtime([oven.agent], store=store) as runtime, Runtime([], store=store) as other:
        await runtime.run("baker", "bake", thread=T)
        async with asyncio.TaskGroup() as group:
            waits = group.create_task(other.wait(T, timeout=5))
            await oven.until_hot()
            oven.ready.set()

    assert waits.result().response == "all is ready"
