"""A server that streams one long answer in every provider's dialect. Standard library only.

`python -m benchmarks.wire DELTAS` says its address and serves until its standard input ends. Each
event is a chunk of its own, as providers send it; they come as fast as they are read.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Any

from benchmarks.work import DELTA

Event = dict[str, Any]

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
    b"connection: close\r\n\r\n"
)


def chat(deltas: int) -> Iterator[Event | str]:
    head = {
        "id": "chatcmpl-BxH2mGmJ8DqkV0yqz3f2",
        "object": "chat.completion.chunk",
        "created": 1_760_000_000,
        "model": "gpt-5-mini-2025-08-07",
        "service_tier": "default",
        "system_fingerprint": None,
    }

    def chunk(delta: Event, finish: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**head, "choices": [choice], "usage": None, "obfuscation": "aB3dE5"}

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    for _ in range(deltas):
        yield chunk({"content": DELTA})
    yield chunk({}, "stop")
    usage = {"prompt_tokens": 9, "completion_tokens": deltas, "total_tokens": deltas + 9}
    yield {**head, "choices": [], "usage": usage}
    yield "[DONE]"


def responses(deltas: int) -> Iterator[Event]:
    message = {"id": "msg_68", "type": "message", "role": "assistant"}
    response = {"id": "resp_68", "object": "response", "created_at": 1_760_000_000, "output": []}
    place = {"item_id": "msg_68", "output_index": 0, "content_index": 0}
    asked: Event = {**response, "model": "gpt-5-mini-2025-08-07", "status": "in_progress"}
    item = {**message, "status": "in_progress", "content": []}
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
    text = DELTA * deltas
    whole = {**part, "text": text}
    done = {**message, "status": "completed", "content": [whole]}
    usage = {"input_tokens": 9, "output_tokens": deltas, "total_tokens": deltas + 9}
    yield {"type": "response.created", "sequence_number": 0, "response": asked}
    yield {"type": "response.in_progress", "sequence_number": 1, "response": asked}
    added = {"type": "response.output_item.added", "sequence_number": 2}
    yield {**added, "output_index": 0, "item": item}
    yield {"type": "response.content_part.added", "sequence_number": 3, **place, "part": part}
    delta = {"type": "response.output_text.delta", **place, "delta": DELTA, "logprobs": []}
    for number in range(4, deltas + 4):
        yield {**delta, "sequence_number": number, "obfuscation": "aB3dE5"}
    last = {"sequence_number": deltas + 4}
    yield {"type": "response.output_text.done", **last, **place, "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", **last, **place, "part": whole}
    yield {"type": "response.output_item.done", **last, "output_index": 0, "item": done}
    ended = {**asked, "status": "completed", "output": [done], "usage": usage}
    yield {"type": "response.completed", **last, "response": ended}


def messages(deltas: int) -> Iterator[Event]:
    usage = {"input_tokens": 9, "output_tokens": 1}
    message = {"id": "msg_01", "type": "message", "role": "assistant", "model": "claude"}
    begun: Event = {
        **message,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield {"type": "message_start", "message": begun}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    for _ in range(deltas):
        delta = {"type": "text_delta", "text": DELTA}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": deltas}}
    yield {"type": "message_stop"}


def contents(deltas: int) -> Iterator[Event]:
    answer: Event = {"content": {"parts": [{"text": DELTA}], "role": "model"}, "index": 0}
    head = {"modelVersion": "gemini-3-pro", "responseId": "Xq3laL"}
    for number in range(1, deltas + 1):
        ends = {"finishReason": "STOP"} if number == deltas else {}
        usage = {"promptTokenCount": 9, "candidatesTokenCount": number}
        usage["totalTokenCount"] = number + 9
        yield {"candidates": [{**answer, **ends}], "usageMetadata": usage, **head}


DIALECTS = {
    "/chat/completions": chat,
    "/responses": responses,
    "/messages": messages,
    ":streamGenerateContent": contents,
}


def body(events: Iterator[Event | str] | Iterator[Event]) -> bytes:
    chunks = []
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event, separators=(",", ":"))
        name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
        piece = f"{name}data: {data}\n\n".encode()
        chunks.append(b"%x\r\n%s\r\n" % (len(piece), piece))
    return b"".join(chunks) + b"0\r\n\r\n"


async def serve(deltas: int) -> None:
    bodies = {path: body(events(deltas)) for path, events in DIALECTS.items()}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next(line for line in head.split("\r\n") if line.startswith("content-length"))
        await reader.readexactly(int(length.partition(":")[2]))
        asked = head.split(" ")[1]
        writer.write(HEAD + next(b for path, b in bodies.items() if path.lower() in asked))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
