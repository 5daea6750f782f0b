"""Whole runs in every dialect, through its SDK: what a provider does, and what a run makes of it.

The answers are aimock's; what aimock cannot say is given as bytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from cut_dialects import DIALECTS, KEY, Executor
from cut_stage import Recordings
from mock_server import Answer, MockServer, WireServer, sse

from awaken import Agent, RunResult, Runtime, tool
from awaken.core.event import ReasoningDelta, TextDelta
from awaken.core.inference import ContextWindowPolicy, TokenUsage
from awaken.core.message import Role
from awaken.core.tool_context import Tool
from awaken.errors import InferenceFailed
from awaken.models.anthropic import AnthropicMessages
from awaken.models.google import GoogleGemini, contents
from awaken.models.openai import OpenAIChat, OpenAIResponses
from awaken.models.wire import wire_name
from awaken.testing import FakeClock
from awaken.toolsets import Toolset

pytestmark = pytest.mark.anyio

TEXT = "Hello, and welcome to the other end of a rather long wire."
USAGE = {"input_tokens": 12, "output_tokens": 11, "prompt_tokens": 12, "completion_tokens": 11}
LOOKS = [{"id": f"call_{city}", "name": "look", "arguments": {"city": city}} for city in "ab"]
TOO_LONG = {
    "chat": "This model's maximum context length is 9 tokens.",
    "responses": "Your input exceeds the context window of this model.",
    "anthropic": "prompt is too long: 9 tokens > 8 maximum",
    "gemini": "The input token count (9) exceeds the maximum number of tokens allowed",
}
FORBIDDEN = {
    "chat": "The prompt was rejected by the content filter",
    "responses": "The prompt was rejected by the content filter",
    "anthropic": "Output blocked by content filtering policy",
}


WIRE_NAMES: dict[str, Callable[[str], str]] = {
    "chat": wire_name,
    "responses": wire_name,
    "anthropic": wire_name,
    "gemini": contents.wire_name,
}
LONG = "the.customers:of-our-shop." * 4


def failing(about: str, status: int, message: str, **more: Any) -> dict[str, Any]:
    """The first answer to a question is an error."""
    error = {"message": message, "type": "invalid_request_error"}
    match: dict[str, Any] = {"userMessage": about, "sequenceIndex": 0}
    return {"match": match, "response": {"error": error, "status": status, **more}}


def fixtures() -> Iterator[dict[str, Any]]:
    for name, message in TOO_LONG.items():
        yield failing(f"slow, {name}", 429, "Slow down", retryAfter=7)
        yield failing(f"broken, {name}", 500, "The server broke")
        yield failing(f"too long for {name}", 400, message)
        yield failing(f"much too long, {name}", 400, message)
    for name, message in FORBIDDEN.items():
        code = {"code": "content_filter"} if name in ("chat", "responses") else {}
        refusal = failing(f"forbidden for {name}", 400, message)
        refusal["response"]["error"] |= code
        yield refusal
    filtered = {"content": "", "finishReason": "content_filter"}
    yield {"match": {"userMessage": "forbidden for gemini"}, "response": filtered}
    for name, wire in WIRE_NAMES.items():
        call = {"id": "call_1", "name": wire(LONG + "look"), "arguments": {"city": "a"}}
        match = {"userMessage": f"named for {name}", "hasToolResult": False}
        stop = {"finishReason": "stop"} if name == "gemini" else {}
        yield {"match": match, "response": {"content": "I look.", "toolCalls": [call], **stop}}
    for model, stop in (("gemini-3-pro", {"finishReason": "stop"}), (None, {})):
        match = {"userMessage": "look", "hasToolResult": False}
        yield {
            "match": match | ({"model": model} if model else {}),
            "response": {"content": "I look.", "toolCalls": LOOKS, **stop},
        }
    answer = {"content": TEXT, "reasoning": "They are polite.", "usage": USAGE}
    yield {"match": {"userMessage": "."}, "response": answer}


@pytest.fixture(scope="module")
def mock() -> Iterator[MockServer]:
    with MockServer(fixtures()) as server:
        yield server


@pytest.fixture(params=DIALECTS)
def name(request: pytest.FixtureRequest) -> str:
    dialect: str = request.param
    return dialect


# What is asked by chat is known by aimock to reason only if it does so at OpenAI's.
MODELS = {name: dialect.model for name, dialect in DIALECTS.items()} | {"chat": "openai-chat:o3"}
OPEN: dict[str, Callable[..., Executor]] = {
    "chat": lambda url, **more: OpenAIChat(base_url=f"{url}/v1", api_key=KEY, **more),
    "responses": lambda url, **more: OpenAIResponses(base_url=f"{url}/v1", api_key=KEY, **more),
    "anthropic": lambda url, **more: AnthropicMessages(base_url=url, api_key=KEY, **more),
    "gemini": lambda url, **more: GoogleGemini(
        base_url=url, api_key=KEY, api_version="v1beta", **more
    ),
}


class Talk:
    """One thread with an agent whose model speaks one dialect."""

    def __init__(self, runtime: Runtime, clock: FakeClock) -> None:
        self.runtime, self.clock = runtime, clock
        self.events: list[object] = []

    async def say(self, text: str) -> RunResult:
        async with self.runtime.stream("a", text, thread="t") as events:
            async for envelope in events:
                self.events.append(envelope.event)
        assert events.result is not None
        return events.result


@asynccontextmanager
async def talking(
    name: str,
    url: str,
    *,
    tools: Sequence[Tool] = (),
    policy: ContextWindowPolicy | None = None,
    retry: dict[str, int] | None = None,
    **options: Any,
) -> AsyncIterator[Talk]:
    clock, known = FakeClock(60_000, auto=True), MODELS[name]
    model = OPEN[name](url, clock=clock, **options)
    sections = {"retry": retry or {}}
    agent = Agent("a", model=known, tools=tools, context_policy=policy, sections=sections)
    async with Runtime([agent], models={known: model}, clock=clock) as runtime:
        yield Talk(runtime, clock)
    await model.aclose()


# -- answers ------------------------------------------------------------------------------------


async def test_a_name_that_a_provider_refuses_is_another_on_the_wire_alone(
    mock: MockServer, name: str
) -> None:
    """08/EX-6"""
    looked: list[str] = []

    @tool(effect="read")
    async def look(city: str) -> str:
        """Look."""
        looked.append(city)
        return "seen"

    tools = Toolset("shop", [look]).prefixed(LONG).tools
    assert WIRE_NAMES[name](LONG + "look") != LONG + "look"
    async with talking(name, mock.url, tools=tools) as talk:
        result = await talk.say(f"named for {name}.")
        messages = await talk.runtime.messages("t")
    called = [call.name for message in messages for call in message.tool_calls or ()]
    assert (result.unwrap(), looked, called) == (TEXT, ["a"], [LONG + "look"])


async def test_text_and_reasoning_come_in_pieces_and_are_counted(
    mock: MockServer, name: str
) -> None:
    async with talking(name, mock.url) as talk:
        result = await talk.say("Hello.")
    texts = [e.delta for e in talk.events if isinstance(e, TextDelta)]
    assert len(texts) > 1
    assert "".join(texts) == result.response == TEXT
    thoughts = [e.delta for e in talk.events if isinstance(e, ReasoningDelta)]
    assert "".join(thoughts) == "They are polite."
    assert (result.usage.prompt_tokens, result.usage.completion_tokens) == (12, 11)


async def test_calls_side_by_side_are_carried_out_and_told(mock: MockServer, name: str) -> None:
    mock.forget()

    @tool(effect="read")
    async def look(city: str) -> str:
        """Look at a city."""
        return f"{city} is sunny"

    async with talking(name, mock.url, tools=[look]) as talk:
        result = await talk.say("look around.")
        log = await talk.runtime.messages("t")
    assert result.response == TEXT
    assert [call.id for message in log for call in message.tool_calls or ()] == ["call_a", "call_b"]
    results = [(m.tool_call_id, m.text()) for m in log if m.role is Role.TOOL]
    assert results == [("call_a", "a is sunny"), ("call_b", "b is sunny")]
    told = mock.journal()[-1]["body"]["messages"]
    assert [m["tool_call_id"] for m in told if m["role"] == "tool"] == ["call_a", "call_b"]


# -- errors -------------------------------------------------------------------------------------


async def test_a_provider_that_asks_for_time_gets_it(mock: MockServer, name: str) -> None:
    """02/E1, 02/6.2: Retry-After of seven seconds beats a backoff of half a second."""
    mock.forget()
    async with talking(name, mock.url) as talk:
        assert (await talk.say(f"slow, {name}.")).response == TEXT
    assert talk.clock.sleeps == [7]
    assert len(mock.journal()) == 2


@pytest.fixture(scope="module")
def recordings(mock: MockServer) -> Recordings:
    return Recordings(mock)


async def test_a_provider_that_names_a_date_is_asked_again_at_it(
    recordings: Recordings, name: str
) -> None:
    """02/6.2, ours: Retry-After as a date, by the clock that was given."""
    busy = Answer(
        status=429,
        headers={"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"},
        pieces=[b'{"error": {"message": "Slow down", "code": 429, "status": "X"}}'],
    )
    whole = Answer(pieces=await recordings.answer(DIALECTS[name], "Hello."))
    async with WireServer([busy, whole]) as wire, talking(name, wire.url) as talk:
        assert (await talk.say("Hello.")).response == TEXT
    assert talk.clock.sleeps == [40]
    assert len(wire.requests) == 2


async def test_a_server_that_broke_is_asked_again_after_a_moment(
    mock: MockServer, name: str
) -> None:
    """02/E1: 500 is asked again by us, and by nobody else."""
    mock.forget()
    async with talking(name, mock.url) as talk:
        assert (await talk.say(f"broken, {name}.")).response == TEXT
    assert talk.clock.sleeps == [0.5]
    assert len(mock.journal()) == 2


async def test_a_conversation_that_is_too_long_is_shortened_once(
    mock: MockServer, name: str
) -> None:
    """02/6.2, 02/7.1: the provider's own words for an overflow are understood."""
    mock.forget()
    policy = ContextWindowPolicy.of(100_000, min_recent_messages=1)
    async with talking(name, mock.url, policy=policy) as talk:
        for text in ("one " * 200, "two " * 200):
            await talk.say(f"{text}.")
        assert (await talk.say(f"too long for {name}.")).response == TEXT
    lengths = [len(entry["body"]["messages"]) for entry in mock.journal()]
    assert lengths[:3] == [1, 3, 5]
    assert lengths[3] < 5
    assert len(lengths) == 4


async def test_a_conversation_that_cannot_be_shortened_is_an_overflow(
    mock: MockServer, name: str
) -> None:
    """02/E1, 02/6.2: permanent, so it is asked once."""
    mock.forget()
    async with talking(name, mock.url) as talk:
        with pytest.raises(InferenceFailed, match="context overflow"):
            await talk.say(f"much too long, {name}.")
    assert (len(mock.journal()), talk.clock.sleeps) == (1, [])


async def test_what_is_filtered_is_not_asked_for_again(mock: MockServer, name: str) -> None:
    """02/E1, 02/6.2: permanent, so it is asked once."""
    mock.forget()
    async with talking(name, mock.url) as talk:
        with pytest.raises(InferenceFailed, match="content filtered"):
            await talk.say(f"forbidden for {name}.")
    assert (len(mock.journal()), talk.clock.sleeps) == (1, [])


# -- given bytes --------------------------------------------------------------------------------


def names_types(name: str) -> bool:
    return name in ("responses", "anthropic")


START = {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": []}}
BEGUN: dict[str, list[Any]] = {
    "chat": [{"choices": [{"index": 0, "delta": {"content": "Well"}}]}],
    "responses": [{"type": "response.output_text.delta", "output_index": 0, "delta": "Well"}],
    "anthropic": [
        {**START, "message": {**START["message"], "usage": {"input_tokens": 1}}},  # type: ignore[dict-item]
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "Well"},
        },
    ],
    "gemini": [{"candidates": [{"index": 0, "content": {"parts": [{"text": "Well"}]}}]}],
}


def filtered(name: str) -> list[Any]:
    """The whole of an answer that a filter has stopped before its first word."""
    details = {"incomplete_details": {"reason": "content_filter"}}
    stop = {"stop_reason": "refusal", "stop_sequence": None}
    answers: dict[str, list[Any]] = {
        "chat": [{"choices": [{"index": 0, "delta": {}, "finish_reason": "content_filter"}]}],
        "responses": [{"type": "response.incomplete", "response": details}],
        "anthropic": [
            BEGUN["anthropic"][0],
            {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 0}},
            {"type": "message_stop"},
        ],
        "gemini": [{"candidates": [{"index": 0, "finishReason": "SAFETY"}]}],
    }
    return answers[name]


async def test_an_answer_that_is_filtered_while_it_comes_is_told_as_such(name: str) -> None:
    """02/6.2: with the status 200, as each of the four says it."""
    answer = Answer(pieces=sse(*filtered(name), names=names_types(name)))
    async with WireServer([answer]) as wire, talking(name, wire.url) as talk:
        with pytest.raises(InferenceFailed, match="content filtered"):
            await talk.say("go")
    assert (len(wire.requests), talk.clock.sleeps) == (1, [])


def refusing(name: str, status: int, kind: str) -> Any:
    """An error in the middle of an answer."""
    error: dict[str, Any] = {"message": "no such thing", "type": kind, "code": status}
    return {"type": "error", "error": error} if name == "anthropic" else {"error": error}


@pytest.mark.parametrize(
    ("status", "kind", "told"),
    [
        (400, "invalid_request_error", "invalid request"),
        (401, "authentication_error", "unauthorized"),
    ],
)
async def test_a_refusal_in_the_middle_of_an_answer_is_not_mended(
    name: str, status: int, kind: str, told: str
) -> None:
    """02/6.2, 6.4: mid-stream 4xx keep their class, and permanent errors are not recovered."""
    begun = sse(*BEGUN[name], names=names_types(name))
    refused = sse(refusing(name, status, kind), names=name == "anthropic")
    async with (
        WireServer([Answer(pieces=[*begun, *refused])]) as wire,
        talking(name, wire.url) as talk,
    ):
        with pytest.raises(InferenceFailed, match=told):
            await talk.say("go")
        log = await talk.runtime.messages("t")
    assert (len(wire.requests), talk.clock.sleeps) == (1, [])
    assert [message.text() for message in log] == ["go", "Well"]


@pytest.mark.parametrize("begun", [False, True], ids=["opening", "between events"])
async def test_silence_is_a_timeout_before_and_within_an_answer(name: str, begun: bool) -> None:
    """02/6.2: one timeout for opening a stream and between its events; it is retryable."""
    pieces = sse(*BEGUN[name], names=names_types(name)) if begun else ()
    retry = {"max_retries": 0, "max_stream_retries": 0}
    async with (
        WireServer([Answer(pieces=pieces, held=True)]) as wire,
        talking(name, wire.url, timeout=0.3 if begun else 0.05, retry=retry) as talk,
    ):
        told = r"stream interrupted \(connection reset\)" if begun else "timeout"
        with pytest.raises(InferenceFailed, match=told):
            await talk.say("go")


def half_a_call(name: str) -> list[Any]:
    """An answer that reached its limit in the middle of a call."""
    half = '{"city": "Par'
    function = {"type": "function_call", "id": "fc", "call_id": "c", "name": "look"}
    written = {"index": 0, "id": "c", "function": {"name": "look", "arguments": half}}
    stop = {"stop_reason": "max_tokens", "stop_sequence": None}
    answers: dict[str, list[Any]] = {
        "chat": [
            {"choices": [{"index": 0, "delta": {"tool_calls": [written]}}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]},
        ],
        "responses": [
            {
                "type": "response.output_item.added",
                "output_index": 0,
                "item": {**function, "arguments": ""},
            },
            {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": half},
            {
                "type": "response.incomplete",
                "response": {"incomplete_details": {"reason": "max_output_tokens"}},
            },
        ],
        "anthropic": [
            BEGUN["anthropic"][0],
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "tool_use", "id": "c", "name": "look", "input": {}},
            },
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": half},
            },
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 9}},
            {"type": "message_stop"},
        ],
    }
    return answers[name]


@pytest.mark.parametrize("name", ["chat", "responses", "anthropic"])  # Gemini's calls come whole
async def test_a_call_that_hits_the_limit_is_dropped_and_asked_for_again(
    recordings: Recordings, name: str
) -> None:
    """02/E8: malformed arguments at the token limit; the call is not run and not repeated."""
    ran: list[str] = []

    @tool
    async def look(city: str) -> str:
        """Look at a city."""
        ran.append(city)
        return "seen"

    answers = [
        Answer(pieces=sse(*half_a_call(name), names=names_types(name))),
        Answer(pieces=await recordings.answer(DIALECTS[name], "Hello.")),
    ]
    async with WireServer(answers) as wire, talking(name, wire.url, tools=[look]) as talk:
        assert (await talk.say("go")).response == TEXT
        log = await talk.runtime.messages("t")
    assert ran == []
    assert [call for message in log for call in message.tool_calls or ()] == []
    assert [who for who, _ in DIALECTS[name].lines(wire.requests[1].body)] == ["user"] * 2


@pytest.mark.parametrize("name", ["chat", "responses", "anthropic"])
async def test_a_provider_has_two_minutes(name: str) -> None:
    """02/6.2: 120 s, as those SDKs say that tell their servers."""
    async with WireServer() as wire, talking(name, wire.url) as talk:
        with pytest.raises(InferenceFailed, match="no answer left"):
            await talk.say("go")
    assert float(wire.requests[0].headers["x-stainless-read-timeout"]) == 120


@pytest.mark.parametrize(
    ("name", "counted"),
    [
        (
            "chat",
            {
                "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
                "usage": {
                    "prompt_tokens": 100,
                    "completion_tokens": 30,
                    "total_tokens": 130,
                    "prompt_tokens_details": {"cached_tokens": 64},
                    "completion_tokens_details": {"reasoning_tokens": 20},
                },
            },
        ),
        (
            "responses",
            {
                "type": "response.completed",
                "response": {
                    "status": "completed",
                    "usage": {
                        "input_tokens": 100,
                        "input_tokens_details": {"cached_tokens": 64},
                        "output_tokens": 30,
                        "output_tokens_details": {"reasoning_tokens": 20},
                        "total_tokens": 130,
                    },
                },
            },
        ),
        (
            "gemini",
            {
                "candidates": [{"index": 0, "finishReason": "STOP"}],
                "usageMetadata": {
                    "promptTokenCount": 100,
                    "cachedContentTokenCount": 64,
                    "candidatesTokenCount": 10,
                    "thoughtsTokenCount": 20,
                    "totalTokenCount": 130,
                },
            },
        ),
    ],
)
async def test_cached_and_thought_tokens_are_counted(name: str, counted: Any) -> None:
    """01/1.8: usage with its parts, whatever a provider calls them."""
    answer = Answer(pieces=sse(*BEGUN[name], counted, names=names_types(name)))
    async with WireServer([answer]) as wire, talking(name, wire.url) as talk:
        result = await talk.say("go")
    assert result.response == "Well"
    assert result.usage == TokenUsage(
        prompt_tokens=100,
        completion_tokens=30,
        total_tokens=130,
        cache_read_tokens=64,
        thinking_tokens=20,
    )
