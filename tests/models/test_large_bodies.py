"""A server that never ends an event, or never says anything of it, fills no memory."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from mock_server import Answer, WireServer, sse

from awaken.core.answer_builder import StreamAccumulator
from awaken.core.llm import AnswerTooLarge, InferenceRequest, LlmExecutor
from awaken.core.message import Message
from awaken.models.anthropic import AnthropicMessages
from awaken.models.anthropic.stream import StreamReader
from awaken.models.google import GoogleGemini
from awaken.models.openai import OpenAIChat, OpenAIResponses

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
BIG = "x" * MIB
ENDLESS = [b"data: ", *[BIG.encode()] * 17]

Make = Callable[[str], Any]
MAKE: dict[str, Make] = {
    "chat": lambda url: OpenAIChat(base_url=url, api_key="k"),
    "responses": lambda url: OpenAIResponses(base_url=url, api_key="k"),
    "anthropic": lambda url: AnthropicMessages(base_url=url, api_key="k"),
    "google": lambda url: GoogleGemini(base_url=url, api_key="k"),
}


async def heard(make: Make, answer: Answer) -> tuple[AnswerTooLarge | None, int]:
    """How an answer was refused, and how many requests that took."""
    async with WireServer([answer]) as server:
        model = make(server.url)
        try:
            return await _refusal(model), len(server.requests)
        finally:
            await model.aclose()


async def _refusal(model: LlmExecutor) -> AnswerTooLarge | None:
    listener = StreamAccumulator()
    request = InferenceRequest(upstream_model="m", messages=(Message.user("Hi"),))
    try:
        async for event in model.execute_stream(request):
            listener.push(event)
    except AnswerTooLarge as error:
        return error
    return None


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
async def test_an_event_without_an_end_is_refused(make: Make) -> None:
    error, requests = await heard(make, Answer(pieces=ENDLESS))
    assert error is not None
    assert (error.limit, requests) == (16 * MIB, 1)
    assert str(error) == (
        "answer too large: one event of the provider's response has more than 16777216 bytes"
    )


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
async def test_what_is_small_on_the_wire_counts_as_what_it_becomes(make: Make) -> None:
    packed = gzip.compress(b"data: " + BIG.encode() * 17, 1)
    answer = Answer(pieces=[packed], headers={"content-encoding": "gzip"})
    error, _ = await heard(make, answer)
    assert error is not None


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
async def test_an_error_without_an_end_is_refused(make: Make) -> None:
    error, _ = await heard(make, Answer(status=400, pieces=[b'{"error":"', *ENDLESS]))
    assert error is not None


def chat(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta}]}


def unnamed(index: int) -> dict[str, Any]:
    return chat(tool_calls=[{"index": index, "function": {"arguments": BIG}}])


HELD: dict[str, tuple[str, Sequence[Any]]] = {
    "a refusal": ("chat", [chat(refusal=BIG)]),
    "a call that is never named": ("chat", [unnamed(0)]),
    "calls that are never named": ("chat", [unnamed(index) for index in range(20)]),
    "encrypted reasoning": (
        "chat",
        [chat(reasoning_details=[{"index": 0, "type": "reasoning.encrypted", "data": BIG}])],
    ),
    "a refusal of a response": (
        "responses",
        [{"type": "response.refusal.delta", "output_index": 0, "delta": BIG}],
    ),
    "a signature": (
        "anthropic",
        [
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "signature_delta", "signature": BIG},
            }
        ],
    ),
}


@pytest.mark.parametrize(("name", "events"), HELD.values(), ids=HELD)
async def test_what_cannot_be_told_yet_is_not_held_for_ever(
    name: str, events: Sequence[Any]
) -> None:
    pieces = sse(*events, names=name != "chat")
    flood = [pieces[i % len(pieces)] for i in range(20)]
    error, _ = await heard(MAKE[name], Answer(pieces=flood))
    assert error is not None
    assert error.limit == 16 * MIB
    assert "before it could be told" in str(error)


async def test_blocks_of_a_kind_nobody_knows_come_to_an_end() -> None:
    reader, block = StreamReader(), SimpleNamespace(type="server_tool_use")

    def begin_many() -> None:
        for index in range(100_000):
            reader.read(
                SimpleNamespace(type="content_block_start", index=index, content_block=block)
            )

    with pytest.raises(AnswerTooLarge):
        begin_many()


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
async def test_lines_without_an_event_come_to_an_end(make: Make) -> None:
    """The SDKs join the lines of an event one by one; ten thousand of them are none."""
    error, _ = await heard(make, Answer(pieces=[b"data: x\n" * 100] * 100))
    assert error is not None


# What follows the line, so that the SDKs see no end of an event in it.
UNENDED = {"cr": b"\r", "crlf": b"\r\n", "lf crlf": b"\n\r\n", "cr crlf": b"\r\r\n"}


@pytest.mark.parametrize("end", UNENDED.values(), ids=UNENDED)
async def test_lines_are_counted_however_they_end(end: bytes) -> None:
    """A megabyte of such lines would keep Anthropic's SDK, and the loop, busy for half a minute."""
    error, _ = await heard(MAKE["anthropic"], Answer(pieces=[(b"data: x" + end) * 1000] * 10))
    assert error is not None


async def test_an_event_that_is_refused_for_its_lines_says_so() -> None:
    error, _ = await heard(MAKE["chat"], Answer(pieces=[b"data: x\n" * 5000]))
    assert error is not None
    assert re.fullmatch(
        "answer too large: one event of the provider's response, whose [0-9]+ lines count as 4096 "
        "bytes each, has more than 16777216 bytes",
        str(error),
    )


@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n", "\r\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("apart", [False, True], ids=["whole", "cut"])
async def test_events_are_told_apart_however_they_are_cut(end: str, apart: bool) -> None:
    """A long answer is made of many events, and none of them is large."""
    line = b"data: " + json.dumps(chat(content="x" * 200_000)).encode()
    done = sse({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, "[DONE]")
    half = len(end) // 2
    ended = [line + end[:half].encode(), end[half:].encode()] if apart else [line + end.encode()]
    listener = StreamAccumulator()
    listener.limit_to(64 * MIB)
    async with WireServer([Answer(pieces=[*ended * 100, *done])]) as server:
        model = MAKE["chat"](server.url)
        request = InferenceRequest(upstream_model="m", messages=(Message.user("Hi"),))
        async for event in model.execute_stream(request):
            listener.push(event)
        await model.aclose()
    assert len(listener.finish().text()) == 20_000_000


async def test_reasoning_in_many_small_pieces_is_put_together_once() -> None:
    """Each piece is kept as it comes, and not copied for every one that follows."""
    one = json.dumps(chat(reasoning_details=[{"index": 0, "type": "t", "text": "x" * 20}]))
    pieces = [f"data: {one}\n\n".encode() * 500] * 40
    end = sse({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, "[DONE]")
    async with WireServer([Answer(pieces=[*pieces, *end])]) as server:
        model = MAKE["chat"](server.url)
        listener = StreamAccumulator()
        request = InferenceRequest(upstream_model="m", messages=(Message.user("Hi"),))
        async for event in model.execute_stream(request):
            listener.push(event)
        await model.aclose()
    (block,) = listener.finish().content
    details = json.loads(getattr(block, "encrypted", ""))
    assert [len(detail["text"]) for detail in details] == [400_000]
