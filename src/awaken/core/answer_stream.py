"""Turning a whole answer into the events of a stream."""

from __future__ import annotations

from awaken.codec import dumps_text
from awaken.core.event import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.inference import StreamResult
from awaken.core.llm import (
    ContentBlockStop,
    LlmStreamEvent,
    ReasoningDone,
    Stop,
    ToolCallSigned,
    Usage,
)
from awaken.core.message import Citation, Opaque, Text, Thinking


def stream_of(result: StreamResult, chunk: int | None = None) -> list[LlmStreamEvent]:
    """The events a provider would send for `result`; accumulated, they are `result` again.

    Args:
        chunk: characters per text delta; by default each block is one delta.
    """
    events: list[LlmStreamEvent] = []
    for block in result.content:
        if isinstance(block, Thinking):
            events += [ReasoningDelta(delta=part) for part in _chunks(block.thinking, chunk)]
            if block.origin is not None:
                events.append(
                    ReasoningDone(
                        origin=block.origin,
                        id=block.id,
                        signature=block.signature,
                        encrypted=block.encrypted,
                    )
                )
        elif isinstance(block, Text):
            if events and isinstance(events[-1], TextDelta):
                events.append(ContentBlockStop())
            events += [TextDelta(delta=part) for part in _chunks(block.text, chunk)]
        elif isinstance(block, Opaque | Citation):
            events.append(block)
    for call in result.tool_calls:
        events.append(ToolCallStart(id=call.id, name=call.name))
        events.append(ToolCallDelta(id=call.id, args_delta=dumps_text(call.arguments)))
        if call.signature is not None:
            events.append(ToolCallSigned(id=call.id, signature=call.signature))
    if result.has_incomplete_tool_calls:
        events.append(ToolCallStart(id="incomplete", name="incomplete"))
        events.append(ToolCallDelta(id="incomplete", args_delta="{"))
    if result.usage is not None:
        events.append(Usage(usage=result.usage))
    events.append(Stop(reason=result.stop_reason))
    return events


def _chunks(text: str, chunk: int | None) -> list[str]:
    size = chunk or len(text) or 1
    return [text[at : at + size] for at in range(0, len(text), size)]
