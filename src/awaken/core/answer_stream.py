"""Reading an answer from one or several streams of a model, and turning an answer into a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from awaken.codec import dumps_text
from awaken.core.answer_builder import StreamAccumulator
from awaken.core.event import (
    AgentEvent,
    ReasoningDelta,
    StreamReset,
    TextDelta,
    ToolCallCancel,
    ToolCallDelta,
    ToolCallStart,
)
from awaken.core.inference import StreamResult
from awaken.core.llm import (
    AnswerSource,
    ContentBlockStop,
    InferenceRequest,
    LlmStreamEvent,
    ReasoningDone,
    Stop,
    ToolCallSigned,
    Usage,
)
from awaken.core.message import Citation, Message, Opaque, Text, Thinking
from awaken.errors import AwakenError, type_of

GO_ON = (
    "Your answer was interrupted mid-stream; what you see above is all that arrived of it. Go on "
    "exactly where it stops, without repeating any of it and without a word about the interruption."
)
"""The message to a model whose answer broke off."""
UNSEEN: tuple[int, float, int] = (-1, 0.0, 0)


class StreamListener(StreamAccumulator):
    """Reads one answer: usually from one stream, from several if one breaks off.

    `task` is the task that reads, `model_id` the model that answers if it belongs to a pool. `seen`
    is for the idle timer, `asked` the request of the stream: see `AnswerListener`. Subclasses
    emit events and count the cost.
    """

    __slots__ = ("asked", "model_id", "seen", "task")

    def __init__(self, task: asyncio.Task[Any] | None = None) -> None:
        StreamAccumulator.__init__(self)  # one for every answer, and `super()` takes time
        self.task = task
        self.asked: InferenceRequest | None = None
        self.model_id: str | None = None
        self.seen = UNSEEN

    async def listen(self, stream: AsyncIterator[LlmStreamEvent]) -> None:
        """Read a stream to its end, or close it."""
        drained = False
        try:
            async for event in stream:
                self.push(event)
            drained = True
        except TypeError:
            check_stream(stream)
            raise
        finally:
            if not drained:
                await close(stream)

    def poll(self) -> bool:
        """Whether the reader waits for something other than the model.

        Called at intervals while a stream is open; subclasses may do small work here.
        """
        return False

    # -- when a stream has broken off ---------------------------------------------------------

    async def accept_calls(self, cause: str) -> None:
        """End the answer with the complete tool calls; no further stream will be opened."""
        await self._drop_calls(cause)
        self.end_with_calls()

    async def continue_text(self, cause: str) -> None:
        """Expect a stream that continues the text; an incomplete tool call is dropped."""
        self.count()
        await self._drop_calls(cause)
        self.next_stream()

    async def start_over(self, cause: str) -> None:
        """Drop everything received; expect a stream with the whole answer."""
        await self.emit(StreamReset(reason=cause))
        self.count()
        self.forget()

    async def _drop_calls(self, cause: str) -> None:
        for id, name in self.drop_unfinished():
            await self.emit(ToolCallCancel(id=id, name=name, reason=cause))

    # -- for subclasses -----------------------------------------------------------------------

    @property
    def is_wanted(self) -> bool:
        """Whether an answer whose stream broke off should be requested again."""
        return True

    async def emit(self, event: AgentEvent) -> None:
        """Send an event to clients: a part of the answer that they have seen is void."""

    def count(self, whole: bool = False) -> None:
        """Count the cost of the current stream; unless it is `whole`, it broke off."""

    def note_failure(self, request: InferenceRequest, error: AwakenError) -> None:
        """Called when a request has failed; see `AnswerListener.note_failure`."""

    async def afford(self, request: InferenceRequest, more: Sequence[Message]) -> InferenceRequest:
        """Reserve budget for the next request; see `AnswerListener.afford`."""
        return request


Drive = Callable[[InferenceRequest, StreamListener], Awaitable[None]]


def drive_of(source: AnswerSource) -> Drive:
    """The function that requests an answer and has a listener read it."""
    # By attribute: an `isinstance` check against a Protocol would cost more than all the rest.
    drive: Drive | None = getattr(source, "drive", None)
    return drive if drive is not None else partial(_listen, source)


async def _listen(model: Any, request: InferenceRequest, listener: StreamListener) -> None:
    if listener.restored:
        await listener.start_over("this model cannot continue an answer")
    listener.asked = request
    await listener.listen(model.execute_stream(request))


def check_stream(stream: object) -> None:
    """Check that a model returned a stream; an `async def` without `yield` returns none.

    Raises:
        TypeError: `stream` is not an async iterator.
    """
    if not hasattr(stream, "__aiter__"):
        if isinstance(stream, Coroutine):
            stream.close()  # it is never awaited, and Python would warn of that much later
        raise TypeError(
            f"execute_stream of a model returned {type_of(stream)}: write it as an async "
            "generator, with yield"
        )


async def close(stream: object) -> None:
    """Close a stream at once, so that its connection is freed; plain iterators need no closing."""
    closing: Callable[[], Awaitable[None]] | None = getattr(stream, "aclose", None)
    if closing is not None:
        await closing()


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
