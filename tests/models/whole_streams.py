"""A whole answer in each API, for tests that cut it, bend it or write it in another way.

Every stream has reasoning, text outside ASCII, a call whose arguments come in pieces, and usage.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from mock_server import Answer, Received, WireServer, amazon_frame, sse

from awaken.core.answer_builder import StreamAccumulator
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest, LlmExecutor
from awaken.core.message import Message
from awaken.core.tool import ToolDescriptor
from awaken.models.anthropic import AnthropicMessages
from awaken.models.bedrock import BedrockConverse
from awaken.models.google import GoogleGemini
from awaken.models.openai import OpenAIChat, OpenAIResponses

KEY = "sk-test-0123456789"
LOOK = ToolDescriptor(id="look", name="look", description="Look.")
WORDS = "Grüße, 猫🐈 — "

Event = Any
"""One event before it is encoded: JSON, and with Amazon its kind before it."""


def _chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def _call(index: int, arguments: str, **fields: Any) -> dict[str, Any]:
    function = {"arguments": arguments, **({"name": "look"} if "id" in fields else {})}
    return _chunk(tool_calls=[{"index": index, "function": function, **fields}])


CHAT: Sequence[Event] = [
    _chunk(role="assistant", content=""),
    _chunk(reasoning_content=f"Hm, {WORDS}"),
    _chunk(content=WORDS),
    _chunk(content="see."),
    _call(0, "", id="c1", type="function"),
    _call(0, '{"at": '),
    _call(0, '"é"}'),
    _call(1, '{"at": 2}', id="c2", type="function"),
    _chunk("tool_calls"),
    {
        "choices": [],
        "usage": {
            "prompt_tokens": 7,
            "completion_tokens": 3,
            "total_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 2},
            "completion_tokens_details": {"reasoning_tokens": 1},
        },
    },
]

_THOUGHT = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": f"Hm, {WORDS}"}],
    "encrypted_content": "gAAA",
}
_NOTE = {"type": "url_citation", "url": "https://a.example", "start_index": 0, "end_index": 1}
_SPOKEN = {
    "type": "message",
    "id": "msg_1",
    "phase": "commentary",
    "content": [{"type": "output_text", "text": f"{WORDS}see.", "annotations": [_NOTE]}],
}
_CALLED = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look"}


def _item(what: str, index: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": f"response.output_item.{what}", "output_index": index, "item": item}


def _piece(kind: str, index: int, id: str, delta: str) -> dict[str, Any]:
    return {
        "type": f"response.{kind}.delta",
        "output_index": index,
        "item_id": id,
        "delta": delta,
    }


RESPONSES: Sequence[Event] = [
    {"type": "response.created", "response": {"id": "resp_1"}},
    _item("added", 0, {"type": "reasoning", "id": "rs_1", "summary": []}),
    _piece("reasoning_summary_text", 0, "rs_1", f"Hm, {WORDS}"),
    _item("done", 0, _THOUGHT),
    _item("added", 1, {"type": "message", "id": "msg_1"}),
    _piece("output_text", 1, "msg_1", WORDS),
    _piece("output_text", 1, "msg_1", "see."),
    _item("done", 1, _SPOKEN),
    _item("added", 2, {**_CALLED, "arguments": ""}),
    _piece("function_call_arguments", 2, "fc_1", '{"at": '),
    _piece("function_call_arguments", 2, "fc_1", '"é"}'),
    _item("done", 2, {**_CALLED, "arguments": '{"at": "é"}'}),
    {
        "type": "response.completed",
        "response": {
            "id": "resp_1",
            "status": "completed",
            "output": [_THOUGHT, _SPOKEN, {**_CALLED, "arguments": '{"at": "é"}'}],
            "usage": {
                "input_tokens": 7,
                "output_tokens": 3,
                "total_tokens": 10,
                "input_tokens_details": {"cached_tokens": 2},
                "output_tokens_details": {"reasoning_tokens": 1},
            },
        },
    },
]


def _delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def _start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


_SOURCE = {
    "type": "web_search_result_location",
    "cited_text": "Cats.",
    "url": "https://a.example",
    "title": "A",
    "encrypted_index": "Eo8",
}

MESSAGES: Sequence[Event] = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "usage": {"input_tokens": 5, "output_tokens": 1, "cache_read_input_tokens": 2},
        },
    },
    _start(0, type="thinking", thinking="", signature=""),
    _delta(0, "thinking_delta", thinking=f"Hm, {WORDS}"),
    _delta(0, "signature_delta", signature="c2ln"),
    _stop(0),
    {"type": "ping"},
    _start(1, type="text", text=""),
    _delta(1, "text_delta", text=WORDS),
    _delta(1, "text_delta", text="see."),
    _delta(1, "citations_delta", citation=_SOURCE),
    _stop(1),
    _start(2, type="server_tool_use", id="su_1", name="web_search", input={}),
    _delta(2, "input_json_delta", partial_json='{"query": "é"}'),
    _stop(2),
    _start(3, type="tool_use", id="c1", name="look", input={}),
    _delta(3, "input_json_delta", partial_json='{"at": '),
    _delta(3, "input_json_delta", partial_json='"é"}'),
    _stop(3),
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {"output_tokens": 3},
    },
    {"type": "message_stop"},
]


def _parts(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "responseId": "r1",
        "candidates": [{"content": {"role": "model", "parts": list(parts)}, **fields}],
        "usageMetadata": {
            "promptTokenCount": 7,
            "candidatesTokenCount": 3,
            "totalTokenCount": 10,
        },
    }


GEMINI: Sequence[Event] = [
    _parts({"text": f"Hm, {WORDS}", "thought": True}),
    _parts({"text": WORDS}),
    _parts({"text": "see."}),
    _parts({"executableCode": {"code": "print(1)", "language": "PYTHON"}}),
    _parts(
        {
            "functionCall": {"id": "c1", "name": "look", "args": {"at": "é"}},
            "thoughtSignature": "c2ln",
        }
    ),
    _parts({"functionCall": {"id": "c2", "name": "look", "willContinue": True}}),
    _parts(
        {
            "functionCall": {
                "partialArgs": [{"jsonPath": "$.at", "numberValue": 2}],
                "willContinue": True,
            }
        }
    ),
    _parts({"functionCall": {}}),
    _parts(
        finishReason="STOP",
        groundingMetadata={
            "groundingChunks": [{"web": {"uri": "https://a.example", "title": "A"}}],
            "groundingSupports": [
                {"segment": {"endIndex": 5, "text": "Cats."}, "groundingChunkIndices": [0]}
            ],
        },
    ),
]


def _block(index: int, **delta: Any) -> Event:
    return ["contentBlockDelta", {"contentBlockIndex": index, "delta": delta}]


CONVERSE: Sequence[Event] = [
    ["messageStart", {"role": "assistant"}],
    _block(0, reasoningContent={"text": f"Hm, {WORDS}"}),
    _block(0, reasoningContent={"signature": "c2ln"}),
    ["contentBlockStop", {"contentBlockIndex": 0}],
    _block(1, text=WORDS),
    _block(1, text="see."),
    ["contentBlockStop", {"contentBlockIndex": 1}],
    [
        "contentBlockStart",
        {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "c1", "name": "look"}}},
    ],
    _block(2, toolUse={"input": '{"at": '}),
    _block(2, toolUse={"input": '"é"}'}),
    ["contentBlockStop", {"contentBlockIndex": 2}],
    ["messageStop", {"stopReason": "tool_use"}],
    ["metadata", {"usage": {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10}}],
]


# -- playing them ---------------------------------------------------------------------------------


def _named(events: Sequence[Event]) -> tuple[bytes, ...]:
    """Server-sent events with names, if they have a type."""
    return tuple(
        f"event: {event.get('type')}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()
        for event in events
        if isinstance(event, dict)
    )


def _frames(events: Sequence[Event]) -> tuple[bytes, ...]:
    return tuple(amazon_frame(str(kind), content) for kind, content in events)


@dataclass(frozen=True, kw_only=True)
class Wire:
    """One API: how its model is opened and asked, and a whole answer of it."""

    open: Callable[[str], LlmExecutor]
    model: str
    events: Sequence[Event]
    encode: Callable[[Sequence[Event]], tuple[bytes, ...]]
    text: bool = True


WIRES = {
    "chat": Wire(
        open=lambda url: OpenAIChat(base_url=f"{url}/v1", api_key=KEY),
        model="m",
        events=CHAT,
        encode=lambda events: sse(*events, "[DONE]"),
    ),
    "responses": Wire(
        open=lambda url: OpenAIResponses(base_url=f"{url}/v1", api_key=KEY),
        model="gpt-5",
        events=RESPONSES,
        encode=_named,
    ),
    "anthropic": Wire(
        open=lambda url: AnthropicMessages(base_url=url, api_key=KEY),
        model="claude-opus-5-5",
        events=MESSAGES,
        encode=_named,
    ),
    "gemini": Wire(
        open=lambda url: GoogleGemini(base_url=url, api_key=KEY),
        model="gemini-3-pro",
        events=GEMINI,
        encode=lambda events: sse(*events),
    ),
    "bedrock": Wire(
        open=lambda url: BedrockConverse(base_url=url, region="eu-west-1", api_key=KEY),
        model="amazon.nova-pro-v1:0",
        events=CONVERSE,
        encode=_frames,
        text=False,
    ),
}


class Player(WireServer):
    """Answers every request with `playing`."""

    playing = Answer()

    async def answer(self, request: Received) -> Answer:
        return self.playing


class Asker:
    """Asks the model of one API, whose server answers as it is told."""

    def __init__(self, wire: Wire, model: LlmExecutor, server: Player) -> None:
        self._wire, self._model, self.server = wire, model, server

    async def ask(self, answer: Answer) -> StreamResult:
        self.server.playing = answer
        request = InferenceRequest(
            upstream_model=self._wire.model, messages=[Message.user("Hi")], tools=(LOOK,)
        )
        accumulator = StreamAccumulator()
        async for event in self._model.execute_stream(request):
            accumulator.push(event)
        return accumulator.finish()


@asynccontextmanager
async def asking(name: str) -> AsyncIterator[Asker]:
    wire = WIRES[name]
    async with Player() as server:
        model: Any = wire.open(server.url)
        try:
            yield Asker(wire, model, server)
        finally:
            await model.aclose()
