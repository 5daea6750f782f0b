"""Reading threads and runs back, and looking after them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

import msgspec

from awaken.contract.commands import ThreadCommand
from awaken.contract.commits import CallEntry
from awaken.contract.streams import StreamPiece
from awaken.domain.event import RunEvent
from awaken.domain.lifecycle import RunStatus
from awaken.domain.message import Message, MessageRecord
from awaken.domain.run import PersistedState, RunKind, RunRecord
from awaken.domain.thread import Thread
from awaken.domain.ticket import Ticket, TicketStatus
from awaken.domain.value import Value

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """Some of a list, and where the rest begins: give `cursor` to get it, if there is one."""

    items: tuple[T, ...]
    cursor: str | None = None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class RunQuery(Value, frozen=True, kw_only=True):
    """Which runs to list, the one created last first.

    With `ancestor_thread_id`, the runs of all threads beneath that one; with `kind`, only those of
    agents or only those of background tasks.
    """

    thread_id: str | None = None
    ancestor_thread_id: str | None = None
    agent_id: str | None = None
    kind: RunKind | None = None
    parent_run_id: str | None = None
    status: RunStatus | None = None
    limit: int = 50
    cursor: str | None = None


class ThreadQuery(Value, frozen=True, kw_only=True):
    """Which threads to list, the one whose `active_at` is the latest first, then by id.

    A page costs the same however many threads there are, but for `ancestor_thread_id`, which costs
    by how many are beneath that one.
    `ancestor_thread_id` has all threads beneath one, on every level; `root` leaves out threads that
    have a parent; `prefix` those whose id begins otherwise.
    """

    parent_thread_id: str | None = None
    ancestor_thread_id: str | None = None
    root: bool = False
    prefix: str = ""
    limit: int = 50
    cursor: str | None = None


class TicketQuery(Value, frozen=True, kw_only=True):
    """Which tickets to list, the oldest first.

    What a delegate asks is asked by the run it works for as well, up to the root, where it is to be
    answered: only that one is listed, unless a thread or run is named.
    """

    thread_id: str | None = None
    run_id: str | None = None
    status: TicketStatus | None = None
    limit: int = 50
    cursor: str | None = None


class ThreadContext(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All that a run of the thread starts from, read at one instant.

    `messages` are the last ones of the log, behind the first `skipped`; `leading` is what a reader
    wants to have of those (a store gives nothing). `open_run` is the run that
    runs or waits, else the latest, with `output.message_ids` left out. `calls` is the ledger of
    the last assistant message with calls, `stream` what has come of an answer `open_run` had asked
    for.
    """

    thread: Thread
    messages: Sequence[Message] = ()
    skipped: int = 0
    leading: Sequence[Message] = ()
    open_run: RunRecord | None = None
    thread_state: PersistedState = msgspec.field(default_factory=PersistedState)
    run_state: PersistedState = msgspec.field(default_factory=PersistedState)
    calls: Sequence[CallEntry] = ()
    commands: Sequence[ThreadCommand] = ()
    stream: Sequence[StreamPiece] = ()


class ChildStrategy(StrEnum):
    """What becomes of a deleted thread's children."""

    REJECT = "reject"
    DETACH = "detach"
    CASCADE = "cascade"


class Freed(Value, frozen=True, kw_only=True):
    """What was deleted; `bytes` is the size of the commits, as far as the store can tell."""

    threads: int = msgspec.field(default_factory=int)
    runs: int = msgspec.field(default_factory=int)
    commits: int = msgspec.field(default_factory=int)
    bytes: int = msgspec.field(default_factory=int)


class Threads(Protocol):
    """Everything that was committed. Unknown ids give nothing, not an error, when loaded."""

    async def load_thread(self, thread_id: str) -> Thread | None: ...

    async def list_threads(self, query: ThreadQuery) -> Page[Thread]:
        """
        Raises:
            InvalidRecord: the cursor belongs to another list, or to none.
        """
        ...

    async def load_context(
        self, thread_id: str, *, tail: int | None = None
    ) -> ThreadContext | None:
        """What a run starts from, with the last `tail` messages only if that is given.

        What it costs depends on `tail` and not on the thread's length.
        """
        ...

    async def load_messages(
        self, thread_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Message]:
        """Messages in order, from position `after` + 1."""
        ...

    async def load_records(
        self, thread_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[MessageRecord]: ...

    async def load_events(
        self, thread_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[RunEvent]:
        """Durable events in order, from `seq` `after` + 1."""
        ...

    async def changed(self, thread_id: str, since: int) -> int:
        """Wait until the thread was written, by anybody, since a call answered `since` (0: ever).

        Whoever reads after a call has answered sees what was written before it answered. It may
        answer early, never late by more than a fraction of a second.
        """
        ...

    async def load_run(self, run_id: str) -> RunRecord | None:
        """The record, with the ids of the messages it wrote and with its run-scoped and the
        thread's state put together."""
        ...

    async def latest_run(self, thread_id: str) -> RunRecord | None: ...

    async def list_runs(self, query: RunQuery) -> Page[RunRecord]:
        """Records without their state and message ids.

        Raises:
            InvalidRecord: the cursor belongs to another list, or to none.
        """
        ...

    async def list_interrupted(
        self, *, now_ms: int, thread_id: str | None = None
    ) -> Sequence[RunRecord]:
        """Runs nobody carries on though somebody should, of one thread or of all, oldest first.

        Their owner is gone and they run, or they wait, nobody owns their thread, and a command is
        there for them or one of their tickets is past its time. One that cannot be read is logged
        and left out. What it costs for one thread does not depend on how many others there are.
        """
        ...

    async def load_thread_state(self, thread_id: str) -> PersistedState: ...

    async def load_run_state(self, run_id: str) -> PersistedState: ...

    async def load_calls(self, run_id: str) -> Sequence[CallEntry]:
        """The ledger of a run in order of appearance, the latest line of each call; arguments are
        those of the line that had some."""
        ...

    async def list_tickets(self, query: TicketQuery) -> Page[Ticket]: ...

    async def fork(
        self, thread_id: str, new_id: str, *, at: int | None = None, at_ms: int
    ) -> Thread:
        """A new thread with the log, events and thread state as they were after the commit that
        holds event `at`; as they are now without it. Runs and tickets are not copied.

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
    ) -> Freed:
        """Delete a thread with its runs, their books, tickets and commands, all in one go.

        With `force`, also open runs go that nobody carries on, as if they had never been.

        Raises:
            NotFound: no such thread.
            ThreadOwned: it, or a child that would go with it, has a live owner.
            RunOpen: a run is open in it or in a child that would go with it, without `force`; or
                one is open above it.
            InvalidRecord: it has children, and `children` says reject.
        """
        ...

    async def prune(self, *, before_ms: int) -> Freed:
        """Delete threads last changed before then that have no open run, no live owner, and no
        children that stay. What is beneath an open run stays: that may ask for it once more."""
        ...
