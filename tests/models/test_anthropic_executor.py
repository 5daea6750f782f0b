"""Claude through the real SDK: against aimock, and against bytes as Anthropic documents them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

import anthropic
import pytest
from mock_server import Answer, MockServer, WireServer, sse

from awaken.core.answer_builder import StreamAccumulator
from awaken.core.event import TextDelta
from awaken.core.inference import (
    InferenceOverride,
    OutputFormat,
    StopReason,
    StreamResult,
    TokenUsage,
)
from awaken.core.llm import (
    ContentFiltered,
    ContextOverflow,
    InferenceExecutionError,
    InferenceRequest,
    InferenceTimeout,
    InvalidRequest,
    LlmStreamEvent,
    ModelMissing,
    NoCredit,
    Overloaded,
    ProviderError,
    RateLimited,
    Stop,
    Unauthorized,
    Usage,
)
from awaken.core.message import Message, Opaque, Role, Text, Thinking, ToolCall
from awaken.core.secret import RedactedString
from awaken.core.tool import ToolDescriptor
from awaken.errors import ConfigError
from awaken.models.anthropic import AnthropicMessages, open_anthropic
from awaken.testing import FakeClock

pytestmark = pytest.mark.anyio

KEY = "sk-ant-right-key-0001"
MODEL = "claude-opus-5-5"
WEATHER = ToolDescriptor(id="srv.weather", name="Weather", description="The weather.")

FIXTURES: list[dict[str, Any]] = [
    {
        "match": {"userMessage": "hello"},
        "response": {
            "content": "Hello there, and welcome to the mock.",
            "usage": {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18},
        },
    },
    {"match": {"userMessage": "think"}, "response": {"content": "42.", "reasoning": "Let me see"}},
    {"match": {"userMessage": "long"}, "response": {"content": "cut", "finishReason": "length"}},
    {
        "match": {"userMessage": "weather", "hasToolResult": False},
        "response": {
            "content": "Looking.",
            "toolCalls": [
                {"id": "toolu_a", "name": "look", "arguments": {"city": "Rome"}},
                {"id": "toolu_b", "name": "look", "arguments": {"city": "Oslo"}},
            ],
        },
    },
    {
        "match": {"userMessage": "weather", "toolCallId": "toolu_b"},
        "response": {"content": "Warm and cold."},
    },
    {
        "match": {"userMessage": "too fast"},
        "response": {
            "error": {"message": "Slow down", "type": "rate_limit_error"},
            "status": 429,
            "retryAfter": 7,
        },
    },
    {
        "match": {"userMessage": "broken"},
        "response": {"error": {"message": "Internal", "type": "api_error"}, "status": 500},
    },
    {
        "match": {"userMessage": "busy"},
        "response": {"error": {"message": "Overloaded", "type": "overloaded_error"}, "status": 529},
    },
    {
        "match": {"userMessage": "overflow"},
        "response": {
            "error": {
                "message": "prompt is too long: 9 tokens > 8 maximum",
                "type": "invalid_request_error",
            },
            "status": 400,
        },
    },
    {
        "match": {"userMessage": "filtered"},
        "response": {
            "error": {
                "message": "Output blocked by content filtering policy",
                "type": "invalid_request_error",
            },
            "status": 400,
        },
    },
    {
        "match": {"userMessage": "no money"},
        "response": {
            "error": {"message": "Your credit balance is too low", "type": "billing_error"},
            "status": 402,
        },
    },
    {
        "match": {"userMessage": "no model"},
        "response": {
            "error": {"message": "model: claude-x", "type": "not_found_error"},
            "status": 404,
        },
    },
    {
        "match": {"userMessage": "cut off"},
        "response": {"content": "This is a sentence that never ends because it is cut."},
        "truncateAfterChunks": 4,
        "latency": 1,
    },
]


@pytest.fixture(scope="module")
def server() -> Iterator[MockServer]:
    with MockServer(FIXTURES, api_keys=[KEY]) as running:
        yield running


@pytest.fixture
async def claude(server: MockServer) -> AsyncIterator[AnthropicMessages]:
    async with aclosing(AnthropicMessages(api_key=KEY, base_url=server.url)) as executor:
        yield executor


def request(*messages: Message | str, model: str = MODEL, **more: Any) -> InferenceRequest:
    log = [Message.user(m) if isinstance(m, str) else m for m in messages]
    return InferenceRequest(upstream_model=model, messages=log, **more)


async def events(executor: AnthropicMessages, asked: InferenceRequest) -> list[LlmStreamEvent]:
    return [event async for event in executor.execute_stream(asked)]


def joined(told: list[LlmStreamEvent]) -> StreamResult:
    accumulator = StreamAccumulator()
    for event in told:
        accumulator.push(event)
    return accumulator.finish()


async def failure(executor: AnthropicMessages, asked: InferenceRequest) -> InferenceExecutionError:
    with pytest.raises(InferenceExecutionError) as raised:
        await events(executor, asked)
    return raised.value


# -- aimock -------------------------------------------------------------------------------------


async def test_an_answer_comes_in_pieces_with_its_cost(claude: AnthropicMessages) -> None:
    told = await events(claude, request("hello"))
    pieces = [event.delta for event in told if isinstance(event, TextDelta)]
    assert len(pieces) > 1
    assert "".join(pieces) == "Hello there, and welcome to the mock."
    result = joined(told)
    assert result.usage == TokenUsage(prompt_tokens=11, completion_tokens=7, total_tokens=18)
    assert isinstance(told[-1], Stop)
    assert result.stop_reason is StopReason.END_TURN


async def test_an_answer_that_is_too_long_says_so(claude: AnthropicMessages) -> None:
    assert joined(await events(claude, request("long"))).stop_reason is StopReason.MAX_TOKENS


async def test_parallel_calls_and_their_results(
    claude: AnthropicMessages, server: MockServer
) -> None:
    first = joined(await events(claude, request("weather", tools=(WEATHER,))))
    assert first.stop_reason is StopReason.TOOL_USE
    assert first.text() == "Looking."
    assert [(call.id, call.arguments) for call in first.tool_calls] == [
        ("toolu_a", {"city": "Rome"}),
        ("toolu_b", {"city": "Oslo"}),
    ]
    answer = Message(role=Role.ASSISTANT, content=first.content, tool_calls=first.tool_calls)
    results = [Message.tool("toolu_a", "warm"), Message.tool("toolu_b", "cold")]
    second = joined(await events(claude, request("weather", answer, *results, tools=(WEATHER,))))
    assert second.text() == "Warm and cold."
    roles = [message["role"] for message in server.journal()[-1]["body"]["messages"]]
    assert roles == ["user", "assistant", "tool", "tool"]


async def test_reasoning_is_streamed_and_kept(claude: AnthropicMessages) -> None:
    result = joined(await events(claude, request("think")))
    thinking, said = result.content
    assert isinstance(thinking, Thinking)
    assert thinking.thinking == "Let me see"
    assert thinking.origin == "anthropic"
    assert thinking.signature
    assert said == Text(text="42.")


@pytest.mark.parametrize(
    ("asked", "kind", "message"),
    [
        ("too fast", RateLimited, "HTTP 429: Slow down"),
        ("broken", ProviderError, "HTTP 500: Internal"),
        ("busy", Overloaded, "HTTP 529: Overloaded"),
        ("overflow", ContextOverflow, "HTTP 400: prompt is too long: 9 tokens > 8 maximum"),
        ("filtered", ContentFiltered, "HTTP 400: Output blocked by content filtering policy"),
        ("no money", NoCredit, "HTTP 402: Your credit balance is too low"),
        ("no model", ModelMissing, "HTTP 404: model: claude-x"),
    ],
)  # fmt: skip
async def test_an_error_is_one_of_ours_and_asked_once(
    claude: AnthropicMessages,
    server: MockServer,
    asked: str,
    kind: type[InferenceExecutionError],
    message: str,
) -> None:
    """02/E6: each answer has its class, and the SDK does not ask again by itself."""
    server.forget()
    error = await failure(claude, request(asked))
    assert type(error) is kind
    assert error.message == message
    assert error.retry_after == (7 if kind is RateLimited else None)
    assert len(server.journal()) == 1


async def test_a_wrong_key_is_unauthorized(server: MockServer) -> None:
    async with aclosing(AnthropicMessages(api_key="wrong", base_url=server.url)) as executor:
        assert type(await failure(executor, request("hello"))) is Unauthorized


async def test_a_cut_stream_is_told_from_one_that_ended(claude: AnthropicMessages) -> None:
    error = await failure(claude, request("cut off"))
    assert type(error) is ProviderError
    assert "connection reset" in error.message


# -- as documented ------------------------------------------------------------------------------


def start(**usage: int) -> dict[str, Any]:
    return {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "content": [],
            "model": MODEL,
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 25, "output_tokens": 1, **usage},
        },
    }


def block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def said(index: int, text: str) -> list[dict[str, Any]]:
    return block(index, {"type": "text", "text": ""}, {"type": "text_delta", "text": text})


def end(reason: str, *, details: Any = None, **usage: Any) -> list[dict[str, Any]]:
    delta = {"stop_reason": reason, "stop_sequence": None, "stop_details": details}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 15, **usage}},
        {"type": "message_stop"},
    ]


def played(*parts: Any, **more: Any) -> Answer:
    flat = [event for part in parts for event in (part if isinstance(part, list) else [part])]
    return Answer(pieces=sse(*flat, names=True), **more)


async def play(answer: Answer, asked: InferenceRequest | None = None) -> list[LlmStreamEvent]:
    async with (
        WireServer([answer]) as wire,
        aclosing(AnthropicMessages(api_key=KEY, base_url=wire.url)) as executor,
    ):
        return await events(executor, asked or request("x"))


async def refused(answer: Answer, **options: Any) -> InferenceExecutionError:
    async with (
        WireServer([answer]) as wire,
        aclosing(AnthropicMessages(api_key=KEY, base_url=wire.url, **options)) as executor,
    ):
        return await failure(executor, request("x"))


async def test_signatures_and_redacted_reasoning_make_the_round_trip() -> None:
    signature = {"type": "signature_delta", "signature": "EqQBCgIYAhIM=="}
    first = played(
        start(),
        {"type": "ping"},
        block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "27 times "},
            {"type": "thinking_delta", "thinking": "453"},
            signature,
        ),
        block(1, {"type": "redacted_thinking", "data": "EmwKAhgB"}),
        block(2, {"type": "thinking", "thinking": "", "signature": ""}, signature),
        said(3, "I will look."),
        block(
            4,
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
            {"type": "input_json_delta", "partial_json": ""},
            {"type": "input_json_delta", "partial_json": '{"city": '},
            {"type": "input_json_delta", "partial_json": '"Rome"}'},
        ),
        end("tool_use"),
    )
    async with (
        WireServer([first, played(start(), said(0, "ok"), end("end_turn"))]) as wire,
        aclosing(AnthropicMessages(api_key=KEY, base_url=wire.url)) as executor,
    ):
        result = joined(await events(executor, request("x")))
        assert result.content == (
            Thinking(thinking="27 times 453", signature="EqQBCgIYAhIM==", origin="anthropic"),
            Thinking(thinking="", encrypted="EmwKAhgB", origin="anthropic"),
            Thinking(thinking="", signature="EqQBCgIYAhIM==", origin="anthropic"),
            Text(text="I will look."),
        )
        assert result.tool_calls == (
            ToolCall(id="toolu_1", name="look", arguments={"city": "Rome"}),
        )
        answer = Message(role=Role.ASSISTANT, content=result.content, tool_calls=result.tool_calls)
        await events(executor, request("x", answer, Message.tool("toolu_1", "sunny")))
    again = wire.requests[1]
    assert again.body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "27 times 453", "signature": "EqQBCgIYAhIM=="},
        {"type": "redacted_thinking", "data": "EmwKAhgB"},
        {"type": "thinking", "thinking": "", "signature": "EqQBCgIYAhIM=="},
        {"type": "text", "text": "I will look."},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"city": "Rome"}},
    ]
    assert again.body["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    assert again.headers["anthropic-beta"] == "thinking-binding-controls-2026-08-01"


async def test_all_that_was_read_counts_cached_or_not() -> None:
    told = await play(
        played(
            start(cache_creation_input_tokens=100, cache_read_input_tokens=1_000),
            said(0, "ok"),
            end(
                "end_turn",
                input_tokens=25,
                cache_creation_input_tokens=100,
                cache_read_input_tokens=1_000,
                output_tokens_details={"thinking_tokens": 9},
            ),
        )
    )
    assert joined(told).usage == TokenUsage(
        prompt_tokens=1_125,
        completion_tokens=15,
        total_tokens=1_140,
        cache_read_tokens=1_000,
        cache_creation_tokens=100,
        thinking_tokens=9,
    )
    assert isinstance(told[0], Usage)


async def test_a_gateway_that_counts_nothing_costs_nothing() -> None:
    silent = start()
    silent["message"]["usage"] = {}
    told = await play(played(silent, said(0, "ok"), end("end_turn")))
    usage = joined(told).usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (0, 15)


async def test_the_end_without_input_tokens_keeps_those_of_the_beginning() -> None:
    told = await play(played(start(), said(0, "ok"), end("end_turn")))
    usage = joined(told).usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.total_tokens) == (25, 40)


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", StopReason.END_TURN),
        ("pause_turn", StopReason.END_TURN),
        ("max_tokens", StopReason.MAX_TOKENS),
        ("model_context_window_exceeded", StopReason.MAX_TOKENS),
        ("stop_sequence", StopReason.STOP_SEQUENCE),
        ("something_new", None),
    ],
)
async def test_why_it_stopped(reason: str, stop: StopReason | None) -> None:
    told = await play(played(start(), said(0, "ok"), end(reason)))
    assert told[-1] == Stop(reason=stop)


async def test_two_blocks_of_text_stay_two() -> None:
    told = await play(played(start(), said(0, "one"), said(1, "two"), end("end_turn")))
    assert joined(told).content == (Text(text="one"), Text(text="two"))


async def test_unknown_events_are_ignored_and_unknown_blocks_kept() -> None:
    told = await play(
        played(
            start(),
            {"type": "weather_report", "sunny": True},
            block(0, {"type": "hologram", "data": "x"}, {"type": "hologram_delta", "data": "y"}),
            said(1, "ok"),
            end("end_turn"),
        )
    )
    hologram = Opaque(origin="anthropic", kind="hologram", data={"type": "hologram", "data": "xy"})
    assert joined(told).content == (hologram, Text(text="ok"))


async def test_arguments_that_come_at_once_are_taken() -> None:
    call = {"type": "tool_use", "id": "t", "name": "look", "input": {"city": "Rome"}}
    told = await play(played(start(), block(0, call), end("tool_use")))
    assert joined(told).tool_calls[0].arguments == {"city": "Rome"}


async def test_a_tool_is_called_by_the_name_it_has_here() -> None:
    async with (
        WireServer([Answer(status=500)]) as wire,
        aclosing(AnthropicMessages(api_key=KEY, base_url=wire.url)) as executor,
    ):
        await failure(executor, request("x", tools=(WEATHER,)))
        (tool,) = wire.requests[0].body["tools"]
    call = {"type": "tool_use", "id": "t", "name": tool["name"], "input": {}}
    told = await play(
        played(start(), block(0, call), end("tool_use")), request("x", tools=(WEATHER,))
    )
    assert joined(told).tool_calls[0].name == "srv.weather"


async def test_a_refusal_is_content_filtered_whatever_was_said() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "It could do harm."}
    error = await refused(played(start(), said(0, "Well,"), end("refusal", details=details)))
    assert type(error) is ContentFiltered
    assert error.message == "It could do harm. (cyber)"


async def test_no_room_for_an_answer_is_an_overflow() -> None:
    error = await refused(played(start(), end("model_context_window_exceeded")))
    assert type(error) is ContextOverflow


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("overloaded_error", Overloaded),
        ("rate_limit_error", RateLimited),
        ("api_error", ProviderError),
        ("timeout_error", InferenceTimeout),
        ("invalid_request_error", InvalidRequest),
        ("authentication_error", Unauthorized),
        ("billing_error", NoCredit),
        ("something_new", ProviderError),
    ],
)
async def test_an_error_in_mid_stream_keeps_its_class(
    kind: str, expected: type[InferenceExecutionError]
) -> None:
    event = {"type": "error", "error": {"type": kind, "message": "Sorry"}}
    error = await refused(played(start(), said(0, "Well,"), event))
    assert type(error) is expected
    assert error.message == f"{kind} in mid-stream: Sorry"


@pytest.mark.parametrize("broken", [{"cut": True}, {"unframed": True}], ids=["cut", "ended"])
async def test_a_stream_without_its_end_event_was_cut(broken: dict[str, bool]) -> None:
    error = await refused(played(start(), said(0, "Well,"), **broken))
    assert type(error) is ProviderError
    assert "connection reset" in error.message


async def test_garbage_is_the_providers_error() -> None:
    piece = b"event: content_block_delta\ndata: {oops\n\n"
    error = await refused(Answer(pieces=[*sse(start(), names=True), piece]))
    assert type(error) is ProviderError


async def test_retry_after_may_be_a_date() -> None:
    answer = Answer(
        status=429,
        headers={"retry-after": "Thu, 01 Jan 1970 00:01:10 GMT"},
        pieces=[b'{"type":"error","error":{"type":"rate_limit_error","message":"Wait"}}'],
    )
    error = await refused(answer, clock=FakeClock(60_000))
    assert type(error) is RateLimited
    assert error.retry_after == 10


async def test_the_request_as_it_is_sent() -> None:
    asked = request(
        "x",
        model="claude-haiku-4-5",
        overrides=InferenceOverride(temperature=0.5, max_tokens=100),
        output=OutputFormat(
            name="n", schema={"type": "object", "properties": {"n": {"type": "integer"}}}
        ),
    )
    async with (
        WireServer([played(start(), said(0, "{}"), end("end_turn"))]) as wire,
        aclosing(
            AnthropicMessages(
                api_key=RedactedString(KEY), base_url=wire.url, default_headers={"x-team": "blue"}
            )
        ) as executor,
    ):
        await events(executor, asked)
    got = wire.requests[0]
    assert got.path == "/v1/messages"
    assert got.headers["authorization"] == f"Bearer {KEY}"
    assert got.headers["anthropic-version"] == "2023-06-01"
    assert got.headers["x-team"] == "blue"
    assert got.body["temperature"] == 0.5
    assert got.body["max_tokens"] == 100
    assert got.body["output_config"]["format"]["schema"]["additionalProperties"] is False


# -- secrets and options ------------------------------------------------------------------------


async def test_a_key_the_provider_repeats_is_not_passed_on() -> None:
    answer = Answer(
        status=401,
        pieces=[
            b'{"type":"error","error":{"type":"authentication_error","message":"bad key '
            + KEY.encode()
            + b'"}}'
        ],
    )
    error = await refused(answer)
    assert type(error) is Unauthorized
    assert error.message == "HTTP 401: bad key ***"
    assert error.__cause__ is None
    assert KEY not in repr(AnthropicMessages(api_key=KEY))


async def test_ones_own_client_is_used_and_left_open() -> None:
    answer = played(start(), said(0, "ok"), end("end_turn"))
    async with (
        WireServer([Answer(status=500), answer]) as wire,
        anthropic.AsyncAnthropic(api_key=KEY, base_url=wire.url) as client,
    ):
        executor = AnthropicMessages(client=client)
        assert type(await failure(executor, request("x"))) is ProviderError
        await executor.aclose()
        assert not client.is_closed()
        assert joined(await events(executor, request("x"))).text() == "ok"


def test_two_event_loops_have_their_own_connections(server: MockServer) -> None:
    executor = AnthropicMessages(api_key=KEY, base_url=server.url)

    async def ask() -> str:
        try:
            return joined(await events(executor, request("hello"))).text()
        finally:
            await executor.aclose()

    assert asyncio.run(ask()) == asyncio.run(ask()) != ""


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"api_key": "k", "base_url": "localhost:1"}, "neither http:// nor https://"),
        ({"api_key": "k", "timeout": 0}, "timeout is 0"),
        ({"api_key": "k", "max_tokens": 0}, "max_tokens is 0"),
        ({"client": "nonsense"}, "not str"),
        ({"client": anthropic.Anthropic(api_key="k")}, "not Anthropic"),
    ],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        AnthropicMessages(**options)


def test_a_missing_key_names_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    with pytest.raises(ConfigError, match="export ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"):
        open_anthropic()


def test_a_missing_sdk_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(ConfigError, match=r"pip install 'awaken\[anthropic\]'"):
        AnthropicMessages(api_key="k")


async def test_the_environment_is_enough(
    monkeypatch: pytest.MonkeyPatch, server: MockServer
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    async with aclosing(open_anthropic()) as executor:
        assert executor.name == "anthropic"
        assert joined(await events(executor, request("hello"))).text()
        assert executor.abilities(MODEL).native_output
