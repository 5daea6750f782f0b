"""Corners where state, hooks, policies and hand-overs meet."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from awaken import (
    Agent,
    Command,
    Merge,
    Phase,
    PhaseContext,
    ProfileKey,
    Registrar,
    RunRequest,
    Runtime,
    Scope,
    StateKey,
    Suspend,
    SuspendTicket,
    ToolCallContext,
    ToolOutput,
    ToolResult,
    tool,
)
from awaken.core.event import TextDelta, ToolCallReady
from awaken.core.intercept import ToolPolicyContext, ToolPolicyDecision
from awaken.core.lifecycle import CANCELLED, Stopped
from awaken.core.llm import InferenceRequest, LlmStreamEvent, ProviderError
from awaken.core.message import Message
from awaken.core.run import MessageSeqRange, RunWaitingTicket
from awaken.core.spec import StopOnTool
from awaken.core.store.commits import ThreadCommit
from awaken.errors import ConfigError, InferenceFailed, PhaseError
from awaken.plugin.hook import Plugin
from awaken.testing import ScriptedModel, text_response, tool_call_response

pytestmark = pytest.mark.anyio

VISITS: StateKey[int, int] = StateKey(
    "visits",
    initial=int,
    apply=lambda n, more: n + more,
    scope=Scope.THREAD,
    merge=Merge.COMMUTATIVE,
)


@tool
async def visit(ctx: ToolCallContext) -> ToolOutput:
    """Count a visit."""
    seen = ctx.state(VISITS) or 0
    return ToolOutput(ToolResult.success("visit", seen), Command().update(VISITS, 1))


async def test_an_agent_that_takes_over_finds_the_state_it_stored_before() -> None:
    """A key of an agent that is not there yet is skipped, not lost."""
    counting = Agent(
        "a",
        model=ScriptedModel(
            [
                tool_call_response("", "visit", "c1", {}),
                text_response("one"),
                tool_call_response("", "visit", "c2", {}),
                text_response("two"),
            ]
        ),
        tools=[visit],
        state=[VISITS],
    )
    other = Agent(
        "b",
        model=ScriptedModel([tool_call_response("", "handoff", "h", {"agent": "a"})]),
        handoffs=[counting],
    )
    async with Runtime([counting, other]) as runtime:
        await runtime.run("a", "hello", thread="t")
        await runtime.run("b", "hello", thread="t")
        state = await runtime.engine.store.load_thread_state("t")

    assert state.extensions["visits"] == 2


async def test_a_policy_that_asked_and_was_answered_lets_the_call_pass() -> None:
    asked = 0

    class Careful:
        id = "careful"

        def register(self, registrar: Registrar) -> None:
            registrar.policy(self.decide)

        async def decide(self, _: ToolPolicyContext) -> ToolPolicyDecision:
            nonlocal asked
            asked += 1
            return Suspend(ticket=SuspendTicket())

    @tool
    async def work() -> str:
        """Work."""
        return "worked"

    model = ScriptedModel([tool_call_response("", "work", "c1", {}), text_response("done")])
    agent = Agent("a", model=model, tools=[work], plugins=[Careful()])
    async with Runtime([agent]) as runtime:
        result = await runtime.run("a", "go", on_approval=lambda _: True)

    assert result.response == "done"
    assert asked == 2


class Stuck:
    """Waits for something that never comes."""

    id = "stuck"

    def __init__(self, where: str) -> None:
        self.where = where
        self.reached = asyncio.Event()

    def register(self, registrar: Registrar) -> None:
        if self.where == "gate":
            registrar.gate(self.wait)
        else:
            registrar.hook(Phase(self.where), self.wait)

    async def wait(self, _: PhaseContext) -> None:
        self.reached.set()
        await asyncio.Event().wait()


@pytest.mark.parametrize("where", ["gate", "run_start", "before_inference", "before_tool_execute"])
async def test_a_cancel_reaches_a_hook_that_waits(where: str) -> None:
    @tool
    async def work() -> str:
        """Work."""
        return "worked"

    stuck = Stuck(where)
    model = ScriptedModel([tool_call_response("", "work", "c1", {})])
    agent = Agent("a", model=model, tools=[work], plugins=[stuck])
    async with Runtime([agent]) as runtime, asyncio.TaskGroup() as group:
        run = group.create_task(runtime.run("a", "go", thread="t"))
        await stuck.reached.wait()
        assert await runtime.cancel("t")

    assert run.result().termination == CANCELLED


async def test_text_of_a_stream_that_broke_stays_in_the_log() -> None:
    class Breaking:
        name = "breaking"

        async def execute_stream(self, _: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
            yield TextDelta(delta="half an ans")
            raise ProviderError("gone")

    agent = Agent("a", model=Breaking(), sections={"retry": {"max_stream_retries": 0}})
    async with Runtime([agent]) as runtime:
        with pytest.raises(InferenceFailed):
            await runtime.run("a", "hello", thread="t")
        log = await runtime.messages("t")

    assert [message.text() for message in log] == ["hello", "half an ans"]


async def test_a_failing_after_hook_takes_nothing_back() -> None:
    class Failing:
        id = "failing"

        def register(self, registrar: Registrar) -> None:
            registrar.hook(Phase.AFTER_TOOL_EXECUTE, self.fail)

        async def fail(self, _: PhaseContext) -> Command:
            raise ValueError("no")

    model = ScriptedModel([tool_call_response("", "visit", "c1", {})])
    agent = Agent("a", model=model, tools=[visit], state=[VISITS], plugins=[Failing()])
    async with Runtime([agent]) as runtime:
        with pytest.raises(PhaseError, match="'failing' raised"):
            await runtime.run("a", "go", thread="t")
        state = await runtime.engine.store.load_thread_state("t")

    assert state.extensions["visits"] == 1


NOTES: ProfileKey[int] = ProfileKey("notes", initial=int)


async def test_a_delegate_reads_the_same_profile_as_its_parent() -> None:
    @tool
    async def note(ctx: ToolCallContext) -> int:
        """Count notes for ever."""
        assert ctx.profile_access is not None
        return await ctx.profile_access.update(NOTES, lambda n: n + 1)

    def writer(id: str) -> Agent:
        script = [tool_call_response("", "note", "c1", {}), text_response("noted")]
        return Agent(id, model=ScriptedModel([*script, *script]), tools=[note], profile=[NOTES])

    child = writer("child")
    parent = Agent(
        "parent",
        model=ScriptedModel(
            [tool_call_response("", "agent_run_child", "d1", {"prompt": "note"}), "done"]
        ),
        delegates=[child],
    )
    other = writer("other")
    async with Runtime([parent, child, other]) as runtime:
        await runtime.run("parent", "go")
        await runtime.run("other", "go", thread="t")
        log = await runtime.messages("t")

    assert log[2].text() == "2"


async def test_a_call_that_a_policy_stops_is_never_called_ready() -> None:
    @tool
    async def work() -> str:
        """Work."""
        return "worked"

    model = ScriptedModel([tool_call_response("on it", "work", "c1", {})])
    agent = Agent("a", model=model, tools=[work], stop=[StopOnTool(tool_name="work")])
    async with Runtime([agent]) as runtime:
        result = await runtime.run("a", "go", thread="t")
        events = await runtime.engine.store.load_events("t")
        log = await runtime.messages("t")

    assert isinstance(result.termination, Stopped)
    assert not [event for event in events if isinstance(event.event, ToolCallReady)]
    assert [message.text() for message in log] == ["go", "on it"]


async def test_a_plugin_of_a_run_stays_one_when_its_agent_comes_back() -> None:
    made = 0

    class Own:
        id = "own"

        def for_run(self) -> Plugin:
            nonlocal made
            made += 1
            return Inner()

        def register(self, registrar: Registrar) -> None:
            raise AssertionError("each run has its own instance")

    class Inner:
        id = "own"

        def register(self, registrar: Registrar) -> None:
            return

    to = [tool_call_response("", "handoff", f"h{i}", {"agent": a}) for i, a in enumerate("ba")]
    a = Agent("a", model=ScriptedModel([to[0], "done"]), handoffs=["b"], plugins=[Own()])
    b = Agent("b", model=ScriptedModel([to[1]]), handoffs=["a"])
    async with Runtime([a, b]) as runtime:
        made = 0
        await runtime.run("a", "go")

    assert made == 1


async def test_input_that_is_already_in_the_log_is_still_the_runs_input() -> None:
    async with Runtime([Agent("a", model=ScriptedModel(["one", "two"]))]) as runtime:
        await runtime.run("a", "x", thread="t")
        queued = Message.user("queued")
        record = await runtime.engine.store.latest_run("t")
        assert record is not None
        await runtime.engine.store.commit(
            _appended("t", 2, queued),
        )
        result = await runtime.engine.run(
            RunRequest(thread_id="t", messages=(queued,), messages_already_persisted=True)
        )
        run = await runtime.find_run(result.run_id)

    assert run is not None
    assert run.input is not None
    assert run.output is not None
    assert (run.input.range, run.output.range) == (_range(1, 3), _range(4, 4))
    assert run.own_input == _range(3, 3)


async def test_a_runtime_with_one_agent_means_that_one() -> None:
    async with Runtime([Agent("only", model=ScriptedModel(["here"]))]) as runtime:
        assert (await runtime.run(input="hello")).response == "here"


async def test_a_closed_runtime_says_so() -> None:
    runtime = Runtime([Agent("a", model="demo")])
    await runtime.close()

    with pytest.raises(ConfigError, match="the runtime is closed"):
        await runtime.run("a", "hello")


def _appended(thread_id: str, length: int, message: Message) -> ThreadCommit:
    return ThreadCommit(thread_id=thread_id, expected_length=length, messages=(message,))


def _range(low: int, high: int) -> MessageSeqRange | None:
    return MessageSeqRange.new(low, high)


async def test_a_gate_that_asks_once_is_answered_once() -> None:
    """The same ticket again counts as answered; the gate need not know."""

    class Careful:
        id = "careful"

        def register(self, registrar: Registrar) -> None:
            registrar.gate(self.check)

        async def check(self, _: PhaseContext) -> Suspend:
            return Suspend.ask("Really?")

    @tool
    async def work() -> str:
        """Work."""
        return "worked"

    model = ScriptedModel([tool_call_response("", "work", "c1", {}), text_response("done")])
    agent = Agent("a", model=model, tools=[work], plugins=[Careful()])
    asked: list[str] = []

    def agree(ticket: RunWaitingTicket) -> bool:
        asked.append(ticket.tool_name)
        return True

    async with Runtime([agent]) as runtime:
        result = await runtime.run("a", "go", on_approval=agree)

    assert (result.response, asked) == ("done", ["work"])


COUNT: StateKey[int, object] = StateKey("count", initial=int, scope=Scope.THREAD)


@pytest.mark.parametrize(
    ("value", "why"),
    [("text", "it holds int, not str"), (None, "apply must return the new value")],
)
async def test_a_value_of_another_type_is_refused_when_it_is_written(
    value: object, why: str
) -> None:
    """The tool's result stays, the model is told, and the thread goes on."""

    @tool
    async def write() -> ToolOutput:
        """Write something wrong."""
        return ToolOutput({"written": True}, Command().update(COUNT, value))

    model = ScriptedModel([tool_call_response("", "write", "c1", {}), "one", "two"])
    agent = Agent("a", model=model, tools=[write], state=[COUNT])
    async with Runtime([agent]) as runtime:
        await runtime.run("a", "go", thread="t")
        again = await runtime.run("a", "go", thread="t")
        told = (await runtime.messages("t"))[2].text()
        kept = await runtime.state("t", COUNT)

    assert told.startswith('{"written":true}\n[state update refused: ')
    assert why in told
    assert (again.response, kept) == ("two", 0)


async def test_a_value_that_cannot_be_stored_is_refused_and_the_run_goes_on() -> None:
    anything: StateKey[object, object] = StateKey("anything", initial=lambda: 0)

    @tool
    async def write() -> ToolOutput:
        """Write something nobody can store."""
        return ToolOutput("written", Command().update(anything, object()))

    model = ScriptedModel([tool_call_response("", "write", "c1", {}), "done"])
    async with Runtime([Agent("a", model=model, tools=[write], state=[anything])]) as runtime:
        result = await runtime.run("a", "go", thread="t")
        told = (await runtime.messages("t"))[2].text()

    assert result.response == "done"
    assert "cannot encode 'anything'" in told


async def test_state_can_be_read_after_a_run() -> None:
    model = ScriptedModel([tool_call_response("", "visit", "c1", {}), "done"])
    async with Runtime([Agent("a", model=model, tools=[visit], state=[VISITS])]) as runtime:
        before = await runtime.state("t", VISITS)
        await runtime.run("a", "go", thread="t")

        assert (before, await runtime.state("t", VISITS)) == (0, 1)


async def test_a_hand_over_tells_the_model_what_the_others_do() -> None:
    model = ScriptedModel(["hello"])
    desk = Agent("desk", model=model, handoffs=["billing"])
    billing = Agent("billing", model="demo", description="Does money.")
    async with Runtime([desk, billing]) as runtime:
        await runtime.run("desk", "hello")

    (offered,) = model.requests[0].tools
    assert "- billing: Does money." in offered.description


async def test_a_stream_must_be_opened_before_it_is_read() -> None:
    runtime = Runtime([Agent("a", model="demo")])

    with pytest.raises(ConfigError, match="open the stream first: async with"):
        await anext(runtime.stream("a", "hello"))
    with pytest.raises(ConfigError, match="open the stream first"):
        await runtime.stream("a", "hello").read_to_end()


@pytest.mark.parametrize("kind", ["a string", "no generator"])
async def test_a_model_written_wrongly_is_told_how(kind: str) -> None:
    class Wrong:
        name = "wrong"

        async def _strings(self) -> AsyncIterator[object]:
            yield "hello"

        async def _nothing(self) -> None:
            return None

        def execute_stream(self, _: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
            wrong: Any = self._strings() if kind == "a string" else self._nothing()
            made: AsyncIterator[LlmStreamEvent] = wrong
            return made

    told = "yields TextDelta.* not 'hello'" if kind == "a string" else "as an async generator"
    async with Runtime([Agent("a", model=Wrong())]) as runtime:
        with pytest.raises(InferenceFailed, match=told):
            await runtime.run("a", "hello")
    gc.collect()  # a coroutine that was never awaited would say so now
