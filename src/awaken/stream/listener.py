"""Listening to an answer, however many streams it takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from awaken.contract.llm import Asked, InferenceRequest, LlmStreamEvent
from awaken.domain.event import AgentEvent, StreamReset, ToolCallCancel
from awaken.domain.message import Message
from awaken.stream.accumulate import StreamAccumulator

GO_ON = (
    "Your answer was interrupted mid-stream; what you see above is all that arrived of it. Go on "
    "exactly where it stops, without repeating any of it and without a word about the interruption."
)
"""What a model is told whose answer broke off."""
UNSEEN: tuple[int, float, int] = (-1, 0.0, 0)


class StreamListener(StreamAccumulator):
    """Hears one answer out: usually one stream, more where one broke off.

    `task` is the one that listens, and `model_id` the model that speaks, if it is one of a pool;
    `seen` is how much had come when somebody last looked, since when that was all, and how often
    the task had been cancelled before. Whoever has to tell somebody of it, or to pay for it,
    inherits.
    """

    __slots__ = ("model_id", "seen", "task")

    def __init__(self, task: asyncio.Task[Any] | None = None) -> None:
        super().__init__()
        self.task = task
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

    def look(self) -> bool:
        """Called every now and then while a stream lasts; whether it is not the model that is
        waited for."""
        return False

    # -- when a stream has broken off ---------------------------------------------------------

    async def settle(self, cause: str) -> None:
        """No more will come: the calls that are whole are the answer."""
        await self._drop_calls(cause)
        self.end_with_calls()

    async def go_on(self, cause: str) -> None:
        """The next stream goes on after the text; a call that is not whole is dropped."""
        self.count()
        await self._drop_calls(cause)
        self.next_stream()

    async def start_over(self, cause: str) -> None:
        """The next stream is the whole answer."""
        await self.tell(StreamReset(reason=cause))
        self.count()
        self.forget()

    async def _drop_calls(self, cause: str) -> None:
        for id, name in self.drop_unfinished():
            await self.tell(ToolCallCancel(id=id, name=name, reason=cause))

    # -- for those who inherit ----------------------------------------------------------------

    @property
    def is_wanted(self) -> bool:
        """Whether it is worth asking again for an answer that was not had."""
        return True

    async def tell(self, event: AgentEvent) -> None:
        """What was heard before is to be heard otherwise."""

    def count(self, *, whole: bool = False) -> None:
        """Count what this stream took; one that is not whole broke off."""

    async def afford(self, request: InferenceRequest, more: Sequence[Message]) -> InferenceRequest:
        """One more request, with so much more in it than the first, as long as it may be.

        Raises:
            BudgetExhausted: there is not enough left for it.
        """
        return request


Drive = Callable[[InferenceRequest, StreamListener], Awaitable[None]]


def drive_of(asked: Asked) -> Drive:
    """How to have an answer listened to."""
    # Looked up once a step: whether it fits a protocol would take longer than all the rest.
    drive: Drive | None = getattr(asked, "drive", None)
    return drive if drive is not None else partial(_listen, asked)


async def _listen(model: Any, request: InferenceRequest, listener: StreamListener) -> None:
    if listener.restored:
        await listener.start_over("nobody goes on with it")
    await listener.listen(model.execute_stream(request))


def check_stream(stream: object) -> None:
    """
    Raises:
        TypeError: it is none; what was written as `async def` and has no `yield` gives no stream.
    """
    if not hasattr(stream, "__aiter__"):
        raise TypeError(
            f"execute_stream of a model gave a {type(stream).__name__}: write it as an async "
            "generator, with yield"
        )


async def close(stream: object) -> None:
    """Release what a stream holds now; plain iterators hold nothing."""
    closing: Callable[[], Awaitable[None]] | None = getattr(stream, "aclose", None)
    if closing is not None:
        await closing()
