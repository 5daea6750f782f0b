"""The one door to durable state."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol

import msgspec

from awaken.codec import Json
from awaken.contract.commands import ThreadCommand
from awaken.contract.streams import StreamPiece
from awaken.domain.event import RunEvent
from awaken.domain.message import Message
from awaken.domain.run import RunRecord
from awaken.domain.ticket import Ticket
from awaken.domain.value import Value


class CallPhase(StrEnum):
    """What the ledger knows of a call.

    `intent` may have started, and has no outcome yet; `cancelled` was stopped because its run was.
    """

    INTENT = "intent"
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"


class CallEntry(Value, frozen=True, kw_only=True):
    """A line of the call ledger: keyed by the assistant message and the call's index in it.

    A call without a line never started. `held` is the result of a call that ended before an
    earlier one of its message did: it enters the log behind that one. `stopped` says of a call
    whose outcome is unknown that at least it does not go on.
    """

    key: str
    run_id: str
    call_id: str
    tool_name: str
    phase: CallPhase
    arguments: Json = None
    held: Message | None = None
    stopped: bool = False


def has_outcomes(calls: Iterable[CallEntry]) -> bool:
    """Whether one of these lines tells how a call ended, or that it waits."""
    return any(entry.phase is not CallPhase.INTENT for entry in calls)


def call_key(message_id: str, index: int) -> str:
    """The stable name of a call; provider call ids repeat, this does not."""
    return f"{message_id}:{index}"


def child_id(key: str) -> str:
    """The run, and thread, of the delegate that a call of that key has asked for."""
    return f"child-{key}"


class Fence(Value, frozen=True, kw_only=True):
    """Who may write the thread now: the owner that took it last.

    `taken_from` names the owner before it if that one died with the thread; it is `None` for a
    thread that was free, because its last owner gave it up or it never had one.
    """

    thread_id: str
    owner: str
    epoch: int
    taken_from: str | None = None


class ThreadCommit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Everything that becomes true at once.

    `messages` follow the `expected_length` messages already there. State is given as JSON text of
    the keys that changed. Events get their `seq` when the commit is made. `tickets` are those that
    opened or closed; `acks` the ids of commands that were carried out; `sends` are new commands,
    kept as `send` would: to other threads or to this one, which may begin with this commit (one
    whose thread does not exist is dropped). With `release` the writer gives the thread up; a commit
    whose run is done also drops what was to cancel that run, and closes its tickets that are still
    open. With `ends_stream` the pieces that were kept of an answer are dropped.
    """

    thread_id: str
    expected_length: int
    messages: tuple[Message, ...] = ()
    run: RunRecord | None = None
    run_state: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    thread_state: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    events: tuple[RunEvent, ...] = ()
    calls: tuple[CallEntry, ...] = ()
    tickets: tuple[Ticket, ...] = ()
    acks: tuple[int, ...] = ()
    sends: tuple[ThreadCommand, ...] = ()
    parent_thread_id: str | None = None
    at_ms: int = 0
    fence: Fence | None = None
    release: bool = False
    ends_stream: bool = False


class Committed(msgspec.Struct, frozen=True, gc=False):
    """The answer: how long the log is now, and the `seq` of the commit's first event."""

    length: int
    first_event_seq: int


class Commits(Protocol):
    """The only way to write a thread, and the right to do so."""

    @property
    def immediate(self) -> bool:
        """Whether a commit never waits for anything, so that nothing is gained beside it."""
        ...

    async def commit(self, commit: ThreadCommit) -> Committed:
        """Write all of `commit` or none of it. One without a fence needs a thread nobody owns.

        Raises:
            VersionConflict: the log is not `expected_length` long; read again.
            StaleFence: another owner took the thread over.
            InvalidRecord: it breaks a rule: a run of another thread, a message without an id or
                with another's of the same commit, a parent that does not exist, decisions among
                its `sends`.
            Serialization: a value in it cannot be written.
            CommitUnknown: the answer was lost; ask `settle`.
        """
        ...

    async def settle(self, commit: ThreadCommit) -> Committed | None:
        """What became of a commit whose answer was lost; nothing if it did not happen.

        Told by the run's revision, so only for commits with a run, and before the next one.
        """
        ...

    async def keep_piece(self, fence: Fence, piece: StreamPiece) -> None:
        """Keep a piece of an answer that is still being written, until a commit ends it.

        Raises:
            StaleFence: another owner took the thread over.
        """
        ...

    async def claim(self, thread_id: str, *, at_ms: int) -> Fence:
        """Take a thread, which need not exist yet; whoever wrote it before is refused from now on.
        The fence says whether its last owner died with it.

        Raises:
            ThreadOwned: its owner is alive.
        """
        ...

    async def release(self, fence: Fence) -> None:
        """Give a thread up; nothing if another owner has it by now."""
        ...
