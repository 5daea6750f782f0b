"""Answers of a type, read while they stream: whose they are, and what becomes of half of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

import pytest
from front_kit import Piece, pay

from answer_kit import by_id
from awaken import Agent, Runtime, tool
from awaken.core.event import (
    AgentEvent,
    EventSink,
    RunEvent,
    RunStart,
    StepStart,
    StreamReset,
    TextDelta,
    ToolCallCancel,
    ToolCallDelta,
    ToolCallStart,
)
from awaken.core.identity import RunIdentity
from awaken.core.inference import StopReason, TokenUsage
from awaken.core.intercept import Suspend
from awaken.core.lifecycle import NATURAL_END
from awaken.core.llm import LlmStreamEvent, ModelAbilities, ProviderError, Stop
from awaken.core.suspension import SuspendTicket, Suspension, ToolCallResumeMode
from awaken.errors import ConfigError
from awaken.models.output_tool import OUTPUT_TOOL
from awaken.plugin.context import PhaseContext
from awaken.runtime.output import OutputType
from awaken.runtime.result import RunResult
from awaken.runtime.stream import RunStream
from awaken.testing import FakeClock, ScriptedModel, tool_call_response, tool_calls_response

pytestmark = pytest.mark.anyio

CUT = ProviderError("connection reset by peer")
END = Stop(reason=StopReason.END_TURN)


class City(TypedDict):
    name: str


class Native(ScriptedModel):
    """A model that keeps to a shape by itself."""

    def abilities(self, upstream_model: str) -> ModelAbilities:
        return ModelAbilities(native_output=True)


def text(*pieces: str) -> list[LlmStreamEvent]:
    return [TextDelta(delta=piece) for piece in pieces]


def hands_over(to: str) -> Any:
    return tool_call_response('{"name": "nobody"}', "handoff", "h1", {"agent": to})


async def shown(stream: RunStream) -> list[Any]:
    async with stream as events:
        return [so_far async for so_far in events.outputs()]


# -- whose answer it is -----------------------------------------------------------------------


async def test_a_run_that_is_answered_goes_on_with_the_shape_of_its_agent() -> None:
    model = Native([tool_call_response("", "pay", "c1", {"n": 1}), '{"value": [1, 2]}'])
    async with Runtime([Agent("a", model=model, output=list[int], tools=[pay])]) as runtime:
        assert await shown(runtime.stream("a", "go", thread="t")) == []
        assert await shown(
            runtime.stream(thread="t", answers=await by_id(runtime, {"c1": True}))
        ) == [[1, 2]]


async def test_the_shape_is_that_of_the_agent_that_was_handed_the_run() -> None:
    lists, names = Native([hands_over("names")]), Native(['{"name": "Paris"}'], chunk=12)
    agents = [
        Agent("lists", model=lists, output=list[int], handoffs=["names"]),
        Agent("names", model=names, output=City),
    ]
    async with Runtime(agents) as runtime:
        async with runtime.stream("lists", "go") as events:
            pieces = [so_far async for so_far in events.outputs()]
        assert pieces == [{"name": "Pa"}, {"name": "Paris"}]
        assert events.result.output == {"name": "Paris"}


async def test_who_is_handed_the_run_needs_no_shape_and_who_hands_it_over_neither() -> None:
    first, second = ScriptedModel([hands_over("names")]), Native(['{"name": "Paris"}'])
    third = Native([hands_over("talker")])
    agents = [
        Agent("opener", model=first, handoffs=["names"]),
        Agent("names", model=second, output=City),
        Agent("closer", model=third, output=City, handoffs=["talker"]),
        Agent("talker", model=ScriptedModel(['{"name": "in words"}'])),
    ]
    async with Runtime(agents) as runtime:
        assert await shown(runtime.stream("opener", "go")) == [{"name": "Paris"}]
        assert await shown(runtime.stream("closer", "go")) == [{"name": "nobody"}]


async def test_a_hand_over_that_had_to_be_approved_changes_the_shape_too() -> None:
    """No step has ended since: the first turn of the stream is the other agent's."""

    async def hold(ctx: PhaseContext) -> Suspend | None:
        if ctx.resume_input is not None:
            return None
        ticket = SuspendTicket(
            suspension=Suspension(id="check", action="approve"),
            resume_mode=ToolCallResumeMode.REPLAY_TOOL_CALL,
        )
        return Suspend(ticket=ticket)

    agents = [
        Agent(
            "lists",
            model=Native([hands_over("names")]),
            output=list[int],
            handoffs=["names"],
            plugins=[Piece("hold", lambda r: r.gate(hold))],
        ),
        Agent("names", model=Native(['{"name": "Paris"}']), output=City),
    ]
    async with Runtime(agents) as runtime:
        await runtime.run("lists", "go", thread="t")
        stream = runtime.stream(thread="t", answers=await by_id(runtime, {"check": True}))
        assert await shown(stream) == [{"name": "Paris"}]


async def test_a_delegate_with_a_shape_is_not_what_the_run_answers() -> None:
    asks = tool_call_response("", "agent_run_names", "d1", {"prompt": "go"})
    model, inner = Native([asks, '{"value": [1]}']), Native(['{"name": "Paris"}'])
    agents = [
        Agent("lists", model=model, output=list[int], delegates=["names"]),
        Agent("names", model=inner, output=City),
    ]
    async with Runtime(agents) as runtime:
        assert await shown(runtime.stream("lists", "go")) == [[1]]
    assert inner.calls == 1


async def test_where_nobody_who_speaks_has_a_shape_that_is_said() -> None:
    agents = [
        Agent("talker", model=ScriptedModel(["hi"])),
        Agent("names", model="demo", output=City),
    ]
    async with Runtime(agents) as runtime:
        with pytest.raises(ConfigError, match="agent 'talker' answers with text"):
            await shown(runtime.stream("talker", "go"))


# -- when it starts over ----------------------------------------------------------------------


async def outputs_of(*script: Sequence[LlmStreamEvent | Exception], native: bool = True) -> Any:
    @tool
    async def add(a: int) -> int:
        """Add."""
        return a

    model = (Native if native else ScriptedModel)(script)
    agent = Agent("a", model=model, output=City, tools=[add])
    async with Runtime([agent], clock=FakeClock(auto=True)) as runtime:
        async with runtime.stream("a", "go") as events:
            pieces = [so_far async for so_far in events.outputs()]
        return pieces, events.result.output


async def test_an_answer_that_broke_off_is_shown_from_its_beginning_again() -> None:
    pieces, output = await outputs_of(
        [*text('{"name": "Pa', "ri"), CUT], [*text('{"name": "Pari', 's"}'), END]
    )
    assert pieces == [{"name": "Pa"}, {"name": "Pari"}, {"name": "Pari"}, {"name": "Paris"}]
    assert output == {"name": "Paris"}


async def test_an_answer_that_is_a_call_and_broke_off_is_shown_from_its_beginning_again() -> None:
    def answer(*pieces: str) -> list[LlmStreamEvent]:
        written = [ToolCallDelta(id="o", args_delta=piece) for piece in pieces]
        return [ToolCallStart(id="o", name=OUTPUT_TOOL), *written]

    end = Stop(reason=StopReason.TOOL_USE)
    pieces, output = await outputs_of(
        [*answer('{"name": "Pa'), CUT], [*answer('{"name": "P', 'aris"}'), end], native=False
    )
    assert pieces == [{"name": "Pa"}, {"name": "P"}, {"name": "Paris"}]
    assert output == {"name": "Paris"}


async def test_words_around_a_call_that_was_dropped_are_no_beginning_of_the_answer() -> None:
    def call(id: str, arguments: str) -> list[LlmStreamEvent]:
        return [ToolCallStart(id=id, name="add"), ToolCallDelta(id=id, args_delta=arguments)]

    pieces, _ = await outputs_of(
        [*text('{"name": "x'), *call("1", '{"a": 1}'), *call("2", '{"a'), CUT],
        [*text('{"name": "Paris"}'), END],
    )
    assert pieces == [{"name": "x"}, {"name": "Paris"}]


@pytest.mark.parametrize(
    "taken_back", [StreamReset(reason="cut"), ToolCallCancel(id="2", name="add", reason="cut")]
)
async def test_what_is_taken_back_within_a_turn_is_no_beginning_of_the_answer(
    taken_back: AgentEvent,
) -> None:
    identity = RunIdentity(thread_id="t", run_id="r", agent_id="a")
    events: list[AgentEvent] = [
        RunStart(thread_id="t", run_id="r", identity=identity),
        StepStart(message_id="m"),
        TextDelta(delta='{"name": "x'),
        taken_back,
        TextDelta(delta='{"name": "Paris"}'),
    ]

    async def tell(sink: EventSink) -> RunResult:
        for event in events:
            await sink.emit(RunEvent(thread_id="t", run_id="r", at_ms=0, event=event))
        usage = TokenUsage()
        return RunResult(
            thread_id="t", run_id="r", response="", termination=NATURAL_END, steps=1, usage=usage
        )

    shapes = {"a": OutputType("agent 'a'", City)}
    stream = RunStream(Runtime([]).engine, tell, shapes=shapes)
    assert await shown(stream) == [{"name": "x"}, {"name": "Paris"}]


async def test_an_answer_that_did_not_fit_is_shown_from_its_beginning_again() -> None:
    pieces, _ = await outputs_of([*text('{"name": 5}'), END], [*text('{"name": "Par', 'is"}'), END])
    assert pieces == [{"name": 5}, {"name": "Par"}, {"name": "Paris"}]


# -- words before it --------------------------------------------------------------------------


async def test_words_with_braces_before_the_object_are_not_taken_for_it() -> None:
    answer = tool_calls_response(
        'Here is {the} answer, no {"draft": 1, ...}: ', (OUTPUT_TOOL, "1", {"name": "Paris"})
    )
    agent = Agent("a", model=ScriptedModel([answer], chunk=3), output=City)
    async with Runtime([agent]) as runtime:
        pieces = await shown(runtime.stream("a", "go"))
    assert pieces == [{}, {"draft": 1}, {"name": "Paris"}]
