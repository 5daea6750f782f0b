"""The calls of one step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from awaken.core.message import Message, ToolCall
from awaken.core.state.call_keys import ToolCallState
from awaken.core.store.commits import call_key
from awaken.engine.live_run import LiveRun

_LOGGED: Any = object()
_NONE_LEFT: frozenset[int] = frozenset()


class StepCalls:
    """The calls of one assistant message, and which of them have ended or are suspended.

    It is `late` if it is finished after a crash. Later messages may follow it in the log, so the
    model is shown its results beside their calls. `started` says when a call was started, with
    `None` if another process started it.
    """

    __slots__ = (
        "_ended",
        "_logged",
        "blocked",
        "calls",
        "keys",
        "late",
        "left",
        "message_id",
        "resumed",
        "started",
        "suspended",
        "writers",
    )

    def __init__(
        self, message_id: str, calls: Sequence[ToolCall], resumed: dict[int, ToolCallState]
    ) -> None:
        self.message_id = message_id
        self.calls = calls
        self.keys = (
            [call_key(message_id, 0)]  # the most frequent case
            if len(calls) == 1
            else [call_key(message_id, index) for index in range(len(calls))]
        )
        self.resumed = resumed
        self.blocked: str | None = None
        self.late = False
        self.left = _NONE_LEFT
        self.suspended = 0
        self.started: dict[int, int | None] = {}
        self.writers: dict[str, str] = {}
        self._ended: dict[int, Message | None] = {}
        self._logged = 0

    def note_started(self, indexes: Iterable[int]) -> None:
        """Note that calls were started, if not by this process then by another one."""
        for index in indexes:
            self.started.setdefault(index)

    def end(self, run: LiveRun, index: int, message: Message | None) -> Message | None:
        """Record that a call ended with `message`, or with `None` that it is suspended, and log
        the results that can be logged now.

        Returns the message if it is held back until an earlier call ends, else `None`.
        """
        self._ended[index] = message
        if message is None:
            self.suspended += 1
        if index in self.resumed:
            if message is not None:
                run.transcript.answer(self.calls[index].id, message)
            return None
        self.log(run)
        return message if index >= self._logged else None

    def log(self, run: LiveRun) -> None:
        """Log the results in call order, up to the first call that is still open."""
        at, ended = self._logged, self._ended
        while at in ended:
            ready = ended[at]
            if ready is not None and ready is not _LOGGED:
                if self.late:
                    run.transcript.answer(self.calls[at].id, ready)
                else:
                    run.transcript.append(ready)
            at += 1
        self._logged = at

    def restore(self, index: int, message: Message | None, *, logged: bool = False) -> None:
        """Restore a call after a crash: it ended with `message`, or with `None` it is suspended.
        With `logged` its result is in the log already."""
        self._ended[index] = _LOGGED if logged else message
        if message is None:
            self.suspended += 1

    @property
    def has_held(self) -> bool:
        """Whether a result is held back until an earlier call ends."""
        return any(
            isinstance(message, Message) and index >= self._logged
            for index, message in self._ended.items()
        )

    def is_open(self, index: int) -> bool:
        return index not in self._ended

    def is_suspended(self, index: int) -> bool:
        return self._ended.get(index, _LOGGED) is None

    def client_message_id(self, index: int) -> str | None:
        """The id that the client which answered a suspended call has given its tool message."""
        call = self.resumed.get(index)
        answer = call.resume_input if call is not None else None
        return answer.message_id if answer is not None else None

    def awaits(self, indexes: Iterable[int]) -> bool:
        """Whether one of the calls is still running in this process."""
        return any(index not in self._ended and index not in self.left for index in indexes)

    def open_calls(self) -> list[int]:
        return [index for index in range(len(self.calls)) if index not in self._ended]
