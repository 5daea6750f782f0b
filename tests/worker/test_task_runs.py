"""Tools in the background, through the whole runtime: who waits, who is told, and when (03 §1)."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from delegation_kit import Place, T, ended, record
from delegation_kit import told as answered
from task_kit import Started, Yard, dig, latest, over, tasks_in, told, until_told, working

from awaken import Agent, Runtime, tool
from awaken.core.event import CollectingSink, RunFinish, RunStart
from awaken.core.lifecycle import NATURAL_END, Failed, RunStatus, Stopped
from awaken.core.llm import InferenceRequest
from awaken.core.message import Visibility
from awaken.core.run import WaitingReason
from awaken.core.thread_ids import task_uid
from awaken.core.tool_context import Tool
from awaken.ext.tasks import BackgroundLimits, BackgroundTaskPlugin, background
from awaken.testing import FakeClock, FunctionModel, text_response, tool_calls_response

pytestmark = pytest.mark.anyio

COMPLETED = "bg_0 completed dug 1"
RECEIPT = '{"task_id":"bg_0","status":"running"}'


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


# -- waiting and going on ---------------------------------------------------------------------


async def test_a_run_with_a_task_waits_and_says_so(place: Place) -> None:
    """03/MH-1: `waiting`/`awaiting_tasks`, in the record, the last event and the result."""
    yard, sink = Yard(), CollectingSink()

    async with place.runtime([yard.digger(dig(1))]) as runtime:
        result = await runtime.run("digger", "go", thread=T, sink=sink)
        run = await latest(runtime)
        (task,) = await tasks_in(runtime)
        yard.let_go(1)

    assert (result.termination, result.waiting, result.suspended) == (NATURAL_END, True, False)
    assert result.response == "digger: "
    assert run.status is RunStatus.WAITING
    assert run.waiting is not None
    assert run.waiting.reason is WaitingReason.BACKGROUND_TASKS
    finish = sink.events()[-1].event
    assert isinstance(finish, RunFinish)
    assert finish.termination == NATURAL_END
    assert finish.result == {
        "response": "digger: ",
        "status": "waiting",
        "status_reason": "awaiting_tasks",
    }
    assert (task.status, task.agent_id) == (RunStatus.RUNNING, "task:dig")
    assert (task.thread_id, task.parent_run_id) == (task.run_id, run.run_id)


async def test_it_goes_on_by_itself_when_the_task_ends_and_is_told_once(place: Place) -> None:
    """The task is a run of its own, in a thread beneath its owner's."""
    yard = Yard()

    async with place.runtime([yard.digger(dig(1))]) as runtime:
        started = await runtime.run("digger", "go", thread=T)
        yard.let_go(1)
        run = await over(runtime)
        assert await told(runtime) == [COMPLETED]
        assert await answered(runtime) == [RECEIPT]
        (task,) = await tasks_in(runtime)
        thread = await runtime.store.load_thread(task.run_id)
        events = [event.event for event in await runtime.store.load_events(task.thread_id)]
        log = await runtime.messages(T)

    assert (run.run_id, run.final_output) == (started.run_id, f"digger: {COMPLETED}")
    assert run.waiting is None
    assert (task.status, task.final_output) == (RunStatus.DONE, "dug 1")
    assert thread is not None
    assert (thread.parent_thread_id, thread.owner) == (T, None)
    assert [type(event) for event in events] == [RunStart, RunFinish]
    (news,) = [message for message in log if message.visibility is Visibility.INTERNAL]
    assert news.id == f"{task.run_id}:end"


async def test_a_task_that_ends_while_its_run_is_live_is_read_before_that_ends(
    place: Place,
) -> None:
    """03 §1.5: nobody has to wait, and nobody has to take anything up."""
    yard = Yard()
    agent = yard.digger(dig(1), [("wait_task", {"ids": ["bg_0"]})])

    async with place.runtime([agent], recover=False) as runtime, asyncio.TaskGroup() as group:
        running = group.create_task(runtime.run("digger", "go", thread=T))
        await yard.until_begun()
        yard.let_go(1)
        result = await running
        assert await told(runtime) == [COMPLETED]
        assert (await latest(runtime)).status is RunStatus.DONE

    assert not result.waiting
    assert result.response == f"digger: {COMPLETED}"


async def test_two_tasks_are_told_of_one_by_one(place: Place) -> None:
    """The run goes on with the first, and waits again for the second."""
    yard = Yard()

    async with place.runtime([yard.digger(dig(1, 2))]) as runtime:
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun(2)
        yard.let_go(2)
        run = await until_told(runtime, 1)
        assert run.status is RunStatus.WAITING
        assert [task.status for task in await tasks_in(runtime)].count(RunStatus.DONE) == 1
        yard.let_go(1)
        run = await over(runtime)

    assert run.final_output == f"digger: bg_1 completed dug 2; {COMPLETED}"


async def test_a_message_is_answered_while_the_task_goes_on(place: Place) -> None:
    """A user may talk to an agent that waits for a task; the task belongs to the same run."""
    yard = Yard()

    def answer(request: InferenceRequest) -> Any:
        last = request.messages[-1].text()
        if last == "go":
            return tool_calls_response("", ("dig", "c", {"n": 1}))
        return text_response(f"heard {last.splitlines()[0]}")

    agent = Agent("digger", model=FunctionModel(answer), background=[yard.tool("dig")])
    async with place.runtime([agent]) as runtime:
        first = await runtime.run("digger", "go", thread=T)
        second = await runtime.run("digger", "how far are you?", thread=T)
        assert second.waiting
        assert (second.run_id, second.response) == (first.run_id, "heard how far are you?")
        yard.let_go(1)
        run = await over(runtime)

    assert run.run_id == first.run_id
    assert (run.final_output or "").startswith("heard <background-task-event")


@pytest.mark.parametrize("opened", [True, False])
async def test_a_run_goes_on_with_its_own_tasks_where_nothing_is_recovered(
    place: Place, opened: bool
) -> None:
    """What other processes have left is left alone; a run of this one that waits for its tasks is
    not."""
    yard = Yard()
    runtime = place.runtime([yard.digger(dig(1))], recover=not opened)
    async with AsyncExitStack() as stack:
        if opened:
            await stack.enter_async_context(runtime)
        else:
            stack.push_async_callback(runtime.close)
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun()
        yard.let_go(1)

        result = await runtime.wait(T, timeout=10)

        assert (result.waiting, result.response) == (False, f"digger: {COMPLETED}")
        await runtime.run("digger", "and now?", thread=T)
        assert await told(runtime) == [COMPLETED]


async def test_the_next_run_reads_what_came_while_nobody_went_on(place: Place) -> None:
    """A process without the agent ends its task; what the run is told waits in its thread, once."""
    yard = Yard()
    async with place.runtime([yard.digger(dig(1))], on_close="leave") as runtime:
        await runtime.run("digger", "go", thread=T)
        (task,) = await tasks_in(runtime)
        await yard.until_begun()
    async with place.runtime([], recover=False) as desk:
        assert await desk.cancel(task.run_id)
        assert (await latest(desk)).status is RunStatus.WAITING
        assert await told(desk) == []
    async with place.runtime([yard.digger(dig(1))], recover=False) as runtime:
        result = await runtime.run("digger", "go on", thread=T)
        assert not result.waiting
        await runtime.run("digger", "and now?", thread=T)
        assert len(await told(runtime)) == 1


# -- how tasks end ----------------------------------------------------------------------------


async def test_a_task_that_fails_says_why(place: Place) -> None:
    """03/MH-1: the terminal event carries the error; so does the task's record."""
    yard = Yard()
    agent = yard.agent("faller", [("fall", {"n": 1})], background=["fall"])
    why = "Execution failed: ValueError: no ground 1"

    async with place.runtime([agent]) as runtime:
        await runtime.run("faller", "go", thread=T)
        run = await over(runtime)
        (task,) = await tasks_in(runtime)
        assert await told(runtime) == [f"bg_0 failed {why}"]

    assert run.final_output == f"faller: bg_0 failed {why}"
    assert task.termination_reason == Failed(value=why)
    assert task.error_payload == {"message": why}


async def test_a_task_that_takes_too_long_is_stopped(place: Place) -> None:
    """03/DB-3: a deadline; a tool may be given one where it goes to the background."""
    yard, clock = Yard(), FakeClock()
    agent = yard.agent("digger", dig(1), background=[background(yard.tool("dig"), deadline=60)])

    async with place.runtime([agent], clock=clock) as runtime:
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun()
        await clock.until_sleeping()
        clock.advance(61)
        run = await over(runtime)
        (task,) = await tasks_in(runtime)

    why = "the deadline of 60 seconds has passed"
    assert run.final_output == f"digger: bg_0 failed {why}"
    assert task.termination_reason == Failed(value=why)
    assert yard.done == []


async def test_a_tool_that_needs_approval_asks_before_it_goes_to_the_background(
    place: Place,
) -> None:
    """Design §4: the call asks, as ever; the task is started by the answer."""
    yard = Yard()
    agent = yard.agent("payer", [("pay", {"n": 5})], background=["pay"])

    async with place.runtime([agent]) as runtime:
        result = await runtime.run("payer", "go", thread=T)
        assert result.suspended
        assert await tasks_in(runtime) == []
        await runtime.run(thread=T, answers={result.tickets[0]: True})
        run = await over(runtime)

    assert yard.done == ["paid 5"]
    assert run.final_output == "payer: bg_0 completed paid 5"


# -- what a task tells ------------------------------------------------------------------------


def starter(started: Started, *steps: Any, **more: Any) -> Agent:
    """An agent that starts a task of its own making."""
    plan = [[("start", {"name": "leaf"})], *steps]
    return Agent(
        "starter",
        model=working("starter", *plan),
        tools=[started.tool, *more.pop("tools", ())],
        plugins=[BackgroundTaskPlugin()],
        **more,
    )


async def test_an_event_reaches_a_run_that_is_live(place: Place) -> None:
    """03 §1.5: after every step the inbox is read; what came meanwhile is there at the next."""
    yard, started = Yard(), Started()
    agent = starter(started, [("blast", {"n": 1})], tools=[yard.tool("blast")])

    async with place.runtime([agent], recover=False) as runtime, asyncio.TaskGroup() as group:
        running = group.create_task(runtime.run("starter", "go", thread=T))
        await yard.until_begun()
        assert await started.emit("progress", "half")
        yard.let_go(1)
        result = await running
        started.go.set()

    assert result.waiting
    assert result.response == "starter: bg_0 custom half"


async def test_an_event_wakes_a_run_that_waits_and_the_task_goes_on(place: Place) -> None:
    """It is read, once, and the run waits again."""
    started = Started()

    async with place.runtime([starter(started)]) as runtime:
        await runtime.run("starter", "go", thread=T)
        await started.begun.wait()
        assert await started.emit("progress", {"at": 1})
        run = await until_told(runtime, 1)
        assert (run.status, run.final_output) == (
            RunStatus.WAITING,
            "starter: bg_0 custom {'at': 1}",
        )
        assert await started.emit("progress", {"at": 2})
        await until_told(runtime, 2)
        started.go.set()
        run = await over(runtime)

    news = ["bg_0 custom {'at': 1}", "bg_0 custom {'at': 2}", "bg_0 completed done"]
    assert run.final_output == f"starter: {'; '.join(news)}"


async def test_events_for_a_run_that_nobody_carries_on_are_read_by_the_next_once(
    place: Place,
) -> None:
    """03/MH-1: none is lost, and they keep their order; after the run's own end too."""
    started = Started()
    stopped = starter(started, [("start", {})], max_rounds=2)

    async with place.runtime([stopped], recover=False) as runtime:
        first = await runtime.run("starter", "go", thread=T)
        assert isinstance(first.termination, Stopped)
        assert not first.waiting
        for n in range(20):
            assert await started.emit("n", n)
        started.go.set()
        (task,) = await tasks_in(runtime)
        await ended(runtime, task.run_id)
        assert await told(runtime) == []
        runtime.replace([starter(started)])
        result = await runtime.run("starter", "go on", thread=T)
        again = await runtime.run("starter", "and?", thread=T)

    news = "; ".join([f"bg_0 custom {n}" for n in range(20)] + ["bg_0 completed done"])
    assert result.response == again.response == f"starter: {news}"


# -- what the model sees of its tasks ---------------------------------------------------------


async def test_the_model_lists_its_tasks_and_waits_for_one(place: Place) -> None:
    """03/DB-4: `list_tasks`, `wait_task`."""
    yard = Yard()
    steps = [dig(1, 2), [("list_tasks", {})], [("wait_task", {"ids": ["bg_1"]})]]

    async with (
        place.runtime([yard.digger(*steps)]) as runtime,
        asyncio.timeout(100),
        asyncio.TaskGroup() as group,
    ):
        running = group.create_task(runtime.run("digger", "go", thread=T))
        await yard.until_begun(2)
        yard.let_go(2)
        await running
        _, _, listed, waited = await answered(runtime)
        yard.let_go(1)
        await over(runtime)

    tasks = json.loads(listed)["tasks"]
    assert [(task["task_id"], task["description"]) for task in tasks] == [
        ("bg_0", "dig"),
        ("bg_1", "dig"),
    ]
    (task,) = json.loads(waited)["tasks"]
    assert json.loads(waited)["status"] == "done"
    assert (task["task_id"], task["status"], task["result"]) == ("bg_1", "completed", "dug 2")


# -- limits -----------------------------------------------------------------------------------


async def test_tasks_wait_for_their_turn(place: Place) -> None:
    """03/DB-3: so many of a thread at a time; a task that waits is on record as well."""
    yard = Yard()
    plugin = BackgroundTaskPlugin(limits=BackgroundLimits(per_thread=1))

    async with place.runtime([yard.digger(dig(1, 2, 3), plugins=[plugin])]) as runtime:
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun()
        assert [task.queued for task in plugin.manager.list(T)].count(True) == 2
        assert len(await tasks_in(runtime)) == 3
        yard.let_go(1, 2, 3)
        await over(runtime)
        news = await told(runtime)

    assert sorted(yard.done) == ["dug 1", "dug 2", "dug 3"]
    assert sorted(news) == [COMPLETED, "bg_1 completed dug 2", "bg_2 completed dug 3"]


async def test_too_many_tasks_are_refused_and_nothing_is_left_of_them(place: Place) -> None:
    """03/DB-3: the model is told; there is no record of a task that never was."""
    yard = Yard()
    plugin = BackgroundTaskPlugin(limits=BackgroundLimits(per_thread=1, queue=0))
    agent = yard.digger(dig(1), dig(2), plugins=[plugin])

    async with place.runtime([agent]) as runtime:
        await runtime.run("digger", "go", thread=T)
        first, second = await answered(runtime)
        assert len(await tasks_in(runtime)) == 1
        yard.let_go(1)
        run = await over(runtime)

    assert first == RECEIPT
    assert "0 tasks are waiting to run already" in second
    assert run.final_output == f"digger: {COMPLETED}"


# -- tools of the same name -------------------------------------------------------------------


def own_tool() -> Tool:
    @tool
    async def cancel_task(what: str) -> str:
        """Strike something from a list."""
        return f"struck {what}"

    return cancel_task


@pytest.mark.parametrize("whose", ["agent", "runtime"])
async def test_a_users_own_cancel_task_is_kept(place: Place, whose: str) -> None:
    """Seeds: never replaced, whoever brings it."""
    yard, own = Yard(), own_tool()
    agent = yard.digger([("cancel_task", {"what": "it"})], tools=[own] if whose == "agent" else [])

    async with place.runtime([agent], tools=[own] if whose == "runtime" else []) as runtime:
        await runtime.run("digger", "go", thread=T)
        assert await answered(runtime) == ["struck it"]


async def test_two_tools_of_a_users_own_still_collide() -> None:
    """Only what the library offers by itself gives way."""
    with pytest.raises(Exception, match="two tools named 'cancel_task'"):
        Runtime([Yard().digger(tools=[own_tool(), own_tool()])])


# -- several agents ---------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [True, False])
async def test_two_agents_have_their_own_tasks_with_one_plugin_or_two(
    place: Place, shared: bool
) -> None:
    """03/DB-1: events go by their owner's thread, whoever shares the plugin."""
    yard, one = Yard(), BackgroundTaskPlugin()
    other = one if shared else BackgroundTaskPlugin()
    a = yard.agent("a", dig(1), background=["dig"], plugins=[one])
    b = yard.agent("b", dig(2), background=["dig"], plugins=[other])

    async with place.runtime([a, b]) as runtime:
        await runtime.run("a", "go", thread="ta")
        await runtime.run("b", "go", thread="tb")
        yard.let_go(2)
        run = await over(runtime, "tb")
        assert run.final_output == "b: bg_0 completed dug 2"
        assert (await latest(runtime, "ta")).status is RunStatus.WAITING
        yard.let_go(1)
        run = await over(runtime, "ta")
        assert run.final_output == f"a: {COMPLETED}"
        assert [len(await told(runtime, thread)) for thread in ("ta", "tb")] == [1, 1]


@pytest.mark.parametrize("own_plugin", [False, True])
async def test_a_run_with_a_task_can_be_handed_over(place: Place, own_plugin: bool) -> None:
    """03 §3: the other agent, which has no tasks itself, waits for it and is told."""
    yard = Yard()
    plan = [dig(1), [("handoff", {"agent": "b"})]]
    plugins = [BackgroundTaskPlugin()] if own_plugin else []
    a = yard.agent("a", *plan, background=["dig"], handoffs=["b"], plugins=plugins)
    b = Agent("b", model=working("b", *plan))

    async with place.runtime([a, b]) as runtime:
        result = await runtime.run("a", "go", thread=T)
        assert (result.response, result.waiting) == ("b: ", True)
        yard.let_go(1)
        run = await over(runtime)
        assert await told(runtime) == [COMPLETED]

    assert (run.agent_id, run.final_output) == ("b", f"b: {COMPLETED}")


async def test_another_agent_that_is_asked_in_between_waits_for_the_task_too(place: Place) -> None:
    yard = Yard()
    a, b = yard.agent("a", dig(1), background=["dig"]), Agent("b", model=working("b", dig(1)))

    async with place.runtime([a, b]) as runtime:
        await runtime.run("a", "go", thread=T)
        result = await runtime.run("b", "and you?", thread=T)
        assert (result.response, result.waiting) == ("b: ", True)
        yard.let_go(1)
        run = await over(runtime)

    assert run.final_output == f"b: {COMPLETED}"


async def test_a_task_outlives_the_agents_it_was_started_with(place: Place) -> None:
    """`replace`: the task ends as it is, and the new agent hears of it."""
    yard = Yard()

    async with place.runtime([yard.digger(dig(1))]) as runtime:
        await runtime.run("digger", "go", thread=T)
        await yard.until_begun()
        runtime.replace([Agent("digger", model=working("new digger", dig(1)))])
        yard.let_go(1)
        run = await over(runtime)

    assert run.final_output == f"new digger: {COMPLETED}"


async def test_the_tool_knows_that_it_is_a_run_of_its_own(place: Place) -> None:
    """Its call has the key of the call that started it, and the identity of the task."""
    yard = Yard()

    async with place.runtime([yard.digger(dig(1))]) as runtime:
        result = await runtime.run("digger", "go", thread=T)
        await yard.until_begun()
        (task,) = await tasks_in(runtime)
        yard.let_go(1)
        await over(runtime)
        assert (await record(runtime, task.run_id)).status is RunStatus.DONE

    (call,) = yard.calls
    assert task.run_id == task_uid(T, call.idempotency_key)
    assert call.run_identity.run_id == call.run_identity.thread_id == task.run_id
    assert call.run_identity.parent_run_id == result.run_id
    assert call.run_identity.parent_thread_id == T
