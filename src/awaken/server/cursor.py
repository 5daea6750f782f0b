"""Cursors: where a client's stream goes on. Clients treat them as opaque."""

from __future__ import annotations

import re
from typing import NamedTuple, Self

from awaken.core.event import (
    ReasoningDelta,
    RunEvent,
    StepSnapshot,
    StepStart,
    StreamReset,
    TextDelta,
    ToolCallCancel,
    ToolCallDelta,
    ToolCallReady,
    ToolCallStart,
)
from awaken.server.errors import Refused

_CURSOR = re.compile(r"(\d{1,15})(?:\.(\d{1,15})\.(\d{1,15}))?", re.ASCII)
_OF_AN_ANSWER = (ReasoningDelta, ToolCallStart, ToolCallDelta, StepSnapshot)


class Cursor(NamedTuple):
    """Behind which event a client goes on.

    `seq` is the last durable event that it has for good. It is written as `<seq>`, or as
    `<seq>.<epoch>.<n>` if the client has got events since then that are not stored; `live` is the
    place of the last of them.
    """

    seq: int
    live: tuple[int, int] | None = None

    def __str__(self) -> str:
        return str(self.seq) if self.live is None else f"{self.seq}.{self.live[0]}.{self.live[1]}"

    @classmethod
    def read(cls, text: str) -> Self:
        """
        Raises:
            Refused: it is not a cursor.
        """
        found = _CURSOR.fullmatch(text.strip())
        if found is None:
            raise Refused(
                400,
                "bad_cursor",
                "this is no cursor: give the `id` of the last event that you have, or 0",
            )
        seq, epoch, n = found.groups()
        return cls(int(seq), (int(epoch), int(n)) if epoch is not None else None)


class Position:
    """Where one client stands, from the events that it is given.

    `seq` is the last durable event that it has for good. `is_loose` says that it has got more: an
    event that was sent ahead of its commit, or a part of an answer that is not stored.
    """

    __slots__ = ("_ahead", "_is_stored", "is_loose", "seq")

    def __init__(self, seq: int) -> None:
        self.seq, self.is_loose = seq, False
        self._ahead = 0
        # Whether the step that began last was read from the log, where its answer is, too.
        self._is_stored = False

    def take(self, event: RunEvent) -> None:
        """Note that the client is given an event."""
        kind, seq = event.event, event.seq
        if type(kind) is TextDelta or (seq is None and isinstance(kind, _OF_AN_ANSWER)):
            self.is_loose = event.live is not None or not self._is_stored
        elif seq is None:
            if isinstance(kind, StreamReset):
                if kind.from_seq is not None:
                    self._ahead = 0
                self.is_loose = self._ahead > self.seq
        elif event.ahead:
            self._ahead, self.is_loose = seq, True
        else:
            self.seq = seq
            if isinstance(kind, StepStart):
                self._is_stored = event.live is None
            elif not isinstance(kind, ToolCallReady | ToolCallCancel):
                self.is_loose = self._ahead > seq
                self._is_stored = False

    def cursor(self, event: RunEvent) -> Cursor:
        """The cursor of a client that was given this event last."""
        if not self.is_loose:
            return Cursor(self.seq)
        return Cursor(self.seq, event.live or (0, 0))
