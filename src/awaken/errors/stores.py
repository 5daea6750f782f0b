"""Errors of stores and of blobs."""

from __future__ import annotations

from awaken.errors.base import AwakenError


class StoreError(AwakenError):
    """A store refused or failed."""


class VersionConflict(StoreError):
    """A thread or entry has another version than the writer expected: read it again."""

    def __init__(self, thread_id: str, *, expected: int, actual: int) -> None:
        super().__init__(f"version conflict: expected {expected}, actual {actual}")
        self.thread_id, self.expected, self.actual = thread_id, expected, actual


class StaleFence(StoreError):
    """Another process owns the thread now."""

    def __init__(self, thread_id: str, *, epoch: int, current: int) -> None:
        super().__init__(
            f"thread {thread_id!r} is at epoch {current}, this writer's claim has epoch {epoch}: "
            "stop writing, another owner has claimed the thread"
        )
        self.thread_id, self.epoch, self.current = thread_id, epoch, current


class ThreadOwned(StoreError):
    """The thread has a live owner."""

    def __init__(self, thread_id: str, owner: str) -> None:
        super().__init__(
            f"thread {thread_id!r} is owned by {owner}, which is alive: wait until it releases "
            "the thread, or send a command"
        )
        self.thread_id, self.owner = thread_id, owner


class ThreadBusy(ThreadOwned):
    """A submission, or a rewind, was refused because a run of its thread is open or waits to
    start."""

    def __init__(self, thread_id: str, run_id: str) -> None:
        StoreError.__init__(
            self,
            f"run {run_id!r} of thread {thread_id!r} has not ended: wait for its end, submit with "
            "mode 'interrupt', or, unless the thread is to be rewound, with 'queue' or 'steer'",
        )
        self.thread_id, self.owner, self.run_id = thread_id, "", run_id


class LeaseLost(StoreError):
    """This node lost its lease and did not regain it in time; its runs are left to other nodes."""

    def __init__(self, owner: str, seconds: float) -> None:
        super().__init__(
            f"{owner} has had no lease for {seconds:g} seconds: its runs are left to other nodes; "
            "see whether the store can be reached"
        )
        self.owner, self.seconds = owner, seconds


class KeyReused(StoreError):
    """The key of a submission belongs to another submission of the thread."""

    def __init__(self, thread_id: str, key: str) -> None:
        super().__init__(
            f"key {key!r} was used for another submission to thread {thread_id!r}: give each "
            "submission its own key, and the same key only to a repetition"
        )
        self.thread_id, self.key = thread_id, key


class ThreadDeleted(StoreError):
    """A submission names a thread that was deleted."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(f"thread {thread_id!r} was deleted: submit to another thread")
        self.thread_id = thread_id


class RewindRefused(StoreError):
    """A thread cannot be rewound to before a message: the log does not have it, or it is out of
    view already. Nothing was changed."""

    def __init__(self, thread_id: str, message_id: str, *, is_hidden: bool) -> None:
        wrong = "was rewound already" if is_hidden else "is not in its log"
        super().__init__(
            f"thread {thread_id!r} cannot be rewound to before message {message_id!r}, which "
            f"{wrong}: read the thread's messages and name one of them"
        )
        self.thread_id, self.message_id, self.is_hidden = thread_id, message_id, is_hidden


class RunOpen(StoreError):
    """A thread cannot be deleted because of an open run."""

    def __init__(self, thread_id: str, run_id: str, *, of: str) -> None:
        where = "" if of == thread_id else f" of thread {of!r}"
        super().__init__(
            f"thread {thread_id!r} cannot be deleted while run {run_id!r}{where} is open: "
            "cancel that run or let it end first; if no worker can end it any more (its agent is "
            "no longer registered, say), delete the thread with force=True"
        )
        self.thread_id, self.run_id = thread_id, run_id


class DecisionRefused(StoreError):
    """An answer cannot be taken: no ticket matches, or it is stale, expired or answered."""

    def __init__(self, target: str, why: str) -> None:
        super().__init__(f"the answer to {target!r} was refused: {why}")
        self.target, self.why = target, why


class StoreUnavailable(StoreError):
    """The file, disk or server of a store cannot be used; the message says why and what to do."""


class CommitUnknown(StoreError):
    """The answer was lost: the commit may or may not be written. Read before retrying."""

    def __init__(self, why: object) -> None:
        super().__init__(f"commit outcome unknown: {why}")


class NotFound(StoreError):
    """There is no such thread, run or entry."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} {name!r} does not exist")
        self.kind, self.name = kind, name


class RequestNotKept(StoreError):
    """There is no record of what a model was asked for a message."""

    def __init__(self, thread_id: str, message_id: str) -> None:
        super().__init__(
            f"the request for message {message_id!r} of thread {thread_id!r} was not kept: the "
            "message is no model's answer, or it was made with keep_requests=False or by an "
            "earlier version"
        )
        self.thread_id, self.message_id = thread_id, message_id


class TextGone(StoreError):
    """A text that a kept request refers to is not in the store any more."""

    def __init__(self, thread_id: str, digest: str) -> None:
        super().__init__(
            f"text {digest} of thread {thread_id!r} is gone: the request cannot be built again"
        )
        self.thread_id, self.digest = thread_id, digest


class InvalidCursor(StoreError):
    """A reader wants to go on behind an event that its thread does not have."""

    def __init__(self, thread_id: str, cursor: int, last: int) -> None:
        super().__init__(
            f"thread {thread_id!r} has no event {cursor}: its last one is {last}. Go on from the "
            "last event that was read, or from 0"
        )
        self.thread_id, self.cursor, self.last = thread_id, cursor, last


class AlreadyExists(StoreError):
    """There already is a thread, run or entry with that name."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} {name!r} already exists")
        self.kind, self.name = kind, name


class InvalidRecord(StoreError):
    """A record breaks a rule of the store."""


class Serialization(StoreError):
    """A value cannot be encoded, or stored data cannot be decoded."""


class UnreadableRecord(Serialization):
    """A stored row cannot be decoded by this version of awaken.

    `kind` and `name` say which row, and `thread_id` its thread, if it has one and that is known.
    For a commit, `messages` are the positions in the log of its first and its last message.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        reason: str,
        *,
        thread_id: str | None = None,
        messages: tuple[int, int] | None = None,
    ) -> None:
        where = f" of thread {thread_id!r}" if thread_id not in (None, name) else ""
        shown = name if kind == "commit" else repr(name)
        super().__init__(
            f"{kind} {shown}{where} cannot be read ({reason}): `awaken db check` lists all such "
            "rows, and says which of them it can mend"
        )
        self.kind, self.name, self.reason = kind, name, reason
        self.thread_id, self.messages = thread_id, messages


class UnreadableValue(Serialization):
    """A value was not written, since it could not be read back: a part of it has a wrong type."""

    def __init__(self, what: str, why: object) -> None:
        super().__init__(
            f"{what} was not written, since it could not be read back: {why}. A plugin, hook or "
            "store key has made a value of a wrong type: give it the type that is expected"
        )
        self.what = what


class CommitTooLarge(InvalidRecord):
    """The row of a commit would be too large; `parts` are the largest parts and their sizes."""

    def __init__(
        self, thread_id: str, *, size: int, limit: int, parts: tuple[tuple[str, int], ...]
    ) -> None:
        named = ", ".join(f"{name} has {length}" for name, length in parts)
        super().__init__(
            f"a commit to thread {thread_id!r} has {size} bytes, more than {limit}: {named}. "
            "Send less at a time; keep files and other large values in blobs, and only their ids "
            "in messages and state"
        )
        self.thread_id, self.size, self.limit, self.parts = thread_id, size, limit, parts


# -- blobs ------------------------------------------------------------------------------------


class BlobError(StoreError):
    """A blob cannot be read."""

    def __init__(self, id: str, why: str) -> None:
        super().__init__(f"blob {id[:64]!r} {why}")
        self.id = id


class BlobNotFound(BlobError):
    """The scope has no blob with that id.

    A deleted blob, one of another scope and one that never was give the same error: a caller
    learns nothing about other scopes.
    """

    def __init__(self, id: str) -> None:
        super().__init__(id, "does not exist: it was deleted, or belongs to another scope")


class BlobDamaged(BlobError):
    """The stored bytes of a blob are not those that were put."""

    def __init__(self, id: str, why: str) -> None:
        super().__init__(id, f"is damaged: {why}: restore it from a backup, or put it again")


class BlobRangeBeyondEnd(BlobError):
    """A range of a blob was asked for that begins behind its end, or ends before it begins."""

    def __init__(self, id: str, *, start: int, stop: int | None, size: int) -> None:
        span = f"{start}-{'' if stop is None else stop}"
        super().__init__(id, f"has {size} bytes: there is no range {span} in it")
        self.start, self.stop, self.size = start, stop, size
