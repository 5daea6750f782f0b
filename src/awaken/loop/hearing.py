"""Listening to a model: its answer is put together while a client sees it come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from awaken.contract.accumulate import StreamAccumulator
from awaken.contract.llm import InferenceRequest, LlmStreamEvent
from awaken.contract.streams import StreamPiece
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
from awaken.loop.spending import add_costs, at_most, count, set_aside

KEPT_AT_LOOK = 4
"""At every which look what has come of an answer is kept: about once a second."""
_NOTHING_KEPT: tuple[int, Mapping[str, int]] = (0, {})
_FORWARDED = frozenset({TextDelta, ReasoningDelta, ToolCallStart, ToolCallDelta})


class Hearing(StreamAccumulator):
    """What is heard of an answer; pieces a client wants to see are passed on as they come."""

    __slots__ = (
        "_asked",
        "_journal",
        "_kept",
        "_looks",
        "_number",
        "_passing_on",
        "_run",
        "cost",
        "model_id",
        "writing",
    )

    def __init__(self, run: LiveRun) -> None:
        super().__init__()
        self._run, self._journal = run, run.journal
        self.model_id: str | None = None
        self.cost: float | None = None
        self._asked = ""
        self._looks = self._number = 0
        self._passing_on = False
        self._kept = _NOTHING_KEPT
        self.writing: asyncio.Future[None] | None = None

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
                self._passing_on = True
                await journal.send(journal.envelope(event))  # type: ignore[arg-type]  # the forwarded ones are events
                self._passing_on = False

    def asking(self, model_id: str) -> None:
        """The next stream is that of a certain model of a pool."""
        self.model_id = model_id

    # -- for another process to go on with ----------------------------------------------------

    async def take_up(self, asked: str) -> None:
        """Begin an answer to a question; with what has come of it, if it was asked before."""
        self._asked = asked
        pieces, self._run.stream = self._run.stream, ()
        if not pieces:
            return
        self._journal.ends_stream = True
        if any((p.run_id, p.asked) != (self._run.identity.run_id, asked) for p in pieces):
            return
        if [piece.number for piece in pieces] != list(range(1, len(pieces) + 1)):
            return
        calls: dict[str, tuple[str, str]] = {}
        for id, name, written in (call for piece in pieces for call in piece.calls):
            calls[id] = (name, calls.get(id, ("", ""))[1] + written)
        text = "".join(piece.text for piece in pieces)
        self.restore(text, [(id, name, written) for id, (name, written) in calls.items()])
        if text:
            # Whoever listens now has heard nothing yet.
            await self._journal.tell(TextDelta(delta=text))

    def look(self) -> bool:
        """Called every now and then while a stream lasts; whether a client is waited for."""
        self._looks += 1
        if self._looks % KEPT_AT_LOOK == 0 and self._journal.keeps_pieces:
            self._keep()
        return self._passing_on

    def _keep(self) -> None:
        """Have what has come since the last time kept, unless that is still under way."""
        if self.writing is not None and not self.writing.done():
            return
        piece = self._piece()
        if piece is not None:
            self._number = piece.number
            self.writing = asyncio.ensure_future(self._write(piece))

    async def _write(self, piece: StreamPiece) -> None:
        if not await self._journal.keep_piece(piece):
            self._number = 0  # from the beginning again: there must be no hole in it

    def _piece(self) -> StreamPiece | None:
        said, written = self._kept if self._number else _NOTHING_KEPT
        text, calls = self.snapshot().text, self.written_calls()
        self._kept = (len(text), {id: len(arguments) for id, _, arguments in calls})
        news = [
            (id, name, arguments[written.get(id, 0) :])
            for id, name, arguments in calls
            if len(arguments) > written.get(id, -1)
        ]
        if len(text) == said and not news:
            return None
        return StreamPiece(
            run_id=self._run.identity.run_id,
            asked=self._asked,
            number=self._number + 1,
            text=text[said:],
            calls=tuple(news),
            at_ms=self._run.clock.now_ms(),
        )

    async def kept(self, writing: asyncio.Future[None]) -> None:
        """Wait for what is being kept: the next commit, which drops it, comes after it."""
        await asyncio.wait([writing])

    # -- when a stream has broken off ---------------------------------------------------------

    async def settle(self, cause: str) -> None:
        """No more will come: the calls that are whole are the answer."""
        await self._drop_calls(cause)
        self.end_with_calls()

    async def go_on(self, cause: str) -> None:
        """The next stream goes on after the text; a call that is not whole is dropped."""
        self._count()
        await self._drop_calls(cause)
        self.next_stream()
        self._number = 0

    async def start_over(self, cause: str) -> None:
        """The next stream is the whole answer."""
        await self._journal.tell(StreamReset(reason=cause))
        self._count()
        self.forget()
        self._number = 0

    async def afford(
        self, request: InferenceRequest, more: Sequence[Message]
    ) -> InferenceRequest | None:
        """Set aside what one more stream may take, and ask for no more than that."""
        try:
            await set_aside(self._run, *more)
        except BudgetExhausted:
            return None
        return at_most(self._run, request)

    async def _drop_calls(self, cause: str) -> None:
        for id, name in self.drop_unfinished():
            await self._journal.tell(ToolCallCancel(id=id, name=name, reason=cause))

    def _count(self) -> None:
        """Count what a stream that broke off took."""
        self.add_costs()
        if self._run.purse is not None and self.progress:
            count(self._run, self, self.model_id)

    def add_costs(self) -> None:
        """Add what the stream took to what the run took, as far as it says."""
        usage = self._usage
        if usage is None:
            return
        cost = add_costs(self._run, usage, self.model_id)
        if cost is not None:
            self.cost = cost + (self.cost or 0.0)


async def _close(stream: object) -> None:
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()
