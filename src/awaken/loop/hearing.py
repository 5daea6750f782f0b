"""Listening to a model: its answer is put together while a client sees it come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from awaken.contract.accumulate import StreamAccumulator
from awaken.contract.llm import LlmStreamEvent
from awaken.domain.event import (
    ReasoningDelta,
    StreamReset,
    TextDelta,
    ToolCallCancel,
    ToolCallDelta,
    ToolCallStart,
)
from awaken.domain.message import Message
from awaken.errors import BudgetExhausted
from awaken.loop.live import LiveRun
from awaken.loop.spending import count, set_aside

_FORWARDED = frozenset({TextDelta, ReasoningDelta, ToolCallStart, ToolCallDelta})


class Hearing(StreamAccumulator):
    """What is heard of an answer; pieces a client wants to see are passed on as they come."""

    __slots__ = ("_journal", "_run", "model_id")

    def __init__(self, run: LiveRun) -> None:
        super().__init__()
        self._run, self._journal = run, run.journal
        self.model_id: str | None = None

    async def listen(self, stream: AsyncIterator[LlmStreamEvent]) -> None:
        """Read a stream to its end, or close it."""
        drained = False
        try:
            if self._journal.live:
                await self._forward(stream)
            else:
                async for event in stream:
                    self.push(event)
            drained = True
        finally:
            if not drained:
                await _close(stream)

    async def _forward(self, stream: AsyncIterator[LlmStreamEvent]) -> None:
        push, journal = self.push, self._journal
        async for event in stream:
            push(event)
            if type(event) in _FORWARDED and journal.live:
                await journal.send(journal.envelope(event))  # type: ignore[arg-type]  # the forwarded ones are events

    def asking(self, model_id: str) -> None:
        """The next stream is that of a certain model of a pool."""
        self.model_id = model_id

    def look(self) -> None:
        """Called every now and then while a stream lasts."""

    # -- when a stream has broken off ---------------------------------------------------------

    async def settle(self, cause: str) -> None:
        """No more will come: the calls that are whole are the answer."""
        await self._drop_calls(cause)
        self.end_with_calls()

    async def go_on(self, cause: str) -> None:
        """The next stream goes on after the text; a call that is not whole is dropped."""
        await self._drop_calls(cause)
        self._count()
        self.next_stream()

    async def start_over(self, cause: str) -> None:
        """The next stream is the whole answer."""
        await self._journal.tell(StreamReset(reason=cause))
        self._count()
        self.forget()

    async def can_afford(self, more: Sequence[Message]) -> bool:
        """Set aside what one more stream may take; false if there is not so much left."""
        try:
            await set_aside(self._run, *more)
        except BudgetExhausted:
            return False
        return True

    async def _drop_calls(self, cause: str) -> None:
        for id, name in self.drop_unfinished():
            await self._journal.tell(ToolCallCancel(id=id, name=name, reason=cause))

    def _count(self) -> None:
        """Count what a stream that broke off took."""
        if self._run.purse is not None and self.progress:
            count(self._run, self.this_stream())


async def _close(stream: object) -> None:
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()
