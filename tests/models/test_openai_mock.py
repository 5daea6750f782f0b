"""OpenAI's two APIs through the real SDK, against aimock."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from mock_server import MockServer

from awaken.core.answer_builder import StreamAccumulator
from awaken.core.event import ReasoningDelta
from awaken.core.inference import OutputFormat, StopReason, StreamResult
from awaken.core.llm import (
    ContentFiltered,
    ContextOverflow,
    InferenceRequest,
    LlmExecutor,
    ProviderError,
    RateLimited,
    ReasoningDone,
    Unauthorized,
)
from awaken.core.message import Message, Role, Text, ToolCall
from awaken.core.tool import ToolDescriptor
from awaken.models.openai import AzureChat, OpenAIChat, OpenAIResponses

pytestmark = pytest.mark.anyio

KEY = "sk-test-0123456789abcdef"
CALLS = [
    {"id": "call_a", "name": "weather", "arguments": {"city": "Paris"}},
    {"id": "call_b", "name": "weather", "arguments": {"city": "Rome"}},
]


def failing(message: str, status: int, error: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "match": {"userMessage": message},
        "response": {"error": error, "status": status, **fields},
    }


FIXTURES: list[dict[str, Any]] = [
    {
        "match": {"userMessage": "hello"},
        "response": {
            "content": "Hello, and welcome to the other end of the wire.",
            "usage": {
                "prompt_tokens": 12,
                "completion_tokens": 11,
                "total_tokens": 23,
                "input_tokens": 12,
                "output_tokens": 11,
            },
        },
    },
    {
        "match": {"userMessage": "weather", "hasToolResult": False},
        "response": {"content": "Let me look.", "toolCalls": CALLS},
    },
    {
        "match": {"userMessage": "weather", "toolCallId": "call_b", "toolResultContains": "24"},
        "response": {"content": "Paris 21, Rome 24."},
    },
    {
        "match": {"userMessage": "think"},
        "response": {"content": "42.", "reasoning": "Six times seven is forty-two."},
    },
    {
        "match": {"userMessage": "json", "responseFormat": "json_schema"},
        "response": {"content": {"city": "Paris"}},
    },
    {
        "match": {"userMessage": "long"},
        "response": {"content": "Once upon a", "finishReason": "length"},
    },
    {
        "match": {"userMessage": "cut"},
        "response": {"content": "A story that is cut off in its middle, before anything happens."},
        "truncateAfterChunks": 3,
    },
    failing("slow", 429, {"message": "Slow down", "type": "rate_limit_error"}, retryAfter=7),
    failing("broken", 500, {"message": "The server broke", "type": "server_error"}),
    failing(
        "huge",
        400,
        {
            "message": "This model's maximum context length is 128000 tokens.",
            "type": "invalid_request_error",
            "code": "context_length_exceeded",
        },
    ),
    failing(
        "filtered",
        400,
        {"message": "The prompt was filtered", "type": "invalid_request", "code": "content_filter"},
    ),
]


@pytest.fixture(scope="module")
def server() -> Iterator[MockServer]:
    with MockServer(FIXTURES, api_keys=[KEY]) as server:
        yield server


@pytest.fixture(params=["responses", "chat", "azure"])
async def model(
    request: pytest.FixtureRequest, server: MockServer
) -> AsyncIterator[OpenAIResponses | OpenAIChat]:
    server.forget()
    executor: OpenAIResponses | OpenAIChat
    if request.param == "responses":
        executor = OpenAIResponses(base_url=f"{server.url}/v1", api_key=KEY)
    elif request.param == "chat":
        executor = OpenAIChat(base_url=f"{server.url}/v1", api_key=KEY)
    else:
        executor = AzureChat(base_url=server.url, api_key=KEY)
    yield executor
    await executor.aclose()


WEATHER = ToolDescriptor(
    id="weather",
    name="Weather",
    description="The weather in a city.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}},
)


def asking(*messages: Message, **fields: Any) -> InferenceRequest:
    return InferenceRequest(upstream_model="gpt-5", messages=messages, **fields)


async def ask(model: LlmExecutor, *messages: Message, **fields: Any) -> StreamResult:
    accumulator = StreamAccumulator()
    async for event in model.execute_stream(asking(*messages, **fields)):
        accumulator.push(event)
    return accumulator.finish()


async def test_text_comes_in_pieces_with_its_usage(model: OpenAIChat) -> None:
    result = await ask(model, Message.user("hello"), system=(Text(text="Be brief."),))
    assert result.text() == "Hello, and welcome to the other end of the wire."
    assert result.stop_reason is StopReason.END_TURN
    assert result.usage is not None
    assert result.usage.prompt_tokens == 12
    assert result.usage.completion_tokens == 11
    assert result.usage.total_tokens == 23


async def test_parallel_calls_and_their_results(model: OpenAIChat) -> None:
    question = Message.user("weather in Paris and Rome?")
    result = await ask(model, question, tools=(WEATHER,))
    assert result.text() == "Let me look."
    assert result.stop_reason is StopReason.TOOL_USE
    assert result.tool_calls == (
        ToolCall(id="call_a", name="weather", arguments={"city": "Paris"}),
        ToolCall(id="call_b", name="weather", arguments={"city": "Rome"}),
    )
    answer = Message(role=Role.ASSISTANT, content=result.content, tool_calls=result.tool_calls)
    told = (Message.tool("call_a", "21"), Message.tool("call_b", "24"))
    result = await ask(model, question, answer, *told, tools=(WEATHER,))
    assert result.text() == "Paris 21, Rome 24."


async def test_reasoning_is_streamed_and_kept(model: OpenAIChat) -> None:
    events = [event async for event in model.execute_stream(asking(Message.user("think")))]
    thought = "".join(event.delta for event in events if isinstance(event, ReasoningDelta))
    assert thought == "Six times seven is forty-two."
    [done] = [event for event in events if isinstance(event, ReasoningDone)]
    assert done.origin == model.name
    assert (await ask(model, Message.user("think"))).text() == "42."


async def test_an_output_format_is_asked_for(server: MockServer) -> None:
    model = OpenAIChat(base_url=f"{server.url}/v1", api_key=KEY)
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    result = await ask(model, Message.user("json"), output=OutputFormat(name="city", schema=schema))
    await model.aclose()
    assert result.text() == '{"city":"Paris"}'


async def test_an_answer_that_hits_its_limit_says_so(model: OpenAIChat) -> None:
    assert (await ask(model, Message.user("long"))).stop_reason is StopReason.MAX_TOKENS


async def test_a_stream_cut_in_the_middle_is_no_answer(model: OpenAIChat) -> None:
    with pytest.raises(ProviderError, match="connection reset"):
        await ask(model, Message.user("cut"))


async def test_too_many_requests_say_how_long_to_wait(model: OpenAIChat) -> None:
    """02/§6.2: Retry-After in seconds."""
    with pytest.raises(RateLimited, match="HTTP 429: Slow down") as caught:
        await ask(model, Message.user("slow"))
    assert caught.value.retry_after == 7.0


async def test_a_failure_is_not_tried_again_by_the_sdk(
    model: OpenAIChat, server: MockServer
) -> None:
    with pytest.raises(ProviderError, match="HTTP 500: The server broke"):
        await ask(model, Message.user("broken"))
    assert len(server.journal()) == 1


async def test_a_conversation_too_long_is_an_overflow(model: OpenAIChat) -> None:
    with pytest.raises(ContextOverflow, match="maximum context length"):
        await ask(model, Message.user("huge"))


async def test_filtered_content_is_told_as_such(model: OpenAIChat) -> None:
    with pytest.raises(ContentFiltered, match="The prompt was filtered"):
        await ask(model, Message.user("filtered"))


async def test_a_wrong_key_is_unauthorized_and_not_told(server: MockServer) -> None:
    wrong = "sk-wrong-0123456789abcdef"
    for make in (OpenAIResponses, OpenAIChat):
        model = make(base_url=f"{server.url}/v1", api_key=wrong)
        with pytest.raises(Unauthorized) as caught:
            await ask(model, Message.user("hello"))
        await model.aclose()
        assert wrong not in str(caught.value)


async def test_many_at_once_share_an_executor(model: OpenAIChat) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(model, Message.user("hello"))) for _ in range(5)]
    assert {task.result().text() for task in tasks} == {
        "Hello, and welcome to the other end of the wire."
    }


def test_one_executor_serves_one_loop_after_the_other(server: MockServer) -> None:
    model = OpenAIChat(base_url=f"{server.url}/v1", api_key=KEY)

    async def once() -> str:
        result = await ask(model, Message.user("think"))
        await model.aclose()
        return result.text()

    assert [asyncio.run(once()) for _ in range(2)] == ["42.", "42."]


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_an_executor_that_is_not_closed_keeps_no_loop_that_has_ended(server: MockServer) -> None:
    model = OpenAIChat(base_url=f"{server.url}/v1", api_key=KEY)

    async def once() -> weakref.ref[object]:
        await ask(model, Message.user("think"))
        return weakref.ref(asyncio.get_running_loop())

    async def last() -> None:
        await ask(model, Message.user("think"))
        await model.aclose()

    loops = [asyncio.run(once()) for _ in range(3)]
    asyncio.run(last())
    gc.collect()
    assert [loop() for loop in loops] == [None] * 3


async def test_azure_asks_the_deployment(server: MockServer) -> None:
    server.forget()
    model = AzureChat(base_url=server.url, api_key=KEY, api_version="2025-01-01")
    await ask(model, Message.user("hello"))
    await model.aclose()
    [entry] = server.journal()
    assert entry["path"] == "/openai/deployments/gpt-5/chat/completions?api-version=2025-01-01"
