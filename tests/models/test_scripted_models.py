"""The models of the tests, tested."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from awaken.core.answer_builder import StreamAccumulator
from awaken.core.event import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.inference import StopReason, StreamResult, TokenUsage
from awaken.core.llm import (
    InferenceRequest,
    LlmExecutor,
    LlmStreamEvent,
    ProviderError,
    Stop,
    Usage,
)
from awaken.core.message import Message, Text, Thinking
from awaken.core.tool_context import Tool
from awaken.testing import (
    CustomCancelTool,
    EchoTool,
    FunctionModel,
    ScriptedModel,
    max_tokens_response,
    stream_of,
    text_response,
    tool_call_response,
    tool_calls_response,
)

pytestmark = pytest.mark.anyio

ZERO = TokenUsage(prompt_tokens=0, completion_tokens=0)


def request(*messages: Message) -> InferenceRequest:
    return InferenceRequest(upstream_model="m", messages=messages)


async def ask(model: LlmExecutor, question: InferenceRequest | None = None) -> StreamResult:
    accumulator = StreamAccumulator()
    async for event in model.execute_stream(question or request()):
        accumulator.push(event)
    return accumulator.finish()


# -- answers ----------------------------------------------------------------------------------


def test_the_ready_made_answers_are_what_their_names_say() -> None:
    assert text_response("hi") == StreamResult(
        content=(Text(text="hi"),), usage=ZERO, stop_reason=StopReason.END_TURN
    )
    call = tool_call_response("", "echo", "c1", {"a": 1})
    assert (call.content, call.stop_reason) == ((), StopReason.TOOL_USE)
    assert call.tool_calls[0].name == "echo"
    calls = tool_calls_response("x", ("a", "1", {}), ("b", "2", {}))
    assert [(c.id, c.name) for c in calls.tool_calls] == [("1", "a"), ("2", "b")]
    assert max_tokens_response("x").needs_truncation_recovery


def test_a_result_streams_in_the_order_of_a_provider() -> None:
    result = StreamResult(
        content=(Thinking(thinking="hm"), Text(text="hello")),
        tool_calls=tool_call_response("", "echo", "c1", {"a": 1}).tool_calls,
        usage=ZERO,
        stop_reason=StopReason.TOOL_USE,
    )
    assert stream_of(result, chunk=3) == [
        ReasoningDelta(delta="hm"),
        TextDelta(delta="hel"),
        TextDelta(delta="lo"),
        ToolCallStart(id="c1", name="echo"),
        ToolCallDelta(id="c1", args_delta='{"a":1}'),
        Usage(usage=ZERO),
        Stop(reason=StopReason.TOOL_USE),
    ]


# -- scripted ---------------------------------------------------------------------------------


async def test_a_script_is_followed_first_come_first_served() -> None:
    model = ScriptedModel(["one", text_response("two"), [TextDelta(delta="three")]])
    assert (model.name, model.remaining) == ("scripted", 3)
    assert [(await ask(model)).text() for _ in range(3)] == ["one", "two", "three"]
    assert (model.calls, model.remaining) == (3, 0)


async def test_running_dry_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="scripted LLM exhausted"):
        await ask(ScriptedModel([]))


async def test_an_exception_is_raised_in_its_place() -> None:
    model = ScriptedModel([ProviderError("x"), [TextDelta(delta="hal"), ProviderError("y")]])
    with pytest.raises(ProviderError, match="x"):
        await ask(model)
    stream = model.execute_stream(request())
    assert await anext(stream) == TextDelta(delta="hal")
    with pytest.raises(ProviderError, match="y"):
        await anext(stream)


async def test_text_comes_in_one_delta_unless_asked_otherwise() -> None:
    whole = [event async for event in ScriptedModel(["hello"]).execute_stream(request())]
    pieces = [event async for event in ScriptedModel(["hello"], chunk=2).execute_stream(request())]
    assert whole[:1] == [TextDelta(delta="hello")]
    assert pieces[:3] == [TextDelta(delta=piece) for piece in ("he", "ll", "o")]


async def test_requests_are_kept_as_they_were() -> None:
    log = [Message.user("a")]
    model = ScriptedModel(["x"])
    await ask(model, InferenceRequest(upstream_model="m", messages=log))
    log.append(Message.user("b"))
    assert [message.text() for message in model.requests[0].messages] == ["a"]


async def test_without_record_only_the_calls_are_counted() -> None:
    model = ScriptedModel(["x"], record=False)
    await ask(model)
    assert (model.calls, model.requests) == (1, [])


# -- function ---------------------------------------------------------------------------------


async def events_of(question: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
    yield TextDelta(delta=question.messages[-1].text().upper())


async def later(question: InferenceRequest) -> str:
    return question.messages[-1].text().upper()


@pytest.mark.parametrize(
    "fn",
    [
        lambda question: question.messages[-1].text().upper(),
        lambda question: text_response(question.messages[-1].text().upper()),
        lambda question: [TextDelta(delta=question.messages[-1].text().upper())],
        later,
        events_of,
    ],
    ids=["text", "result", "events", "awaitable", "iterator"],
)
async def test_a_function_may_answer_in_any_shape(fn: object) -> None:
    model = FunctionModel(fn)  # type: ignore[arg-type]  # the five shapes have no common type
    assert (await ask(model, request(Message.user("hi")))).text() == "HI"
    assert model.calls == 1


# -- tools ------------------------------------------------------------------------------------


async def test_the_tools_answer_what_tests_look_for() -> None:
    echo: Tool = EchoTool()
    cancel = CustomCancelTool()
    output = await echo.execute(echo.validate_args({"a": 1}), None)  # type: ignore[arg-type]  # unused
    assert output.result.data == {"a": 1}
    assert output.result.message == "tool result should not win"
    handled = await cancel.execute({}, None)  # type: ignore[arg-type]  # unused
    assert handled.result.message == "custom cancel handled"
    assert cancel.calls == 1
    assert (echo.descriptor().id, cancel.descriptor().id) == ("echo", "cancel_task")
