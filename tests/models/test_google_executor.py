"""Gemini through the real SDK, over real sockets."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from mock_server import Answer, MockServer, WireServer, sse

from awaken.clock import SYSTEM_CLOCK
from awaken.core.answer_builder import StreamAccumulator
from awaken.core.event import ReasoningDelta, TextDelta
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
    Overloaded,
    ProviderError,
    RateLimited,
    Unauthorized,
)
from awaken.core.message import Message, Text, Thinking, ToolCall
from awaken.core.tool import ToolDescriptor
from awaken.errors import ConfigError
from awaken.ids import SequentialIds
from awaken.models.google import GoogleGemini, open_google, open_google_vertex

pytestmark = pytest.mark.anyio

KEY = "a-very-secret-key"
SIGNATURE = b64encode(b"\x00\xffsigned").decode()
WEATHER = ToolDescriptor(id="weather", name="weather", description="The weather in a city")
FIXTURES: list[dict[str, Any]] = [
    {"match": {"userMessage": "think"}, "response": {"content": "42.", "reasoning": "6 times 7"}},
    {
        "match": {"userMessage": "weather", "hasToolResult": False},
        "response": {
            "toolCalls": [
                {"name": "weather", "arguments": {"city": "Rome"}, "id": "g-1"},
                {"name": "weather", "arguments": {"city": "Oslo"}, "id": "g-2"},
            ],
            "finishReason": "stop",
        },
    },
    {
        "match": {"userMessage": "weather", "hasToolResult": True},
        "response": {"content": "Rome is sunny, Oslo is not."},
    },
    {
        "match": {"userMessage": "usage"},
        "response": {"content": "ok", "usage": {"prompt_tokens": 11, "completion_tokens": 5}},
    },
    {
        "match": {"userMessage": "quota"},
        "response": {
            "error": {"message": "Quota exceeded", "type": "RESOURCE_EXHAUSTED"},
            "status": 429,
            "retryAfter": 7,
        },
    },
    {
        "match": {"userMessage": "broken"},
        "response": {"error": {"message": "boom", "type": "INTERNAL"}, "status": 500},
    },
    {
        "match": {"userMessage": "too much"},
        "response": {
            "error": {
                "message": "The input token count (9) exceeds the maximum number of tokens allowed",
                "type": "INVALID_ARGUMENT",
            },
            "status": 400,
        },
    },
    {
        "match": {"userMessage": "forbidden"},
        "response": {"content": "", "finishReason": "content_filter"},
    },
    {
        "match": {"userMessage": "cut"},
        "response": {"content": "this is a sentence that is never brought to its end"},
        "truncateAfterChunks": 2,
    },
    {"match": {"userMessage": "hello"}, "response": {"content": "Hello, how can I help you?"}},
]


@pytest.fixture(scope="module")
def mock_server() -> Iterator[MockServer]:
    with MockServer(FIXTURES) as server:
        yield server


@pytest.fixture
async def gemini(mock_server: MockServer) -> AsyncIterator[GoogleGemini]:
    executor = open_google(api_key=KEY, base_url=mock_server.url, api_version="v1beta")
    yield executor
    await executor.aclose()


def request(*messages: Message | str, **more: Any) -> InferenceRequest:
    asked = [m if isinstance(m, Message) else Message.user(m) for m in messages]
    return InferenceRequest(
        **{"upstream_model": "gemini-2.5-flash", "messages": asked, "tools": (WEATHER,), **more}
    )


async def events(executor: GoogleGemini, asked: InferenceRequest) -> list[LlmStreamEvent]:
    return [event async for event in executor.execute_stream(asked)]


async def answer(executor: GoogleGemini, asked: InferenceRequest) -> StreamResult:
    collected = StreamAccumulator()
    async for event in executor.execute_stream(asked):
        collected.push(event)
    return collected.finish()


async def failure(executor: GoogleGemini, asked: InferenceRequest) -> InferenceExecutionError:
    with pytest.raises(InferenceExecutionError) as failed:
        await events(executor, asked)
    return failed.value


def chunk(*parts: dict[str, Any], **candidate: Any) -> dict[str, Any]:
    """A chunk as the API's reference shows it."""
    content = {"content": {"role": "model", "parts": list(parts)}} if parts else {}
    return {"candidates": [{**content, "index": 0, **candidate}], "responseId": "resp-1"}


def wired(server: WireServer, **options: Any) -> GoogleGemini:
    return GoogleGemini(
        **{"api_key": KEY, "base_url": server.url, "ids": SequentialIds(), **options}
    )


async def played(*chunks: object, **more: Any) -> StreamResult:
    """What comes of an answer of those chunks."""
    async with WireServer([Answer(pieces=sse(*chunks), **more)]) as server:
        executor = wired(server)
        try:
            return await answer(executor, request("hi"))
        finally:
            await executor.aclose()


# -- answers ------------------------------------------------------------------------------------


async def test_text_comes_in_pieces(gemini: GoogleGemini) -> None:
    deltas = [e.delta for e in await events(gemini, request("hello")) if isinstance(e, TextDelta)]
    assert len(deltas) > 1
    assert "".join(deltas) == "Hello, how can I help you?"


async def test_calls_side_by_side_then_their_results(
    gemini: GoogleGemini, mock_server: MockServer
) -> None:
    asked = Message.user("weather?")
    first = await answer(gemini, request(asked))
    assert first.stop_reason is StopReason.TOOL_USE
    assert [(call.id, call.name, call.arguments) for call in first.tool_calls] == [
        ("g-1", "weather", {"city": "Rome"}),
        ("g-2", "weather", {"city": "Oslo"}),
    ]
    second = await answer(
        gemini,
        request(
            asked,
            Message.assistant_with_tool_calls("", first.tool_calls),
            Message.tool("g-1", "sunny"),
            Message.tool("g-2", "rain"),
        ),
    )
    assert second.text() == "Rome is sunny, Oslo is not."
    assert second.stop_reason is StopReason.END_TURN
    sent = mock_server.journal()[-1]["body"]["messages"]
    assert [(m["role"], m.get("tool_call_id")) for m in sent] == [
        ("user", None),
        ("assistant", None),
        ("tool", "g-1"),
        ("tool", "g-2"),
    ]


async def test_thoughts_are_told_apart_from_the_answer(gemini: GoogleGemini) -> None:
    seen = await events(gemini, request("think"))
    assert "".join(e.delta for e in seen if isinstance(e, ReasoningDelta)) == "6 times 7"
    assert (await answer(gemini, request("think"))).content == (
        Thinking(thinking="6 times 7", origin="google"),
        Text(text="42."),
    )


async def test_usage_of_an_answer(gemini: GoogleGemini) -> None:
    usage = (await answer(gemini, request("usage"))).usage
    assert usage == TokenUsage(prompt_tokens=11, completion_tokens=5, total_tokens=16)


async def test_usage_counts_thoughts_and_cached_tokens_in() -> None:
    usage = {
        "promptTokenCount": 100,
        "toolUsePromptTokenCount": 5,
        "cachedContentTokenCount": 60,
        "candidatesTokenCount": 7,
        "thoughtsTokenCount": 30,
        "totalTokenCount": 142,
    }
    result = await played({**chunk({"text": "ok"}, finishReason="STOP"), "usageMetadata": usage})
    assert result.usage == TokenUsage(
        prompt_tokens=105,
        completion_tokens=37,
        total_tokens=142,
        cache_read_tokens=60,
        thinking_tokens=30,
    )


async def test_signatures_come_and_go_back_on_the_same_parts() -> None:
    """Gemini 3 refuses a step whose call has lost its signature."""
    pieces = sse(
        chunk({"text": "let me ", "thought": True}),
        chunk({"text": "see", "thought": True}),
        chunk({"text": "", "thought": True, "thoughtSignature": SIGNATURE}),
        chunk({"text": "I "}),
        chunk({"text": "look."}),
        chunk({"text": "", "thoughtSignature": SIGNATURE}),
        chunk(
            {"functionCall": {"name": "weather", "args": {}}, "thoughtSignature": SIGNATURE},
            {"functionCall": {"name": "weather", "args": {"city": "Oslo"}}},
            finishReason="STOP",
        ),
    )
    async with WireServer([Answer(pieces=pieces)] * 2) as server:
        executor = wired(server)
        first = await answer(executor, request("hi", upstream_model="gemini-3-pro"))
        again = Message.assistant("").with_id("a")
        said = type(again)(
            id="a", role=again.role, content=first.content, tool_calls=first.tool_calls
        )
        results = [Message.tool(call.id, "sunny") for call in first.tool_calls]
        await events(executor, request("hi", said, *results, upstream_model="gemini-3-pro"))
        await executor.aclose()
    assert first.content == (
        Thinking(thinking="let me see", signature=SIGNATURE, origin="google"),
        Text(text="I look."),
        Thinking(thinking="", signature=SIGNATURE, origin="google"),
    )
    assert first.tool_calls == (
        ToolCall(id="resp-1-0", name="weather", arguments={}, signature=SIGNATURE),
        ToolCall(id="resp-1-1", name="weather", arguments={"city": "Oslo"}),
    )
    model = server.requests[1].body["contents"][1]
    assert model["parts"] == [
        {"text": "let me see", "thought": True, "thoughtSignature": SIGNATURE},
        {"text": "I look.", "thoughtSignature": SIGNATURE},
        {
            "functionCall": {"id": "resp-1-0", "name": "weather", "args": {}},
            "thoughtSignature": SIGNATURE,
        },
        {"functionCall": {"id": "resp-1-1", "name": "weather", "args": {"city": "Oslo"}}},
    ]


async def test_a_tool_with_a_name_gemini_does_not_take_is_still_called_by_it() -> None:
    own = "files/read it"
    tool = ToolDescriptor(id=own, name="read", description="")

    async with WireServer([]) as server:
        executor = wired(server)
        await failure(executor, request("hi", tools=(tool,)))
        (declared,) = server.requests[0].body["tools"][0]["functionDeclarations"]
        await executor.aclose()
    call = chunk({"functionCall": {"name": declared["name"]}}, finishReason="STOP")
    async with WireServer([Answer(pieces=sse(call))]) as server:
        executor = wired(server)
        result = await answer(executor, request("hi", tools=(tool,)))
        await executor.aclose()
    assert "/" not in declared["name"]
    assert [call.name for call in result.tool_calls] == [own]


async def test_everything_asked_for_is_on_the_wire() -> None:
    pieces = sse(chunk({"text": "{}"}, finishReason="STOP"))
    async with WireServer([Answer(pieces=pieces)]) as server:
        executor = wired(
            server,
            headers={"x-team": "blue"},
            config={
                "safety_settings": [
                    {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}
                ]
            },
        )
        schema = {"type": "object", "properties": {"a": {"type": "string"}}}
        await events(
            executor,
            request(
                "hi",
                upstream_model="gemini-3-flash",
                system=(Text(text="Be brief."),),
                output=OutputFormat(name="answer", schema=schema),
                overrides=InferenceOverride(
                    temperature=0.5, top_p=0.9, max_tokens=99, reasoning_effort="low"
                ),
            ),
        )
        await executor.aclose()
    (sent,) = server.requests
    assert sent.path.endswith("/models/gemini-3-flash:streamGenerateContent?alt=sse")
    assert sent.headers["x-goog-api-key"] == KEY
    assert sent.headers["x-team"] == "blue"
    assert "x-server-timeout" not in sent.headers
    assert sent.body["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    assert sent.body["tools"][0]["functionDeclarations"][0]["name"] == "weather"
    assert sent.body["safetySettings"][0]["threshold"] == "BLOCK_NONE"
    generation = sent.body["generationConfig"]
    assert generation["temperature"] == 0.5
    assert generation["topP"] == 0.9
    assert generation["maxOutputTokens"] == 99
    assert generation["responseMimeType"] == "application/json"
    assert generation["responseJsonSchema"] == schema
    assert generation["thinkingConfig"] == {"thinking_level": "LOW", "include_thoughts": True}


# -- ends ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("STOP", StopReason.END_TURN),
        ("MAX_TOKENS", StopReason.MAX_TOKENS),
        ("CONTINUATION", StopReason.MAX_TOKENS),
    ],
)
async def test_an_answer_that_said_something_ends(finish: str, reason: StopReason) -> None:
    result = await played(chunk({"text": "well"}), chunk(finishReason=finish))
    assert (result.text(), result.stop_reason) == ("well", reason)


@pytest.mark.parametrize(
    ("chunks", "kind", "words"),
    [
        ([chunk(finishReason="SAFETY")], ContentFiltered, "SAFETY"),
        ([chunk({"text": "how to"}), chunk(finishReason="SAFETY")], ContentFiltered, "SAFETY"),
        ([chunk(finishReason="RECITATION")], ContentFiltered, "RECITATION"),
        ([chunk(finishReason="OTHER")], ProviderError, "OTHER"),
        (
            [chunk({"text": "I call"}), chunk(finishReason="MALFORMED_FUNCTION_CALL")],
            ProviderError,
            "MALFORMED_FUNCTION_CALL",
        ),
        (
            [{"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}],
            ContentFiltered,
            "the prompt was blocked (PROHIBITED_CONTENT)",
        ),
        ([chunk({"text": "half"})], ProviderError, "stream ended early"),
        ([], ProviderError, "stream ended early"),
        (
            [
                chunk({"text": "half"}),
                {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}},
            ],
            Overloaded,
            "busy",
        ),
        ([chunk({"text": "half"}), '{"candidates": [{"con'], ProviderError, "connection reset"),
    ],
)
async def test_an_answer_that_came_to_nothing_says_why(
    chunks: list[object], kind: type[InferenceExecutionError], words: str
) -> None:
    with pytest.raises(kind) as failed:
        await played(*chunks)
    assert words in str(failed.value)


async def test_a_connection_cut_in_the_middle_is_a_provider_error() -> None:
    with pytest.raises(ProviderError, match="connection error"):
        await played(chunk({"text": "half"}), cut=True)


async def test_a_connection_cut_after_the_end_is_no_error() -> None:
    result = await played(chunk({"text": "all"}, finishReason="STOP"), cut=True)
    assert result.text() == "all"


async def test_a_stream_cut_by_the_server_is_a_provider_error(gemini: GoogleGemini) -> None:
    failed = await failure(gemini, request("cut"))
    assert isinstance(failed, ProviderError)
    assert failed.retryable


# -- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "kind", "retry_after"),
    [
        ("quota", RateLimited, 7.0),
        ("broken", ProviderError, None),
        ("too much", ContextOverflow, None),
        ("forbidden", ContentFiltered, None),
    ],
)
async def test_what_the_provider_answers_is_one_of_our_errors(
    gemini: GoogleGemini,
    mock_server: MockServer,
    said: str,
    kind: type[InferenceExecutionError],
    retry_after: float | None,
) -> None:
    mock_server.forget()
    failed = await failure(gemini, request(said))
    assert type(failed) is kind
    assert failed.retry_after == retry_after
    assert len(mock_server.journal()) == 1  # the SDK has not tried again by itself


def refusal(status: int, message: str, *details: dict[str, Any], **headers: str) -> Answer:
    error = {"code": status, "message": message, "status": "X", "details": list(details)}
    return Answer(status=status, pieces=[json.dumps({"error": error}).encode()], headers=headers)


@pytest.mark.parametrize(
    ("refused", "kind", "retry_after"),
    [
        (
            refusal(
                429,
                "slow down",
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"},
            ),
            RateLimited,
            34.5,
        ),
        (
            refusal(429, "slow down", **{"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}),
            RateLimited,
            50.0,
        ),
        (
            refusal(
                400,
                "API key not valid. Please pass a valid API key.",
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "API_KEY_INVALID",
                },
            ),
            Unauthorized,
            None,
        ),
        (refusal(400, "Invalid value"), InvalidRequest, None),
        (refusal(401, "who are you"), Unauthorized, None),
        (refusal(403, f"{KEY} is not allowed"), Unauthorized, None),
        (refusal(404, "no such model"), ModelMissing, None),
        (refusal(503, "try later"), Overloaded, None),
        (refusal(504, "too slow"), InferenceTimeout, None),
        (Answer(status=502, pieces=[b"<html>bad gateway</html>"]), ProviderError, None),
    ],
)
async def test_refusals_keep_their_meaning_and_never_tell_the_key(
    refused: Answer, kind: type[InferenceExecutionError], retry_after: float | None
) -> None:
    async with WireServer([refused]) as server:
        executor = wired(server, clock=TenSecondsPast1970())
        failed = await failure(executor, request("hi"))
        await executor.aclose()
    assert type(failed) is kind
    assert failed.retry_after == retry_after
    assert KEY not in str(failed)
    assert KEY not in str(failed.__cause__)


class TenSecondsPast1970(type(SYSTEM_CLOCK)):  # type: ignore[misc]  # made at run time
    def now_ms(self) -> int:
        return 10_000


async def test_what_the_sdk_refuses_to_send_is_an_invalid_request() -> None:
    async with WireServer([]) as server:
        executor = wired(server, config={"audio_timestamp": True})
        failed = await failure(executor, request("hi"))
        await executor.aclose()
    assert isinstance(failed, InvalidRequest)
    assert not server.requests


# -- options ------------------------------------------------------------------------------------


async def test_vertex_is_asked_for_its_project_and_place() -> None:
    credentials = AnonymousCredentials()  # type: ignore[no-untyped-call]
    credentials.token = "a-token"
    pieces = sse(chunk({"text": "hi"}, finishReason="STOP"))
    async with WireServer([Answer(pieces=pieces)]) as server:
        executor = open_google_vertex(
            project="p", location="europe-west4", credentials=credentials, base_url=server.url
        )
        assert (await answer(executor, request("hi"))).text() == "hi"
        await executor.aclose()
    (sent,) = server.requests
    assert (
        "projects/p/locations/europe-west4/publishers/google/models/gemini-2.5-flash" in sent.path
    )
    assert executor.name == "google_vertex"


async def test_a_client_of_ones_own_is_used_and_left_open(mock_server: MockServer) -> None:
    from google import genai  # noqa: PLC0415  # an import of a second would be paid by every run

    client = genai.Client(
        api_key=KEY, http_options={"base_url": mock_server.url, "api_version": "v1beta"}
    )
    executor = GoogleGemini(client=client)
    await events(executor, request("hello"))
    await executor.aclose()
    assert (await answer(executor, request("hello"))).text() == "Hello, how can I help you?"
    await client.aio.aclose()
    client.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "export GEMINI_API_KEY or GOOGLE_API_KEY"),
        ({"vertex": True}, "export GOOGLE_CLOUD_PROJECT"),
        ({"vertex": True, "api_key": KEY, "project": "p"}, "give api_key, or project"),
        ({"api_key": KEY, "project": "p"}, "are for vertex=True"),
        ({"api_key": KEY, "base_url": "localhost:80"}, "base_url begins with http"),
        ({"api_key": KEY, "timeout": 0}, "timeout is a number of seconds above 0"),
        ({"api_key": KEY, "config": {"temprature": 1}}, "config is not understood"),
    ],
)
async def test_wrong_options_are_named(
    options: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError) as refused:
        GoogleGemini(**options)
    assert words in str(refused.value)
    assert KEY not in str(refused.value)


async def test_the_key_is_found_in_the_environment_and_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    async with WireServer(
        [Answer(pieces=sse(chunk({"text": "hi"}, finishReason="STOP")))]
    ) as server:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        executor = open_google()
        await events(executor, request("hi"))
        await executor.aclose()
    assert server.requests[0].headers["x-goog-api-key"] == KEY
    assert KEY not in repr(executor)
