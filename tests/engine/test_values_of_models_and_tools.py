"""What a model yields and what a tool returns is checked before it is stored: a wrong type fails
the call, half of a surrogate pair is replaced."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
import pytest

from awaken import Agent, Command, Runtime, StateKey, ToolOutput, ToolResult, tool
from awaken.core.event import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.inference import StopReason, TokenUsage
from awaken.core.llm import (
    ContentBlockStop,
    InferenceRequest,
    LlmStreamEvent,
    ReasoningDone,
    Stop,
    ToolCallSigned,
    Usage,
)
from awaken.core.message import Citation, Opaque, Text
from awaken.core.state.key import Scope
from awaken.errors import InferenceFailed

pytestmark = pytest.mark.anyio

WRONG: Any = 7
BYTES: Any = b"x"
STOP = Stop(reason=StopReason.END_TURN)
SAID = TextDelta(delta="ok")
CALL = ToolCallStart(id="c", name="give")


class Yields:
    """A model that yields the given events once, and an answer after that."""

    name = "yields"

    def __init__(self, *events: LlmStreamEvent) -> None:
        self.events: Sequence[LlmStreamEvent] = events
        self.asked = 0

    async def execute_stream(self, _: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        self.asked += 1
        for event in self.events if self.asked == 1 else (TextDelta(delta="Done."), STOP):
            yield event


ANSWERS: dict[str, tuple[Sequence[LlmStreamEvent], str]] = {
    "a number as text": ((TextDelta(delta=WRONG),), "TextDelta, and its delta is a text, not 7"),
    "bytes as text": ((SAID, TextDelta(delta=BYTES)), "a delta that is no text: b'x'"),
    "bytes in a block": (
        (SAID, TextDelta(delta=BYTES), ContentBlockStop()),
        "a delta that is no text: b'x'",
    ),
    "a number as reasoning": (
        (ReasoningDelta(delta=WRONG), SAID),
        "ReasoningDelta, and its delta is a text, not 7",
    ),
    "bytes as reasoning": ((ReasoningDelta(delta=BYTES), SAID), "a delta that is no text: b'x'"),
    "half a token": (
        (SAID, Usage(usage=TokenUsage(prompt_tokens=1.5))),  # type: ignore[arg-type]
        "usage.prompt_tokens is a whole number or None, not 1.5",
    ),
    "a count that is true": (
        (SAID, Usage(usage=TokenUsage(total_tokens=True))),
        "usage.total_tokens is a whole number or None, not True",
    ),
    "no usage": ((SAID, Usage(usage=None)), "its usage is a mapping, not None"),  # type: ignore[arg-type]
    "the id of a call": ((ToolCallStart(id=WRONG, name="f"),), "its id is a text, not 7"),
    "the name of a call": ((ToolCallStart(id="c", name=WRONG),), "its name is a text, not 7"),
    "both": ((ToolCallStart(id=BYTES, name=BYTES),), "its id is a text, not b'x'"),
    "arguments": ((CALL, ToolCallDelta(id="c", args_delta=WRONG)), "args_delta is a text, not 7"),
    "arguments in bytes": (
        (CALL, ToolCallDelta(id="c", args_delta=BYTES)),
        "a delta that is no text: b'x'",
    ),
    "arguments of no call": (
        (ToolCallDelta(id=WRONG, args_delta="{}"),),
        "its id is a text, not 7",
    ),
    "a signature": ((CALL, ToolCallSigned(id="c", signature=WRONG)), "signature is a text, not 7"),
    "an origin": ((SAID, ReasoningDone(origin=WRONG)), "its origin is a text, not 7"),
    "a kind": ((SAID, Opaque(origin="x", kind=WRONG, data={})), "its kind is a text, not 7"),
    "data": (
        (SAID, Opaque(origin="x", kind="k", data={"a": object()})),
        r"its data\['a'\] cannot be stored: object cannot be written as JSON",
    ),
    "a position": (
        (SAID, Citation(origin="x", data={}, start="1")),  # type: ignore[arg-type]
        "its start is a whole number or None, not '1'",
    ),
    "a reason": ((SAID, Stop(reason="Tired")), "its reason: invalid enum value 'Tired'"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("events", "told"), ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_with_a_wrong_type_fails_the_call_and_names_the_field(
    events: Sequence[LlmStreamEvent], told: str
) -> None:
    model = Yields(*events, STOP)
    async with Runtime([Agent("a", model=model)], store="sqlite:///:memory:") as runtime:
        with pytest.raises(InferenceFailed, match=told):
            await runtime.run("a", "Hello", thread="t")
        assert model.asked == 1
        assert len(await runtime.list_runs()) == 1
        assert (await runtime.run("a", "Again", thread="t")).response == "Done."


async def test_half_of_a_surrogate_pair_from_a_model_is_replaced() -> None:
    got: list[str] = []

    @tool(effect="read")
    async def give(text: str) -> dict[str, str]:
        """Give."""
        got.append(text)
        return {"a\ud800": "b\ud800"}

    model = Yields(
        ReasoningDelta(delta="r\ud800"),
        ReasoningDone(origin="o\ud800", signature="s\ud800"),
        TextDelta(delta="t\ud83d"),
        TextDelta(delta="\ude00 \ud800"),
        Citation(origin="x", data={"k\ud800": "\ud800"}, url="u\ud800"),
        Opaque(origin="o", kind="k", data=["\ud800"]),
        ToolCallStart(id="c\ud800", name="give"),
        ToolCallDelta(
            id="c\ud800", args_delta='{"text": "\\ud800 \\\\ud800 \\ud83d\\ude00 \ud800"}'
        ),
        ToolCallStart(id="c\ud801", name="give\ud800"),
        ToolCallSigned(id="c\ud801", signature="\ud800"),
        STOP,
    )
    agent = Agent("a", model=model, tools=[give])
    async with Runtime([agent], store="sqlite:///:memory:") as runtime:
        async with runtime.stream("a", "Hello", thread="t") as events:
            told = [told.event async for told in events]
        assert events.result.ok
        messages = await runtime.messages("t")
    # A pair that two deltas share is one character, and an escaped backslash is none of a pair.
    assert got == ["\ufffd \\ud800 \U0001f600 \ufffd"]
    assert messages[1].text() == "t\U0001f600 \ufffd"
    calls = messages[1].tool_calls or ()
    assert [call.id for call in calls] == ["c\ufffd", "c\ufffd#2"]
    assert [message.tool_call_id for message in messages[2:4]] == ["c\ufffd", "c\ufffd#2"]
    assert messages[2].text() == '{"a\ufffd":"b\ufffd"}'
    starts = [event for event in told if isinstance(event, ToolCallStart)]
    assert [event.name for event in starts] == ["give", "give\ufffd"]


RESULTS: dict[str, tuple[Callable[[], object], str]] = {
    "a message": (
        lambda: ToolResult(tool_name="give", status="success", message=WRONG),  # type: ignore[arg-type]
        "its result.message is a text or None, not 7",
    ),
    "a name": (lambda: ToolResult.success(WRONG, "x"), "its result.tool_name is a text, not 7"),
    "a status": (
        lambda: ToolResult(tool_name="give", status="great"),  # type: ignore[arg-type]
        "its result.status: invalid enum value 'great'",
    ),
    "data": (
        lambda: ToolResult.success("give", {"a": [object()]}),
        "its result.data['a'][0] cannot be stored",
    ),
    "an output": (
        lambda: ToolOutput(ToolResult.success("give", object())),
        "its result.data cannot be stored",
    ),
    "content": (lambda: ["a", Text(text=BYTES)], "its content[1].text is a text, not b'x'"),
}


@pytest.mark.parametrize(("make", "told"), RESULTS.values(), ids=RESULTS)
async def test_a_result_with_a_wrong_type_fails_the_call_and_the_model_is_told(
    make: Callable[[], object], told: str
) -> None:
    @tool
    async def give() -> Any:
        """Give."""
        return make()

    model = Yields(CALL, ToolCallDelta(id="c", args_delta="{}"), STOP)
    agent = Agent("a", model=model, tools=[give])
    async with Runtime([agent], store="sqlite:///:memory:") as runtime:
        assert (await runtime.run("a", "Hello", thread="t")).response == "Done."
        result = (await runtime.messages("t"))[2].text()
    assert result.startswith("Execution failed: ")
    assert told in result


class Seen(msgspec.Struct, frozen=True):
    """What was seen of a place."""

    height: float = 0.0


SEEN: StateKey[Seen, Seen] = StateKey("seen", initial=Seen, scope=Scope.THREAD)


@pytest.mark.parametrize("height", [math.nan, "high"])
async def test_a_state_update_that_could_not_be_read_back_is_refused_and_the_thread_goes_on(
    height: Any,
) -> None:
    @tool
    async def give() -> ToolOutput:
        """Give."""
        return ToolOutput(
            ToolResult.success("give", "x"), Command().update(SEEN, Seen(height=height))
        )

    model = Yields(CALL, ToolCallDelta(id="c", args_delta="{}"), STOP)
    agent = Agent("a", model=model, tools=[give], state=[SEEN])
    async with Runtime([agent], store="sqlite:///:memory:") as runtime:
        assert (await runtime.run("a", "Hello", thread="t")).response == "Done."
        result = (await runtime.messages("t"))[2].text()
        assert "state update refused: cannot encode 'seen': it could not be read back" in result
        assert await runtime.state("t", SEEN) == Seen()
        assert (await runtime.run("a", "Again", thread="t")).response == "Done."


@pytest.mark.parametrize("seconds", [1e15, 1e300, 1e308])
async def test_a_question_that_never_expires_in_practice_is_kept(
    seconds: float, durable_address: str
) -> None:
    """A database has no integer for such an instant."""

    @tool(needs_approval=True, approval_expires_in=seconds)
    async def give() -> str:
        """Give."""
        return "given"

    model = Yields(CALL, ToolCallDelta(id="c", args_delta="{}"), STOP)
    async with Runtime([Agent("a", model=model, tools=[give])], store=durable_address) as runtime:
        (asked,) = (await runtime.run("a", "Hello", thread="t")).tickets
        assert (await runtime.run(thread="t", answers={asked: True})).response == "Done."


async def test_a_zero_character_in_a_call_id_of_a_model_is_replaced(durable_address: str) -> None:
    """Postgres cannot keep it, and the id of a call is a part of its ticket."""

    @tool(needs_approval=True)
    async def give() -> str:
        """Give."""
        return "given"

    start = ToolCallStart(id="c\0", name="give")
    model = Yields(start, ToolCallDelta(id="c\0", args_delta="{}"), STOP)
    async with Runtime([Agent("a", model=model, tools=[give])], store=durable_address) as runtime:
        (asked,) = (await runtime.run("a", "Hello", thread="t")).tickets
        assert (await runtime.run(thread="t", answers={asked: True})).response == "Done."
        calls = (await runtime.messages("t"))[1].tool_calls or ()
    assert [call.id for call in calls] == ["c\ufffd"]
