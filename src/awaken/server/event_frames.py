"""Events as `/v1` sends them, and the cursors with which clients come back.

A frame has an id, the kind of the event, and the event as JSON. The id is a cursor; to clients it
is opaque.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from awaken.codec import dumps
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
    is_terminal,
)
from awaken.server.client_ids import Names
from awaken.server.errors import Refused

_CURSOR = re.compile(r"(\d{1,15})(?:\.(\d{1,15})\.(\d{1,15}))?", re.ASCII)


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


RETRY = b"retry: 1000\n\n"
"""Says after how many milliseconds a browser comes back."""
_TEXT = b"id: %d.%d.%d\nevent: text_delta\ndata: %b\n\n"


class EventFrames:
    """The encoder of `/v1`: its chunks are frames.

    Events of threads beneath the followed one have no id: a client that comes back goes on behind
    the last event of the thread itself.

    Args:
        run_id: leaves out what other runs of the thread tell.
        deltas: false leaves out what is not durable.
    """

    def __init__(
        self,
        thread_id: str,
        after: int,
        names: Names,
        *,
        run_id: str | None = None,
        deltas: bool = True,
    ) -> None:
        self._thread_id, self._names = thread_id, names
        self._run_id, self._deltas = run_id, deltas
        self._takes_all = run_id is None and deltas
        self._is_plain = not names.scope
        self._position = Position(after)

    def start(self) -> list[bytes]:
        return [RETRY]

    def encode(self, event: RunEvent) -> Sequence[bytes]:
        if event.thread_id != self._thread_id:
            return (self._frame(event, b""),) if self._is_wanted(event) else ()
        position = self._position
        live = event.live
        if live is not None and self._takes_all and type(event.event) is TextDelta:
            # Most events. What is done here for one client is done for thousands of pieces.
            position.is_loose, seq = True, position.seq
            frame = SHARED.find(event, seq, True)
            if frame is None:
                data = dumps(event if self._is_plain else self._names.event(event))
                frame = (_TEXT % (seq, live[0], live[1], data),)
                SHARED.keep(event, seq, True, frame)
            return frame
        position.take(event)
        if not (self._takes_all or self._is_wanted(event)):
            return ()
        if live is None:
            return (self._own_frame(event),)
        frame = SHARED.find(event, position.seq, position.is_loose)
        if frame is None:
            frame = (self._own_frame(event),)
            SHARED.keep(event, position.seq, position.is_loose, frame)
        return frame

    def finish(self) -> list[bytes]:
        return []

    def _is_wanted(self, event: RunEvent) -> bool:
        is_ours = event.thread_id != self._thread_id or event.run_id in (self._run_id, "")
        if self._run_id is not None and not is_ours:
            return False
        return self._deltas or event.seq is not None or _is_kept(event)

    def _own_frame(self, event: RunEvent) -> bytes:
        return self._frame(event, b"id: %b\n" % str(self._position.cursor(event)).encode())

    def _frame(self, event: RunEvent, id_line: bytes) -> bytes:
        kind: Any = event.event.__struct_config__.tag
        data = dumps(self._names.event(event))
        return b"%bevent: %b\ndata: %b\n\n" % (id_line, kind.encode(), data)


def _is_kept(event: RunEvent) -> bool:
    """Whether an event that is not in the log matters to a client that reads only what is: it voids
    durable events, or ends a run that has none."""
    return getattr(event.event, "from_seq", None) is not None or is_terminal(event.event)


MOST_SHARED = 2_000
LARGEST_SHARED = 4 * 1024


class SharedFrames:
    """The frames of the latest live events: each is made once for all clients of a process that
    stand at the same position."""

    __slots__ = ("_frames",)

    def __init__(self) -> None:
        self._frames: dict[int, tuple[RunEvent, int, bool, tuple[bytes]]] = {}

    def find(self, event: RunEvent, seq: int, is_loose: bool) -> tuple[bytes] | None:
        """The frame of this very event, for a client with this position."""
        known = self._frames.get(id(event))
        if known is None or known[0] is not event or known[1] != seq or known[2] is not is_loose:
            return None
        return known[3]

    def keep(self, event: RunEvent, seq: int, is_loose: bool, frame: tuple[bytes]) -> None:
        if len(frame[0]) > LARGEST_SHARED:
            return
        if len(self._frames) >= MOST_SHARED:
            self._frames.clear()
        # The event is kept, too, so that no other object can get its id.
        self._frames[id(event)] = (event, seq, is_loose, frame)


SHARED = SharedFrames()
_OF_AN_ANSWER = (ReasoningDelta, ToolCallStart, ToolCallDelta, StepSnapshot)


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
