"""A reader of events, as a client would be: it keeps what it was given, and checks the order."""

from __future__ import annotations

import asyncio

from awaken.core.event import (
    ReasoningDelta,
    RunEvent,
    StepSnapshot,
    StepStart,
    StreamReset,
    TextDelta,
    ToolCallCancel,
    ToolCallDelta,
    ToolCallStart,
    is_terminal,
)

_PIECES = (TextDelta, ReasoningDelta, ToolCallStart, ToolCallDelta)


class Reader:
    """Keeps durable events by their `seq`, and what it has of each answer by its message id."""

    def __init__(self, after: int = 0) -> None:
        self.cursor = after
        self.durable: dict[int, RunEvent] = {}
        self.texts: dict[str, str] = {}
        self.reasoning: dict[str, str] = {}
        self.calls: dict[str, dict[str, str]] = {}
        self._ahead: set[int] = set()
        self._answer = ""
        self.news = asyncio.Event()

    def read(self, event: RunEvent) -> None:
        assert not event.again, "a follower tells nothing twice"
        if event.seq is not None:
            self._place(event, event.seq)
        self._take(event)
        self.news.set()

    @property
    def has_ended(self) -> bool:
        """Whether the last durable event that it has ends a run."""
        last = max(self.durable, default=0)
        return last > 0 and is_terminal(self.durable[last].event)

    @property
    def size(self) -> int:
        """How much of answers it has: text, reasoning and arguments."""
        texts = (*self.texts.values(), *self.reasoning.values())
        return sum(map(len, texts)) + sum(len(a) for c in self.calls.values() for a in c.values())

    def _place(self, event: RunEvent, seq: int) -> None:
        assert seq not in self.durable, f"{seq} came twice"
        expected = max(self.durable, default=self.cursor) + 1
        assert seq == expected, f"{seq} came where {expected} was due"
        self.durable[seq] = event
        if event.ahead:
            self._ahead.add(seq)
        else:
            self._ahead.clear()
            self.cursor = seq

    def _take(self, event: RunEvent) -> None:
        if isinstance(event.event, _PIECES):
            assert self._answer, f"{event.event} came before the beginning of its answer"
        match event.event:
            case StepStart(message_id=message_id):
                self._begin(message_id)
            case StepSnapshot() as whole:
                self._begin(whole.message_id)
                self.texts[self._answer] = whole.text
                self.reasoning[self._answer] = whole.reasoning
                self.calls[self._answer] = {id: written for id, _, written in whole.calls}
            case TextDelta(delta=delta):
                self.texts[self._answer] += delta
            case ReasoningDelta(delta=delta):
                self.reasoning[self._answer] += delta
            case ToolCallStart(id=id):
                self.calls[self._answer][id] = ""
            case ToolCallDelta(id=id, args_delta=delta):
                self.calls[self._answer][id] += delta
            case ToolCallCancel(id=id):
                self.calls[self._answer].pop(id, None)
            case StreamReset(from_seq=first):
                self._forget(first)

    def _begin(self, message_id: str) -> None:
        self._answer = message_id
        self.texts.setdefault(message_id, "")
        self.reasoning.setdefault(message_id, "")
        self.calls.setdefault(message_id, {})

    def _forget(self, first: int | None) -> None:
        self.texts[self._answer] = self.reasoning[self._answer] = ""
        self.calls[self._answer] = {}
        if first is not None:
            for seq in [seq for seq in self.durable if seq >= first]:
                assert seq in self._ahead, "what is stored cannot be taken back"
                del self.durable[seq]
                self._ahead.discard(seq)
