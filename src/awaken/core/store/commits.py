"""Commits, the only way to write a thread; and the rights a process needs to write and to act.

An owner writes its thread under a fence. Its lease says whether it may start effects now, as its
store sees it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from awaken.codec import Json
from awaken.core.event import RunEvent
from awaken.core.message import Message
from awaken.core.request_manifest import RequestManifest, StoredText
from awaken.core.run import RunRecord
from awaken.core.store.commands import OUTBOX_KEY, ThreadCommand
from awaken.core.suspension import Ticket
from awaken.core.value import Value
from awaken.errors import CommitUnknown

MAX_COMMIT = 1024 * 1024
"""The most bytes that the row of a commit may have."""


KEPT_IN_REWINDS = frozenset(
    {OUTBOX_KEY, "background_task_state", "background_failed_durable_messages"}
)
"""The state keys that a rewind leaves as they are: they are about tasks and messages that exist
outside of the conversation."""


class ThreadCommit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One atomic write to a thread.

    - `messages` are appended to the `expected_length` messages the log already has.
    - `run_state` and `thread_state` hold the keys that changed, as JSON text.
    - `events` get their `seq` from the store.
    - `tickets` are those that opened or closed.
    - `acks` are the ids of commands that were carried out.
    - `sends` are new commands, stored as `Commands.send` does: to other threads or to this one,
      which this commit may create. A command to a thread that does not exist is dropped.
    - `release` gives up the ownership of the thread.
    - `ends_stream` deletes the thread's stream log.
    - `blobs` are the ids of the blobs that its messages, events and state refer to. They are kept
      as long as the thread, or a fork of it that has this commit.
    - `rewinds_to` is a position in the log: the messages behind it, up to `expected_length`, are
      out of view from now on. The log keeps them. The thread's state and last calls are those from
      before the first of these messages was written, except `KEPT_IN_REWINDS`; `thread_state` is
      applied on top.
    - `requests` say what models were asked for the answers among `messages`. `texts` are those
      that they name and that the thread may not have yet; they are kept like blobs.

    A commit whose run is done also drops that run's pending cancels and closes its open tickets. If
    the run ended cancelled, its record keeps the id of the principal that sent the first of them.
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
    blobs: tuple[str, ...] = ()
    rewinds_to: int | None = None
    requests: tuple[RequestManifest, ...] = ()
    texts: tuple[StoredText, ...] = ()


class Committed(msgspec.Struct, frozen=True, gc=False):
    """The result of a commit: the length of the log, and the `seq` of the commit's first event."""

    length: int
    first_event_seq: int


class Fence(Value, frozen=True, kw_only=True):
    """The right to write a thread, held by the owner that claimed it last.

    `taken_from` is the owner before it, if that one died while it owned the thread. It is `None`
    if the thread was free: never owned, or released by its last owner.
    """

    thread_id: str
    owner: str
    epoch: int
    taken_from: str | None = None


class Commits(Protocol):
    """Writes threads, and grants the right to write them."""

    @property
    def immediate(self) -> bool:
        """Whether a commit never waits, so that running other work beside it gains nothing."""
        ...

    async def commit(self, commit: ThreadCommit) -> Committed:
        """Write all of `commit` or none of it. Without a fence, the thread must have no owner.

        Raises:
            VersionConflict: the log is not `expected_length` long; read again.
            StaleFence: another owner has claimed the thread.
            InvalidRecord: the commit breaks a rule: its run belongs to another thread, a message
                has no id or the id of another one in the commit, the parent thread does not exist,
                `sends` contains decisions or a submission, or `rewinds_to` is not a position before
                the end of the log.
            CommitTooLarge: its row would exceed `MAX_COMMIT`; the error names what is large. The
                memory store writes no rows, and does not raise it.
            Serialization: a value in it cannot be encoded.
            CommitUnknown: the answer was lost; call `find_commit`.
        """
        ...

    async def find_commit(self, commit: ThreadCommit) -> Committed | None:
        """The result of a commit whose answer was lost, or `None` if it was not written.

        It is found by the run's revision: only for commits with a run, and before the next commit.
        """
        ...

    async def append_stream(self, fence: Fence, entry: StreamLogEntry) -> None:
        """Append to the log of an unfinished answer; a commit with `ends_stream` deletes it.

        Raises:
            StaleFence: another owner has claimed the thread.
        """
        ...

    async def claim(self, thread_id: str, *, at_ms: int) -> Fence:
        """Become the owner of a thread, which need not exist yet.

        Writes with an earlier fence are refused from now on. The returned fence says whether the
        last owner died while it owned the thread.

        Raises:
            ThreadOwned: the thread's owner is alive.
        """
        ...

    async def claim_next(
        self,
        agents: Collection[str],
        *,
        limit: int,
        at_ms: int,
        overdue_ms: int,
        skip: Collection[str] = (),
    ) -> Sequence[tuple[Fence, RunRecord]]:
        """Claim the threads of up to `limit` runs of these agents that can continue, oldest first.

        A run can continue if its thread has no live owner and the run is running; or waits, and was
        answered or cancelled, or one of its tickets expired before `overdue_ms`; or was submitted,
        is due, and is the first of its thread's submissions while no run of the thread is open.
        Left out are the runs in `skip`, delegates, background tasks, and runs that were taken over
        before without progress: the caller finds those with `list_interrupted`. Two nodes never
        claim the same thread.
        """
        ...

    async def release(self, fence: Fence) -> None:
        """Give up a thread; does nothing if another owner has claimed it."""
        ...

    async def list_claims(self) -> Sequence[Fence]:
        """The claims that this store's owner has now, in no order; `taken_from` may be missing.

        A program that has a runtime leaves claims to it: a thread that the runtime's store has
        claimed, and in which the runtime has no run, is released by the runtime after a minute.
        """
        ...

    async def wait_released(self, thread_id: str) -> None:
        """Wait until the thread has no live owner. It may have one again when this returns."""
        ...


def commits_at_once(commits: Commits | None) -> bool:
    """Whether a store has a function `commit_now`, which does the same as `commit` without a
    coroutine. Only a store whose commits never wait can have one."""
    # Asked of the class: an object that wraps a store may pass on all but what it changes.
    return getattr(type(commits), "commit_now", None) is not None


# -- the call ledger --------------------------------------------------------------------------


class CallPhase(StrEnum):
    """The state of a tool call in the call ledger.

    `intent`: the call may have started and has no outcome yet. `cancelled`: the call was stopped
    because its run was cancelled.
    """

    INTENT = "intent"
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"
    CANCELLED = "cancelled"


class CallEntry(Value, frozen=True, kw_only=True):
    """An entry of the call ledger; its key is the assistant message's id and the call's index.

    A call without an entry never started. `held` is the result of a call that ended before an
    earlier call of the same message; it enters the message log after that one's result. `stopped`
    means that a call with an unknown outcome is at least no longer running.
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
    """Whether one of the entries records an outcome or a suspension."""
    return any(entry.phase is not CallPhase.INTENT for entry in calls)


def call_key(message_id: str, index: int) -> str:
    """The unique key of a tool call. Providers may repeat their call ids; this never repeats."""
    return f"{message_id}:{index}"


# -- unfinished answers -----------------------------------------------------------------------


class StreamLogEntry(Value, frozen=True, kw_only=True):
    """What arrived of an answer since the entry before; entry number 1 replaces all earlier ones.

    The stream log holds unfinished answers, so that another process can continue them.
    `asked` identifies the model request: its model and its last message. The log is used only to
    continue the same request. `message_id` is the id that the answer will have. `calls` are ids,
    names, and the new text of their arguments.
    """

    run_id: str
    asked: str
    message_id: str = ""
    number: int
    text: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    at_ms: int


# -- the lease --------------------------------------------------------------------------------


ORPHANS_EVERY_MS = 60_000
"""After this time, by the clock of the caller, a lease looks again for delegates that wait though
their parent run has ended."""


async def commit_once(
    commits: Commits, commit: ThreadCommit, *, is_tried: bool = False
) -> Committed:
    """Make a commit that has a run record exactly once, even if the store's answer gets lost.

    `is_tried` says that the commit may have been made before.

    Raises:
        StoreError: as `Commits.commit`; after `CommitUnknown` the commit may have been made.
    """
    if not is_tried:
        try:
            return await commits.commit(commit)
        except CommitUnknown:
            pass
    made = await commits.find_commit(commit)
    return made if made is not None else await commits.commit(commit)


class Lease(Protocol):
    """A node's right to act on the threads it owns. It may run out, and be regained.

    A node whose lease has run out may have lost its threads to other nodes. It starts no tool and
    asks no model until it holds the lease again; its commits are refused in any case where another
    node has claimed the thread.
    """

    @property
    def held(self) -> bool:
        """Whether the node may start an effect now. Reading it does no I/O."""
        ...

    @property
    def seconds_left(self) -> float:
        """Seconds until the lease runs out if it is not renewed; infinite if it cannot."""
        ...

    @property
    def poll_interval(self) -> float:
        """Seconds between two searches of a node for the runs of dead owners."""
        ...

    @property
    def can_claim(self) -> bool:
        """Whether the node may claim threads of dead owners now. A node that has just begun to hold
        its lease may not, because their owners may be about to renew theirs."""
        ...

    async def has_work(self, *, at_ms: int, overdue_ms: int) -> bool:
        """Whether a search may find a run or message to work on: with `claim_next` for any agent,
        with `list_interrupted`, or with `list_outboxes`. Never false if it would, with one
        exception: a waiting delegate whose parent run has ended (which should not occur, and takes
        a read of every waiting delegate) may be found up to `ORPHANS_EVERY_MS` late. It costs one
        small read at most, and a node asks before each search: where many nodes search every
        second, most of them have nothing to find.
        """
        ...

    async def wait_held(self) -> None:
        """Wait until the node holds the lease.

        Raises:
            LeaseLost: it takes too long; the node must abandon its runs.
        """
        ...

    def add_lost_callback(self, callback: Callable[[Fence], None]) -> None:
        """Call `callback` with each claim that this node loses to another node, from now on."""
        ...


class NeverLost:
    """The lease of a store whose owners are alive exactly while their process is."""

    # A slot of the instance is read faster than an attribute of the class, several times a step.
    __slots__ = ("held",)
    seconds_left = math.inf
    poll_interval = 5.0
    can_claim = True

    def __init__(self) -> None:
        self.held = True

    async def has_work(self, *, at_ms: int, overdue_ms: int) -> bool:
        return True

    async def wait_held(self) -> None:
        return

    def add_lost_callback(self, callback: Callable[[Fence], None]) -> None:
        return


NEVER_LOST = NeverLost()
