"""Reading, listing, forking and deleting threads and runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

import msgspec

from awaken.core.event import RunEvent
from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message, MessageRecord
from awaken.core.rewind import Hidden
from awaken.core.run import NO_STATE, PersistedState, RunKind, RunRecord
from awaken.core.store.commands import ThreadCommand
from awaken.core.store.commits import CallEntry, StreamLogEntry
from awaken.core.suspension import Ticket, TicketStatus
from awaken.core.thread import Thread, ThreadPatch
from awaken.core.thread_ids import child_id, earlier_child_id
from awaken.core.unreadable import UnreadableRow
from awaken.core.value import Value

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One page of a list. Pass `cursor` to get the next page; `None` means this is the last.

    `unreadable` are rows of this page that the store cannot decode. They are not among the items,
    so a page may have fewer items than its limit, or none, and still not be the last.
    """

    items: tuple[T, ...]
    cursor: str | None = None
    unreadable: tuple[UnreadableRow, ...] = ()

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class RunQuery(Value, frozen=True, kw_only=True):
    """Which runs to list, newest first.

    `scope` selects the runs of one tenant (the default scope is the empty text), `None` those of
    all. `run_id` selects one run: unlike `load_run`, that costs the same however long the run was.
    `ancestor_thread_id` selects the runs of all threads beneath that one; `kind` selects those
    of agents, or those of background tasks; `user` those that work for an end user, with all that
    they have started; `updated_after_ms` those whose record was written after that time.
    """

    scope: str | None = None
    run_id: str | None = None
    thread_id: str | None = None
    ancestor_thread_id: str | None = None
    agent_id: str | None = None
    kind: RunKind | None = None
    parent_run_id: str | None = None
    status: RunStatus | None = None
    user: str | None = None
    updated_after_ms: int | None = None
    limit: int = 50
    cursor: str | None = None


class ThreadQuery(Value, frozen=True, kw_only=True):
    """Which threads to list: the latest `active_at` first, then by id.

    `scope` selects the threads of one tenant (the default scope is the empty text), `None` those of
    all. `ancestor_thread_id` selects all threads beneath that one, on every level; `root` selects
    threads without a parent; `prefix` selects threads whose id starts with it. `label` is a name,
    or `name=value`; `user` is the end user; `status` and `agent` are those of the latest run;
    `since` is a time in milliseconds, and `active_at` is not before it.

    The cost of a page does not depend on how many threads there are. With `ancestor_thread_id` it
    grows with the number of threads beneath that one; over all scopes, with the number of scopes.
    With `user` it grows with the number of that user's threads, with `label` with the number of
    threads that have metadata, with an open `status` with the number of open runs. With a finished
    `status`, or an `agent` that has many runs, the threads between those that are shown are passed
    over one by one.
    """

    scope: str | None = None
    parent_thread_id: str | None = None
    ancestor_thread_id: str | None = None
    root: bool = False
    prefix: str = ""
    label: str | None = None
    user: str | None = None
    status: RunStatus | None = None
    agent: str | None = None
    since: int | None = None
    limit: int = 50
    cursor: str | None = None


class TicketQuery(Value, frozen=True, kw_only=True):
    """Which tickets to list, oldest first.

    `scope` selects the tickets of one tenant (the default scope is the empty text), `None` those of
    all.

    A delegate's question also opens a ticket in each run above it, up to the root, and is answered
    there. Without `thread_id` or `run_id` only the root's ticket is listed. `key` selects the
    ticket with that key.
    """

    scope: str | None = None
    thread_id: str | None = None
    run_id: str | None = None
    key: str | None = None
    status: TicketStatus | None = None
    limit: int = 50
    cursor: str | None = None


class ThreadContext(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Everything a run of the thread starts from, read at one instant.

    `messages` is the end of the log, without its first `skipped` messages and without those that
    are out of view, whose spans are `hidden`; `leading` holds those of the skipped ones that a
    caller adds itself (a store leaves it empty). `open_run` is the run that runs or waits, else the
    latest run, without `output.message_ids`; `None` also if the latest run has ended and its record
    cannot be read. `calls` are the ledger
    entries of the last assistant message with tool calls. `stream_log` is the log of an unfinished
    model answer that `open_run` had requested. `is_new` says that the store has no such thread yet,
    so all of these are empty (a store returns no context then).
    """

    thread: Thread
    messages: Sequence[Message] = ()
    skipped: int = 0
    hidden: Hidden = ()
    leading: Sequence[Message] = ()
    open_run: RunRecord | None = None
    thread_state: PersistedState = NO_STATE
    run_state: PersistedState = NO_STATE
    calls: Sequence[CallEntry] = ()
    commands: Sequence[ThreadCommand] = ()
    stream_log: Sequence[StreamLogEntry] = ()
    is_new: bool = False


class CommitView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one commit added to a thread.

    `position` counts the thread's commits from 1. `first_seq` is the position of its first message
    in the log, `first_event` the `seq` of its first event; for a commit without any, those of the
    next one. `run_id` is `None` if the commit has no run, or was copied by a fork. `rewinds_to` is
    the position to which it rewound the thread, if it did. `changed_keys` are the names of the
    thread's state keys that it wrote, in order; a rewind may have changed others, too. `calls` are
    the lines that it added to the call ledger.
    """

    position: int
    first_seq: int
    first_event: int
    at_ms: int
    run_id: str | None = None
    messages: tuple[Message, ...] = ()
    events: tuple[RunEvent, ...] = ()
    rewinds_to: int | None = None
    changed_keys: tuple[str, ...] = ()
    calls: tuple[CallEntry, ...] = ()


class ChildStrategy(StrEnum):
    """What happens to the child threads of a deleted thread."""

    REJECT = "reject"
    DETACH = "detach"
    CASCADE = "cascade"


class DeleteResult(Value, frozen=True, kw_only=True):
    """The counts of a deletion; `bytes` is the size of the commits, if the store knows it, and of
    the blobs."""

    threads: int = msgspec.field(default_factory=int)
    runs: int = msgspec.field(default_factory=int)
    commits: int = msgspec.field(default_factory=int)
    bytes: int = msgspec.field(default_factory=int)
    blobs: int = 0


class Threads(Protocol):
    """Reads everything that was committed.

    Loading an unknown id returns `None` or an empty result; it does not raise.
    """

    async def load_thread(self, thread_id: str) -> Thread | None: ...

    async def update_thread(
        self, thread_id: str, patch: ThreadPatch, *, expected_revision: int | None = None
    ) -> Thread:
        """Change a thread's metadata and return the thread. With `expected_revision`, only if that
        is still the metadata's revision.

        Raises:
            NotFound: no such thread.
            VersionConflict: the metadata has another revision by now; nothing was changed.
            Serialization: a value in the patch cannot be encoded.
        """
        ...

    async def list_threads(self, query: ThreadQuery) -> Page[Thread]:
        """
        Raises:
            InvalidRecord: the cursor is not one of this list.
        """
        ...

    async def load_context(
        self, thread_id: str, *, tail: int | None = None
    ) -> ThreadContext | None:
        """What a run starts from, with all messages in view or with the last `tail` of them.

        The cost depends on `tail` and not on the thread's length.
        """
        ...

    async def load_rewound(
        self, thread_id: str, to: int, *, tail: int | None = None
    ) -> ThreadContext | None:
        """What a run starts from whose first commit rewinds the thread: like `load_context`, with
        the messages, the state and the calls that a commit with `rewinds_to=to` leaves."""
        ...

    async def load_messages(
        self, thread_id: str, *, after: int = 0, limit: int | None = None, hidden: bool = False
    ) -> Sequence[Message]:
        """The first `limit` messages in view behind position `after`, in order. With `hidden`,
        those that are out of view as well: all that the log has."""
        ...

    async def load_records(
        self, thread_id: str, *, after: int = 0, limit: int | None = None, hidden: bool = False
    ) -> Sequence[MessageRecord]:
        """The same messages, each with its position in the log as `seq`."""
        ...

    async def find_rewind(self, thread_id: str, message_id: str) -> int:
        """The position to which a thread is rewound to take a message, and all behind it, out of
        view. If several messages have this id, the last of those in view counts.

        The log is read from its end until the message is found.

        Raises:
            RewindRefused: no message in view has this id.
        """
        ...

    async def load_events(
        self, thread_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[RunEvent]:
        """The durable events in order, from `seq` = `after` + 1 on."""
        ...

    async def load_commits(
        self, thread_id: str, *, after: int = 0, limit: int = 200
    ) -> Sequence[CommitView]:
        """The commits behind event `after`, in order; the first may hold that event itself."""
        ...

    async def load_stream_log(self, thread_id: str) -> Sequence[StreamLogEntry]:
        """What has been stored of an answer that is not committed yet."""
        ...

    async def wait_changed(self, thread_id: str, since: int) -> int:
        """Wait until any process has written to the thread, and return a number for the next call.

        `since` is the number an earlier call returned, or 0 for "since the thread began". A caller
        that reads after this returned sees everything written before. It may return without a
        write, and returns at most a fraction of a second after one.
        """
        ...

    async def load_run(self, run_id: str) -> RunRecord | None:
        """The record with the ids of the run's messages and with its state: its run-scoped keys
        and the thread's."""
        ...

    async def latest_run(self, thread_id: str) -> RunRecord | None: ...

    async def list_runs(self, query: RunQuery) -> Page[RunRecord]:
        """One page of records, without their state and message ids.

        Raises:
            InvalidRecord: the cursor is not one of this list.
        """
        ...

    async def list_interrupted(
        self, *, now_ms: int, thread_id: str | None = None, limit: int | None = None
    ) -> Sequence[RunRecord]:
        """The first `limit` runs that a worker should take over, of one thread or of all, oldest
        first. Submitted runs that have not started are not among them.

        Either the run is running and its owner is gone; or it waits, its thread has no owner, and
        a command has arrived for it, one of its tickets has expired, or it is a delegate whose
        parent run has ended. A run that cannot be read is logged and left out. For one thread, the
        cost does not depend on the number of others.
        """
        ...

    async def load_thread_state(self, thread_id: str) -> PersistedState: ...

    async def state_at(self, thread_id: str, seq: int) -> PersistedState:
        """The thread's state as it was after the commit that holds the event `seq`: the state that
        a fork at this event has.

        Raises:
            NotFound: no such thread, or no such event in it.
        """
        ...

    async def load_run_state(self, run_id: str) -> PersistedState: ...

    async def load_calls(self, run_id: str) -> Sequence[CallEntry]:
        """The latest ledger entry of each call of a run, in the order the calls first appeared.

        The arguments are those of the entry that recorded them.
        """
        ...

    async def list_tickets(self, query: TicketQuery) -> Page[Ticket]: ...

    async def fork(
        self,
        thread_id: str,
        new_id: str,
        *,
        at: int | None = None,
        at_ms: int,
        by: str | None = None,
    ) -> Thread:
        """Copy a thread into a new one: message log, events, thread state and metadata.

        `by` is the id of the principal that forks; it is the new thread's `created_by`.

        With `at`, they are copied as they were after the commit that holds that event; else as
        they are now. Runs and tickets are not copied.

        Raises:
            NotFound: no such thread, or no such event in it.
            AlreadyExists: `new_id` is taken.
        """
        ...

    async def delete_thread(
        self,
        thread_id: str,
        *,
        children: ChildStrategy = ChildStrategy.REJECT,
        force: bool = False,
        at_ms: int,
    ) -> DeleteResult:
        """Delete a thread with its runs, budget books, tickets and commands, in one transaction.

        With `force`, open runs that have no owner are deleted too.

        Raises:
            NotFound: no such thread.
            ThreadOwned: the thread, or a child to be deleted with it, has a live owner.
            RunOpen: the thread, or a child to be deleted with it, has an open run and `force` is
                not set; or a thread above it has an open run.
            InvalidRecord: the thread has children and `children` is `REJECT`.
        """
        ...

    async def prune(self, *, before_ms: int) -> DeleteResult:
        """Delete the threads that were last changed before `before_ms`.

        Kept are threads with an open run, a submitted run, a live owner or children that are kept,
        and threads beneath an open run, which may read them again. Threads are deleted in
        transactions of a few, so a call that is cut short has done a part of it.
        """
        ...

    async def forget_scope(self, scope: str, *, at_ms: int) -> DeleteResult:
        """Delete the threads of a tenant, whatever state their runs are in, as `prune` does it.

        Kept are threads with a live owner: cancel their runs first, or repeat this later.
        """
        ...


async def find_child(threads: Threads, parent_thread_id: str, key: str) -> str:
    """The id of the delegate that the call `key` of a thread has started, or is to start.

    Earlier versions gave delegates other ids. One that such a version has started is found first,
    so that a run that was left open across an upgrade goes on with the delegate it has.
    """
    earlier = earlier_child_id(key)
    if await threads.load_thread(earlier) is not None:
        return earlier
    return child_id(parent_thread_id, key)
