"""Rows of a store that this version of awaken cannot read."""

from __future__ import annotations

from enum import StrEnum

from awaken.core.value import Value


class RowKind(StrEnum):
    """What a row of a store holds. The row of a `thread` is its metadata: title, labels and user. A
    `deed` is a row of the audit."""

    THREAD = "thread"
    RUN = "run"
    TICKET = "ticket"
    COMMAND = "command"
    COMMIT = "commit"
    SNAPSHOT = "snapshot"
    STREAM = "stream"
    PROFILE = "profile"
    KEY = "key"
    SESSION = "session"
    DEED = "deed"


class UnreadableRow(Value, frozen=True, kw_only=True):
    """A row that a list leaves out, or that a check of the store has found.

    `id` is the id of the thread, run, command or key, the key of a ticket, the number of a deed, or
    the position of a commit in its thread; `reason` says what is wrong in the row.
    """

    kind: RowKind
    id: str
    reason: str
    thread_id: str | None = None

    @property
    def name(self) -> str:
        """The row in words, such as "commit 3 of thread t"."""
        if self.thread_id is None or self.kind is RowKind.THREAD:
            return f"{self.kind} {self.id}"
        return f"{self.kind} {self.id} of thread {self.thread_id}"
