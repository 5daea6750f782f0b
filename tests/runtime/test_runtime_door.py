"""The front door: agents, a runtime, and everything one does with them (design §5)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from front_kit import Held, Piece, pay, told

from answer_kit import by_id
from awaken import (
    Agent,
    AgentSpec,
    Message,
    Phase,
    PhaseContext,
    Runtime,
    tool,
)
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import CANCELLED, NATURAL_END, RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.message import Text
from awaken.core.spec import MaxRounds, ToolExecutorKind
from awaken.core.store.threads import RunQuery
from awaken.errors import AgentNotFound, InvalidResume, ThreadAlreadyRunning
from awaken.ids import SequentialIds
from awaken.stores.memory import MemoryStore
from awaken.testing import (
    EchoTool,
    FakeClock,
    FunctionModel,
    ScriptedModel,
    text_response,
    tool_call_response,
)

pytestmark = pytest.mark.anyio


@tool
async def weather(city: str) -> str:
    """The weather in a city, in one line."""
    return f"{city}: 21°C, sunny"


# -- agents -----------------------------------------------------------------------------------


def test_an_agent_is_data_and_what_belongs_to_it() -> None:
    """Design §5: everything said of it is in its spec, in order."""
    helper = Agent("helper", model="demo")

    async def plain(n: int) -> int:
        """A plain function is a tool, too."""
        return n

    agent = Agent(
        "assistant",
        model="demo",
        system_prompt="Be brief.",
        tools=[weather, plain, EchoTool()],
        plugins=[Piece("one"), Piece("two")],
        delegates=[helper, "other"],
        handoffs=["other", helper],
        description="Helps.",
        max_rounds=4,
        stop=[MaxRounds(rounds=2)],
        sequential=True,
        sections={"tone": {"style": "dry"}},
    )

    assert agent.spec == AgentSpec(
        id="assistant",
        model_id="demo",
        system_prompt="Be brief.",
        description="Helps.",
        max_rounds=4,
        plugin_ids=("one", "two"),
        delegates=("helper", "other"),
        stop_conditions=(MaxRounds(rounds=2),),
        tool_executor=ToolExecutorKind.SEQUENTIAL,
        sections={"tone": {"style": "dry"}},
    )
    assert [item.descriptor().id for item in agent.tools] == ["weather", "plain", "echo"]
    assert agent.handoffs == ("other", "helper")
    assert repr(agent) == "Agent('assistant')"


def test_a_model_of_ones_own_gets_a_name_of_its_own() -> None:
    """Design §5: two agents with their own models do not meet."""
    agents = [Agent(id, model=ScriptedModel([])) for id in ("a", "b")]

    assert [agent.spec.model_id for agent in agents] == ["a.model", "b.model"]


# -- running ----------------------------------------------------------------------------------


async def test_the_first_example_works_as_it_stands() -> None:
    """Design §5: ten lines, no key, no server."""
    agent = Agent("assistant", model="demo", system_prompt="Be brief.", tools=[weather])

    async with Runtime([agent], store="memory:") as runtime:
        result = await runtime.run("assistant", "Weather in Paris?", thread="t1")
        async with runtime.stream("assistant", "And the weather in Rome?", thread="t1") as events:
            kinds = {type(event.event).__name__ async for event in events}

    assert "Paris: 21°C, sunny" in result.response
    assert result.termination == NATURAL_END
    assert "Rome: 21°C, sunny" in events.result.response
    assert {"RunStart", "TextDelta", "ToolCallDone", "RunFinish"} <= kinds


async def test_a_result_says_everything_of_a_run() -> None:
    """Design §5."""
    model = ScriptedModel([tool_call_response("", "weather", "c1", {"city": "Rome"}), "sunny"])
    runtime = Runtime([Agent("a", model=model, tools=[weather])])

    result = await runtime.run("a", "Rome?", thread="t")

    assert (result.thread_id, result.response, result.steps) == ("t", "sunny", 2)
    assert not result.suspended
    assert result.tickets == ()
    assert result.usage.total_tokens == 0
    record = await runtime.find_run(result.run_id)
    assert record is not None
    assert (record.agent_id, record.status, record.final_output) == ("a", RunStatus.DONE, "sunny")


async def test_an_agent_may_be_given_as_itself() -> None:
    """Design §5: `run(agent)` as `run("agent")`."""
    agent = Agent("a", model=ScriptedModel(["hello"]))

    assert (await Runtime([agent]).run(agent, "hi")).response == "hello"


async def test_a_thread_remembers_and_a_new_one_does_not() -> None:
    """Design §5: without a thread, each run has its own."""
    model = ScriptedModel(["one", "two", "three", "four"])
    runtime = Runtime([Agent("a", model=model)])

    for thread in ("t", "t"):
        await runtime.run("a", "hi", thread=thread)
    first, second = await runtime.run("a", "hi"), await runtime.run("a", "hi")

    assert [len(request.messages) for request in model.requests] == [1, 3, 1, 1]
    assert len({first.thread_id, second.thread_id, "t"}) == 3


async def test_ids_and_time_are_what_they_are_given_as() -> None:
    """Design §2: tests and replays are exact."""

    async def once() -> Any:
        runtime = Runtime(
            [Agent("a", model=ScriptedModel(["hello"]))], ids=SequentialIds(), clock=FakeClock()
        )
        result = await runtime.run("a", Message.user("hi", id="m1"), thread="t")
        return (
            result,
            await runtime.find_run(result.run_id),
            list(await runtime.messages("t")),
            list(await runtime.engine.store.load_events("t")),
        )

    assert await once() == await once()


def test_a_program_without_a_loop_can_run_agents() -> None:
    """Design §2: one thin sync door, as often as one likes."""
    runtime = Runtime([Agent("a", model=ScriptedModel(["one", "two"]), tools=[weather])])

    first = runtime.run_sync("a", "hi", thread="t")
    second = runtime.run_sync("a", input="again", thread="t")

    assert (first.response, second.response) == ("one", "two")
    assert asyncio.run(_log(runtime)) == [
        "user: hi",
        "assistant: one",
        "user: again",
        "assistant: two",
    ]


async def _log(runtime: Runtime) -> list[str]:
    return told(await runtime.messages("t"))


async def test_agents_given_as_data_run_too() -> None:
    """Design §5: with the runtime's tools, plugins and models."""
    seen: list[str] = []

    async def start(ctx: PhaseContext) -> None:
        seen.append(ctx.agent_spec.id)

    spec = AgentSpec(
        id="data",
        model_id="vendor:small-1",
        system_prompt="Be brief.",
        plugin_ids=("watch",),
        allowed_tools=("weather",),
    )
    model = ScriptedModel(["hello"])
    runtime = Runtime(
        [spec],
        models={"vendor:small-1": model},
        plugins=[Piece("watch", lambda r: r.hook(Phase.RUN_START, start))],
        tools=[weather, EchoTool()],
    )

    await runtime.run("data", "hi")

    assert seen == ["data"]
    assert model.requests[0].upstream_model == "small-1"
    assert model.requests[0].system == (Text(text="Be brief."),)
    assert [found.id for found in model.requests[0].tools] == ["weather"]


async def test_tools_of_the_runtime_are_every_agents() -> None:
    """Design §5: beside its own, in order."""
    models = [ScriptedModel(["x"]), ScriptedModel(["x"])]
    runtime = Runtime(
        [
            Agent("a", model=models[0], tools=[weather]),
            Agent("b", model=models[1]),
        ],
        tools=[EchoTool()],
    )

    for agent in ("a", "b"):
        await runtime.run(agent, "hi")

    offered = [[found.id for found in model.requests[0].tools] for model in models]
    assert offered == [["echo", "weather"], ["echo"]]


# -- plugins of one id ------------------------------------------------------------------------


async def test_agents_may_have_plugins_of_one_id_each_its_own() -> None:
    """Design §5: instances are told apart by their agent, and shared ones are shared."""
    seen: list[str] = []

    def speaking(word: str) -> Piece:
        async def start(ctx: PhaseContext) -> None:
            seen.append(f"{ctx.agent_spec.id}: {word}")

        return Piece("budget", lambda r: r.hook(Phase.RUN_START, start))

    shared = speaking("shared")
    runtime = Runtime(
        [
            Agent("a", model=ScriptedModel(["x"]), plugins=[shared]),
            Agent("b", model=ScriptedModel(["x"]), plugins=[speaking("b's own")]),
            Agent("c", model=ScriptedModel(["x"]), plugins=[shared]),
            AgentSpec(id="d", model_id="m", system_prompt="", plugin_ids=("budget",)),
        ],
        plugins=[speaking("the runtime's")],
        models={"m": ScriptedModel(["x"])},
    )

    for agent in "abcd":
        await runtime.run(agent, "hi")

    assert seen == ["a: shared", "b: b's own", "c: shared", "d: the runtime's"]


# -- many at once -----------------------------------------------------------------------------


async def test_fifty_runs_at_once_do_not_meet() -> None:
    """Design §1: each in its own thread, all waiting for the model at the same time."""
    everybody, waiting = asyncio.Event(), 0

    async def answer(request: InferenceRequest) -> StreamResult:
        nonlocal waiting
        waiting += 1
        if waiting == 50:
            everybody.set()
        await everybody.wait()
        said = request.messages[0].text()
        if len(request.messages) == 1:
            return tool_call_response("", "weather", "c1", {"city": said})
        return text_response(f"{said} / {request.messages[-1].text()}")

    runtime = Runtime([Agent("a", model=FunctionModel(answer), tools=[weather])])

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(runtime.run("a", f"city {number}", thread=f"t{number}"))
            for number in range(50)
        ]

    expected = [f"city {number} / city {number}: 21°C, sunny" for number in range(50)]
    assert [task.result().response for task in tasks] == expected
    assert len({task.result().run_id for task in tasks}) == 50
    for number in (0, 49):
        log = told(await runtime.messages(f"t{number}"))
        assert log[0] == f"user: city {number}"
        assert len(log) == 4


async def test_a_second_run_on_a_busy_thread_is_refused() -> None:
    """01/A-1 at the front door: the first is not disturbed."""
    held = Held()

    async with asyncio.TaskGroup() as group:
        first = group.create_task(held.runtime.run("held", "hi", thread="t"))
        await held.speaking.wait()
        with pytest.raises(ThreadAlreadyRunning, match="t"):
            await held.runtime.run("held", "me too", thread="t")
        held.let_go.set()

    assert first.result().response == "well, done"
    assert told(await held.runtime.messages("t")) == ["user: hi", "assistant: well, done"]


# -- steering ---------------------------------------------------------------------------------


async def test_a_run_is_cancelled_by_thread_or_run_id() -> None:
    """Design §5: false if there is none."""
    for by_run in (False, True):
        held = Held()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(held.runtime.run("held", "hi", thread="t"))
            await held.speaking.wait()
            [run] = await held.runtime.list_runs()
            assert await held.runtime.cancel(run.run_id if by_run else "t")

        assert task.result().termination == CANCELLED
        assert task.result().response == "well"
        assert not await held.runtime.cancel("t")


async def test_cancelling_can_be_waited_for() -> None:
    """Design §5: the thread is free afterwards."""
    held = Held()

    async with asyncio.TaskGroup() as group:
        group.create_task(held.runtime.run("held", "hi", thread="t"))
        await held.speaking.wait()
        assert await held.runtime.cancel("t")
        held.let_go.set()
        assert (await held.runtime.run("held", "again", thread="t")).response == "well, done"

    assert not await held.runtime.cancel("t")


async def test_a_caller_who_is_cancelled_takes_the_run_along() -> None:
    """D-12: and its record is closed."""
    held = Held()
    task = asyncio.ensure_future(held.runtime.run("held", "hi", thread="t"))
    await held.speaking.wait()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    [run] = await held.runtime.list_runs()
    assert (run.status, run.termination_reason) == (RunStatus.DONE, CANCELLED)
    assert held.stopped


async def test_messages_and_answers_need_a_run() -> None:
    """Design §5: where there is none, `send` is false, and `decide` says so."""
    runtime = Runtime([Agent("a", model=ScriptedModel([]))])

    assert not await runtime.send("t", "hello?")
    with pytest.raises(InvalidResume, match="'t'"):
        await runtime.decide("t", await by_id(runtime, {"c1": True}))


# -- replacing --------------------------------------------------------------------------------


async def test_a_live_run_keeps_the_agents_it_started_with() -> None:
    """01/R-8: even those it hands over to later; new runs see the new ones only."""
    speaking, let_go = asyncio.Event(), asyncio.Event()

    async def first(_: InferenceRequest) -> StreamResult:
        speaking.set()
        await let_go.wait()
        return tool_call_response("", "handoff", "h1", {"agent": "old"})

    def agents(name: str, answer: str) -> list[Agent]:
        return [
            Agent("a", model=FunctionModel(first), handoffs=[name]),
            Agent(name, model=ScriptedModel([answer])),
        ]

    runtime = Runtime(agents("old", "the old one answers"))

    async with asyncio.TaskGroup() as group:
        live = group.create_task(runtime.run("a", "hi", thread="t"))
        await speaking.wait()
        assert runtime.replace(agents("new", "the new one answers")) == 2
        assert (await runtime.run("new", "hi")).response == "the new one answers"
        with pytest.raises(AgentNotFound, match="'old'; registered: 'a', 'new'"):
            await runtime.run("old", "hi")
        let_go.set()

    assert live.result().response == "the old one answers"


# -- closing ----------------------------------------------------------------------------------


class Closing(MemoryStore):
    """Knows whether it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    async def close(self) -> None:
        self.closed = True


async def test_leaving_the_runtime_ends_what_still_runs() -> None:
    """Design §5: streams and runs alike; a store that was given stays open for others."""
    for streamed in (False, True):
        store = Closing()
        held = Held(store=store)
        stream = held.runtime.stream("held", "hi", thread="t", detached=True)

        async with asyncio.timeout(100), asyncio.TaskGroup() as group, held.runtime:
            if streamed:
                async with stream:
                    await held.speaking.wait()
            else:
                group.create_task(held.runtime.run("held", "hi", thread="t"))
                await held.speaking.wait()

        [run] = await held.runtime.list_runs()
        assert (run.status, run.termination_reason) == (RunStatus.DONE, CANCELLED)
        assert not store.closed


async def test_leaving_the_runtime_does_not_wait_for_an_approval() -> None:
    """Design §8: the run stays suspended in the store, for whoever opens it next."""
    store, asked = Closing(), asyncio.Event()
    model = ScriptedModel([tool_call_response("", "pay", "c1", {"n": 1})])

    async def never(_: object) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    async with (
        asyncio.timeout(3),
        Runtime([Agent("a", model=model, tools=[pay])], store=store) as runtime,
    ):
        stream = runtime.stream("a", "go", thread="t", on_approval=never, detached=True)
        async with stream:
            await asked.wait()

    later = Runtime([Agent("a", model=ScriptedModel(["done"]), tools=[pay])], store=store)
    assert (
        await later.run(thread="t", answers=await by_id(later, {"c1": True}))
    ).response == "done"


# -- reading ----------------------------------------------------------------------------------


async def test_what_happened_can_be_read() -> None:
    """Design §5: logs in pages, runs newest first."""
    runtime = Runtime([Agent("a", model=ScriptedModel(["one", "two"]))])
    runs = [await runtime.run("a", word, thread="t") for word in ("first", "second")]

    assert told(await runtime.messages("t", after=1, limit=2)) == [
        "assistant: one",
        "user: second",
    ]
    assert list(await runtime.messages("ghost")) == []
    listed = await runtime.list_runs()
    assert [run.run_id for run in listed] == [run.run_id for run in reversed(runs)]
    assert len(await runtime.list_runs(RunQuery(thread_id="ghost"))) == 0
    assert await runtime.find_run("ghost") is None
