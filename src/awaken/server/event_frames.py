"""Events as `/v1` sends them, and the cursors with which clients reconnect.

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
from awaken.server.client_ids import ClientIds
from awaken.server.errors import HttpRefusal

_CURSOR = re.compile(r"(\d{1,15})(?:\.(\d{1,15})\.(\d{1,15}))?", re.ASCII)


class Cursor(NamedTuple):
    """The event behind which a client continues.

    `seq` is the number of the last durable event that the client has received. A cursor is written
    as `<seq>`, or as `<seq>.<epoch>.<n>` if the client has received events after it that are not
    stored; `live` is the position of the last of those.
    """

    seq: int
    live: tuple[int, int] | None = None

    def __str__(self) -> str:
        return str(self.seq) if self.live is None else f"{self.seq}.{self.live[0]}.{self.live[1]}"

    @classmethod
    def read(cls, text: str) -> Self:
        """
        Raises:
            HttpRefusal: it is not a cursor.
        """
        found = _CURSOR.fullmatch(text.strip())
        if found is None:
            raise HttpRefusal(
                400,
                "bad_cursor",
                "this is no cursor: give the `id` of the last event that you have, or 0",
            )
        seq, epoch, n = found.groups()
        return cls(int(seq), (int(epoch), int(n)) if epoch is not None else None)


RETRY = b"retry: 1000\n\n"
"""Makes browsers reconnect after 1000 milliseconds."""
_TEXT = b"id: %d.%d.%d\nevent: text_delta\ndata: %b\n\n"


class EventFrames:
    """The encoder of `/v1`: its chunks are frames.

    Events of the threads of delegates and tasks have no id: a client that reconnects continues
    behind the last event of the followed thread itself.

    Args:
        run_id: leave out events of other runs of the thread.
        deltas: false leaves out events that are not durable.
    """

    def __init__(
        self,
        thread_id: str,
        after: int,
        ids: ClientIds,
        *,
        run_id: str | None = None,
        deltas: bool = True,
    ) -> None:
        self._thread_id, self._ids = thread_id, ids
        self._run_id, self._deltas = run_id, deltas
        self._takes_all = run_id is None and deltas
        self._is_plain = not ids.scope
        self._position = Position(after)

    def start(self) -> list[bytes]:
        return [RETRY]

    def encode(self, event: RunEvent) -> Sequence[bytes]:
        if event.thread_id != self._thread_id:
            return (self._frame(event, b""),) if self._is_wanted(event) else ()
        position = self._position
        live = event.live
        if live is not None and self._takes_all and type(event.event) is TextDelta:
            # Most events are of this kind: every line here runs thousands of times for each client.
            position.has_unstored, seq = True, position.seq
            frame = SHARED.find(event, seq, True)
            if frame is None:
                data = dumps(event if self._is_plain else self._ids.event(event))
                frame = (_TEXT % (seq, live[0], live[1], data),)
                SHARED.add(event, seq, True, frame)
            return frame
        position.advance(event)
        if not (self._takes_all or self._is_wanted(event)):
            return ()
        if live is None:
            return (self._own_frame(event),)
        frame = SHARED.find(event, position.seq, position.has_unstored)
        if frame is None:
            frame = (self._own_frame(event),)
            SHARED.add(event, position.seq, position.has_unstored, frame)
        return frame

    def finish(self) -> list[bytes]:
        return []

    def _is_wanted(self, event: RunEvent) -> bool:
        is_ours = event.thread_id != self._thread_id or event.run_id in (self._run_id, "")
        if self._run_id is not None and not is_ours:
            return False
        return self._deltas or event.seq is not None or _matters_without_deltas(event)

    def _own_frame(self, event: RunEvent) -> bytes:
        return self._frame(event, b"id: %b\n" % str(self._position.cursor(event)).encode())

    def _frame(self, event: RunEvent, id_line: bytes) -> bytes:
        kind: Any = event.event.__struct_config__.tag
        data = dumps(self._ids.event(event))
        return b"%bevent: %b\ndata: %b\n\n" % (id_line, kind.encode(), data)


def _matters_without_deltas(event: RunEvent) -> bool:
    """Whether a client that reads durable events alone also needs an event that is not in the log:
    one that voids durable events, or ends a run that has no durable end."""
    return getattr(event.event, "from_seq", None) is not None or is_terminal(event.event)


MAX_SHARED = 2_000
MAX_SHARED_BYTES = 4 * 1024


class SharedFrames:
    """Caches the frames of the latest live events: clients of this process at the same position
    share a frame."""

    __slots__ = ("_frames",)

    def __init__(self) -> None:
        self._frames: dict[int, tuple[RunEvent, int, bool, tuple[bytes]]] = {}

    def find(self, event: RunEvent, seq: int, has_unstored: bool) -> tuple[bytes] | None:
        """The frame of an event for a client at this position; `None` if it is not cached."""
        entry = self._frames.get(id(event))
        if (
            entry is None
            or entry[0] is not event
            or entry[1] != seq
            or entry[2] is not has_unstored
        ):
            return None
        return entry[3]

    def add(self, event: RunEvent, seq: int, has_unstored: bool, frame: tuple[bytes]) -> None:
        if len(frame[0]) > MAX_SHARED_BYTES:
            return
        if len(self._frames) >= MAX_SHARED:
            self._frames.clear()
        # The cache holds the event as well: else another object could get its id.
        self._frames[id(event)] = (event, seq, has_unstored, frame)


SHARED = SharedFrames()
_OF_AN_ANSWER = (ReasoningDelta, ToolCallStart, ToolCallDelta, StepSnapshot)


class Position:
    """The position of one client in the events of a thread.

    `seq` is the number of the last durable event that the client has received. `has_unstored` is
    true if it has received more: an event that was sent ahead of its commit, or a part of an answer
    that is not stored.
    """

    __slots__ = ("_ahead", "_is_stored", "has_unstored", "seq")

    def __init__(self, seq: int) -> None:
        self.seq, self.has_unstored = seq, False
        self._ahead = 0
        # Whether the latest step start was read from the log: then the log has its answer, too.
        self._is_stored = False

    def advance(self, event: RunEvent) -> None:
        """Update the position: the client receives this event."""
        kind, seq = event.event, event.seq
        if type(kind) is TextDelta or (seq is None and isinstance(kind, _OF_AN_ANSWER)):
            self.has_unstored = event.live is not None or not self._is_stored
        elif seq is None:
            if isinstance(kind, StreamReset):
                if kind.from_seq is not None:
                    self._ahead = 0
                self.has_unstored = self._ahead > self.seq
        elif event.ahead:
            self._ahead, self.has_unstored = seq, True
        else:
            self.seq = seq
            if isinstance(kind, StepStart):
                self._is_stored = event.live is None
            elif not isinstance(kind, ToolCallReady | ToolCallCancel):
                self.has_unstored = self._ahead > seq
                self._is_stored = False

    def cursor(self, event: RunEvent) -> Cursor:
        """The cursor of a client that received this event last."""
        if not self.has_unstored:
            return Cursor(self.seq)
        return Cursor(self.seq, event.live or (0, 0))
