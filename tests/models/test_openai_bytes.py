"""OpenAI's two APIs through the real SDK, byte by byte: what a scripted server cannot play."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mock_server import Answer, WireServer, sse
from openai import AsyncOpenAI

from awaken.core.answer_builder import StreamAccumulator
from awaken.core.event import TextDelta
from awaken.core.inference import OutputFormat, StreamResult
from awaken.core.llm import (
    ContextOverflow,
    InferenceExecutionError,
    InferenceRequest,
    ModelMissing,
    Overloaded,
    ProviderError,
    RateLimited,
)
from awaken.core.message import Message, Role
from awaken.models.openai import ChatDialect, OpenAIChat, OpenAIResponses
from awaken.testing import FakeClock

pytestmark = pytest.mark.anyio

KEY = "sk-secret-0123456789abcdef"
Executor = OpenAIResponses | OpenAIChat


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


CHAT = sse(
    chunk(role="assistant", content="Grüße "),
    chunk(content="aus"),
    chunk(
        tool_calls=[{"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"n":1}'}}],
    ),
    chunk("tool_calls"),
    "[DONE]",
)
RESPONSES = sse(
    {"type": "response.output_text.delta", "output_index": 0, "delta": "Grüße "},
    {"type": "response.output_text.delta", "output_index": 0, "delta": "aus"},
    {
        "type": "response.output_item.done",
        "output_index": 1,
        "item": {"type": "function_call", "call_id": "a", "name": "f", "arguments": '{"n":1}'},
    },
    {"type": "response.completed", "response": {"status": "completed"}},
    names=True,
)


@asynccontextmanager
async def talking(
    make: type[Executor], answers: list[Answer], **options: Any
) -> AsyncIterator[tuple[Executor, WireServer]]:
    async with WireServer(answers) as server:
        model = make(base_url=f"{server.url}/v1", api_key=KEY, **options)
        try:
            yield model, server
        finally:
            await model.aclose()


def asking(*messages: Message, **fields: Any) -> InferenceRequest:
    return InferenceRequest(
        upstream_model="gpt-5", messages=messages or (Message.user("Hi"),), **fields
    )


async def ask(model: Executor, *messages: Message, **fields: Any) -> StreamResult:
    accumulator = StreamAccumulator()
    async for event in model.execute_stream(asking(*messages, **fields)):
        accumulator.push(event)
    return accumulator.finish()


async def heard(model: Executor) -> tuple[str, InferenceExecutionError | None]:
    """The text that came, and the error it ended with."""
    pieces: list[str] = []
    try:
        async for event in model.execute_stream(asking()):
            if isinstance(event, TextDelta):
                pieces.append(event.delta)
    except InferenceExecutionError as error:
        return "".join(pieces), error
    return "".join(pieces), None


@pytest.mark.parametrize("unframed", [False, True], ids=["framed", "unframed"])
@pytest.mark.parametrize(
    ("make", "pieces", "last"),
    [
        # Chat is whole once its reason to finish was told, with or without "[DONE]".
        pytest.param(OpenAIChat, CHAT, len(b"".join(CHAT[:-1])), id="chat"),
        pytest.param(OpenAIResponses, RESPONSES, len(b"".join(RESPONSES)), id="responses"),
    ],
)
async def test_a_stream_cut_anywhere_is_whole_or_an_error(
    make: type[Executor], pieces: tuple[bytes, ...], last: int, unframed: bool
) -> None:
    """Never half an answer that passes for a whole one."""
    stream = b"".join(pieces)
    # All places around the ends of events, and a few inside each of them.
    ends = {len(b"".join(pieces[:count])) for count in range(1, len(pieces) + 1)}
    around = {end + near for end in ends for near in (-3, -2, -1, 0, 1)}
    places = sorted(at for at in around | set(range(0, len(stream), 7)) if at <= len(stream))
    answers = [Answer(pieces=[stream[:at]], cut=True, unframed=unframed) for at in places]
    async with talking(make, answers) as (model, _):
        for at in places:
            text, error = await heard(model)
            assert "Grüße aus".startswith(text)
            if at >= last:
                assert error is None, at
                assert text == "Grüße aus"
            else:
                assert type(error) is ProviderError, at
                assert "connection reset" in str(error)


async def test_reasoning_comes_back_to_the_api_as_it_was_given() -> None:
    """As the guide to reasoning without stored state says: the items of the last answer, again."""
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA="}
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f"}
    first = sse(
        {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**reasoning, "encrypted_content": "gAA"},
        },
        {
            "type": "response.reasoning_summary_part.added",
            "item_id": "rs_1",
            "output_index": 0,
            "summary_index": 0,
            "part": {"type": "summary_text", "text": ""},
        },
        {
            "type": "response.reasoning_summary_text.delta",
            "item_id": "rs_1",
            "output_index": 0,
            "summary_index": 0,
            "delta": "**Looking it up**",
        },
        {"type": "response.output_item.done", "output_index": 0, "item": reasoning},
        {
            "type": "response.output_item.added",
            "output_index": 1,
            "item": {**call, "arguments": ""},
        },
        {
            "type": "response.function_call_arguments.delta",
            "item_id": "fc_1",
            "output_index": 1,
            "delta": '{"n":1}',
        },
        {
            "type": "response.output_item.done",
            "output_index": 1,
            "item": {**call, "arguments": '{"n":1}'},
        },
        {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}},
        names=True,
    )
    answers = [Answer(pieces=first), Answer(pieces=RESPONSES)]
    async with talking(OpenAIResponses, answers) as (model, server):
        result = await ask(model)
        answer = Message(role=Role.ASSISTANT, content=result.content, tool_calls=result.tool_calls)
        await ask(model, Message.user("Hi"), answer, Message.tool("call_1", "ok"))
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.requests[1].path == "/v1/responses"
    assert server.requests[1].body["input"] == [
        {"role": "user", "content": "Hi"},
        {**reasoning, "summary": [{"type": "summary_text", "text": "**Looking it up**"}]},
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "f",
            "arguments": '{"n":1}',
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "ok"},
    ]


async def test_an_output_format_reaches_the_responses_api() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    async with talking(OpenAIResponses, [Answer(pieces=RESPONSES)]) as (model, server):
        await ask(model, output=OutputFormat(name="out", schema=schema))
    asked = server.requests[0].body["text"]["format"]
    assert asked["type"] == "json_schema"
    assert asked["strict"] is True


async def test_plain_reasoning_comes_back_to_a_server_in_its_field() -> None:
    stream = sse(chunk(reasoning_content="hm"), chunk("stop", content="Hi"), "[DONE]")
    async with talking(OpenAIChat, [Answer(pieces=stream)] * 2) as (model, server):
        result = await ask(model)
        answer = Message(role=Role.ASSISTANT, content=result.content)
        await ask(model, Message.user("Hi"), answer, Message.user("And?"))
    assert server.requests[1].body["messages"][1] == {
        "role": "assistant",
        "content": "Hi",
        "reasoning_content": "hm",
    }


@pytest.mark.parametrize("make", [OpenAIChat, OpenAIResponses])
async def test_a_date_to_wait_for_is_a_number_of_seconds(make: type[Executor]) -> None:
    """02/§6.2: Retry-After as a date, by the clock that was given."""
    busy = Answer(
        status=429,
        headers={"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"},
        pieces=[b'{"error": {"message": "Slow down"}}'],
    )
    async with talking(make, [busy], clock=FakeClock(60_000)) as (model, _):
        with pytest.raises(RateLimited) as caught:
            await ask(model)
    assert caught.value.retry_after == 40.0


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        ({"message": "gone", "code": 502}, ProviderError, "HTTP 502: gone"),
        ({"message": "busy", "code": "429"}, RateLimited, "HTTP 429: busy"),
        ({"message": "long", "code": "context_length_exceeded"}, ContextOverflow, "long"),
        ("no dict", ProviderError, "no dict"),
    ],
)
@pytest.mark.parametrize("make", [OpenAIChat, OpenAIResponses])
async def test_an_error_in_the_middle_keeps_its_class(
    make: type[Executor], error: Any, kind: type[InferenceExecutionError], words: str
) -> None:
    """02/§6.2: mid-stream errors keep their class."""
    first = CHAT[:1] if make is OpenAIChat else RESPONSES[:1]
    async with talking(make, [Answer(pieces=[*first, *sse({"error": error})])]) as (model, _):
        text, raised = await heard(model)
    assert text == "Grüße "
    assert type(raised) is kind
    assert words in str(raised)


@pytest.mark.parametrize(
    "garbage",
    [
        b'data: {"choices": [\n\n',
        b"data: 17\n\n",
        b'data: {"type": "response.output_text.delta"}\n\n',
    ],
    ids=["broken", "no object", "half an event"],
)
async def test_garbage_is_an_error_of_ours(garbage: bytes) -> None:
    async with talking(OpenAIResponses, [Answer(pieces=[garbage])]) as (model, server):
        with pytest.raises(ProviderError, match="cannot be read") as caught:
            await ask(model)
    assert server.url in str(caught.value)


async def test_an_answer_at_once_that_is_none_is_an_error() -> None:
    bodies = {b"<body>Welcome!</body>": "text/html", b'{"error": "overloaded"}': "application/json"}
    answers = [Answer(pieces=[each], headers={"content-type": bodies[each]}) for each in bodies]
    async with talking(OpenAIChat, answers, stream=False) as (model, _):
        with pytest.raises(ProviderError, match="no answer: Welcome!"):
            await ask(model)
        with pytest.raises(Overloaded, match="overloaded"):
            await ask(model)


async def test_a_missing_page_names_the_address() -> None:
    async with talking(OpenAIChat, [Answer(status=404, pieces=[b"Not Found"])]) as (model, server):
        with pytest.raises(ModelMissing, match="Not Found") as caught:
            await ask(model)
    assert f"{server.url}/v1" in str(caught.value)


@pytest.mark.parametrize("status", [401, 500])
async def test_a_key_inside_an_error_is_not_told(status: int) -> None:
    body = f'{{"error": {{"message": "bad key {KEY}"}}}}'.encode()
    async with talking(OpenAIChat, [Answer(status=status, pieces=[body])]) as (model, _):
        with pytest.raises(InferenceExecutionError, match=r"bad key \*\*\*") as caught:
            await ask(model)
        assert KEY not in repr(model) + repr(vars(model)) + repr(model._connection.address)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


async def test_a_key_inside_an_error_in_the_middle_is_not_told() -> None:
    told = {"error": {"message": f"bad key {KEY}"}}
    failed = {"type": "error", "message": f"bad key {KEY}"}
    for make, stream in ((OpenAIChat, sse(told)), (OpenAIResponses, sse(failed))):
        async with talking(make, [Answer(pieces=stream)]) as (model, _):
            with pytest.raises(ProviderError, match=r"bad key \*\*\*"):
                await ask(model)


async def test_options_reach_the_server() -> None:
    async with talking(
        OpenAIChat,
        [Answer(pieces=CHAT)],
        dialect=ChatDialect(include_usage=False),
        extra_body={"chat_template_kwargs": {"enable_thinking": False}},
        default_headers={"x-title": "awaken"},
        organization="org-1",
        project="proj-1",
    ) as (model, server):
        await ask(model)
    [request] = server.requests
    assert request.body["chat_template_kwargs"] == {"enable_thinking": False}
    assert "stream_options" not in request.body
    assert request.headers["x-title"] == "awaken"
    assert request.headers["openai-organization"] == "org-1"
    assert request.headers["openai-project"] == "proj-1"


async def test_a_server_given_without_a_key_does_not_get_openais(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with WireServer([Answer(pieces=CHAT)]) as server:
        model = OpenAIChat(base_url=server.url)
        await ask(model)
        await model.aclose()
    assert KEY not in str(server.requests[0].headers)


async def test_a_client_of_ones_own_is_used_and_left_open() -> None:
    answers = [Answer(status=500), Answer(pieces=CHAT)]
    async with (
        WireServer(answers) as server,
        AsyncOpenAI(api_key=KEY, base_url=server.url, max_retries=5) as client,
    ):
        model = OpenAIChat(client=client)
        with pytest.raises(ProviderError, match="HTTP 500"):
            await ask(model)
        assert len(server.requests) == 1
        await model.aclose()
        assert (await ask(model)).text() == "Grüße aus"
        assert not client.is_closed()
