"""What a runtime's store holds: reading it back, and looking after it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any, Literal, TypeVar

import msgspec

from awaken.clock import Clock
from awaken.contract.background import TaskStatus
from awaken.contract.blobs import BlobStore, FreedBlobs
from awaken.contract.store import Store
from awaken.contract.threads import (
    ChildStrategy,
    Freed,
    Page,
    RunQuery,
    ThreadQuery,
    TicketQuery,
)
from awaken.domain.event import RunEvent
from awaken.domain.message import Message
from awaken.domain.run import RunRecord
from awaken.domain.thread import Thread
from awaken.domain.ticket import Ticket, TicketStatus
from awaken.errors import ConfigError
from awaken.front.tasks import BackgroundTask, list_tasks
from awaken.ids import Ids
from awaken.state.key import StateKey

V = TypeVar("V")

_PAGE = 500
_DAY_MS = 86_400_000


class Archive:
    """The part of a runtime that needs no agents."""

    def __init__(
        self, store: Store, clock: Clock, ids: Ids, blobs: BlobStore | None = None
    ) -> None:
        self._store = store
        self._blobs = blobs
        self._clock = clock
        self._ids = ids

    @property
    def store(self) -> Store:
        """What threads are kept in."""
        return self._store

    @property
    def blobs(self) -> BlobStore | None:
        """Where large media and tool results are kept; `None` if everything stays in the log."""
        return self._blobs

    # -- reading ------------------------------------------------------------------------------

    async def tasks(
        self,
        thread: str | None = None,
        *,
        status: TaskStatus | Literal["running", "completed", "failed", "cancelled"] | None = None,
        limit: int = 100,
    ) -> list[BackgroundTask]:
        """The last background tasks of a thread and of all it has started, or all there are, the
        one started last first."""
        return await list_tasks(self._store, thread, _task_status(status), limit)

    async def messages(
        self, thread: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Message]:
        """A thread's log, from position `after` + 1."""
        return await self._store.load_messages(thread, after=after, limit=limit)

    async def events(
        self, thread: str, *, after: int = 0, follow: bool = True
    ) -> AsyncIterator[RunEvent]:
        """A thread's durable events behind `seq` `after`: first what was, then what comes.

        No gap and no repeat, whichever process writes them, also over its crash; deltas are only
        seen by whoever streams the run. It ends with the last one there is unless it is to follow.
        """
        seen = 0
        while True:
            if follow:
                seen = await self._store.changed(thread, seen)
            while page := await self._store.load_events(thread, after=after, limit=_PAGE):
                for event in page:
                    yield event
                after += len(page)
            if not follow:
                return

    async def fork(self, thread: str, *, at: int | None = None, new: str | None = None) -> Thread:
        """A new thread that begins as this one was after the step that event `at` belongs to.

        Log, events and thread state are those of then, or of now without `at`; this thread stays
        as it is. Runs and open tickets are not taken along.

        Raises:
            NotFound: no such thread or event.
            AlreadyExists: there is a thread `new`.
        """
        name = self._ids.new() if new is None else new
        return await self._store.fork(thread, name, at=at, at_ms=self._clock.now_ms())

    async def state(self, thread: str, key: StateKey[V, Any]) -> V:
        """The value of a state key after the thread's latest run, or its initial value."""
        context = await self._store.load_context(thread, tail=0)
        if context is None:
            return key.initial()
        stored = {**context.thread_state.extensions, **context.run_state.extensions}
        return key.load(stored[key.name]) if key.name in stored else key.initial()

    async def find_run(self, run_id: str) -> RunRecord | None:
        """The record of a run, with the state it left."""
        return await self._store.load_run(run_id)

    async def list_runs(self, query: RunQuery | None = None) -> Page[RunRecord]:
        """Runs, the one created last first."""
        return await self._store.list_runs(query or RunQuery())

    async def list_threads(self, query: ThreadQuery | None = None) -> Page[Thread]:
        """Threads, the one in which a run last began, paused or ended first."""
        return await self._store.list_threads(query or ThreadQuery())

    async def list_tickets(self, query: TicketQuery | None = None) -> Page[Ticket]:
        """Questions that were put to people, the oldest first; the open ones if nothing is said."""
        return await self._store.list_tickets(query or TicketQuery(status=TicketStatus.OPEN))

    # -- upkeep -------------------------------------------------------------------------------

    async def delete_thread(
        self,
        thread: str,
        *,
        children: ChildStrategy = ChildStrategy.REJECT,
        force: bool = False,
    ) -> Freed:
        """Delete a thread and all that belongs to it.

        With `force`, also runs go that are not over and that nobody carries on. That is for those
        which nobody can end any more: a run elsewhere whose agent never comes back stays open,
        though it was cancelled. What it does elsewhere is not stopped by this, and nobody will
        hear of it.

        Raises:
            NotFound: no such thread.
            ThreadOwned: it is running.
            RunOpen: a run of it, or one that would go with it, is not over: cancel it first, or use
                `force`. Or the thread belongs to a run that is not over: cancel that first.
            InvalidRecord: it has children, and `children` does not say what becomes of them.
        """
        now = self._clock.now_ms()
        return await self._store.delete_thread(thread, children=children, force=force, at_ms=now)

    async def prune(self, *, older_than: float | timedelta) -> Freed:
        """Delete threads that were not written for that long (in seconds) and have no open run, nor
        belong to one. Then delete blobs, as `sweep_blobs` does."""
        seconds = older_than.total_seconds() if isinstance(older_than, timedelta) else older_than
        if not seconds >= 0:
            raise ConfigError(f"older_than is a length of time, not {older_than!r}")
        freed = await self._store.prune(before_ms=self._clock.now_ms() - round(seconds * 1000))
        swept = await self.sweep_blobs()
        return msgspec.structs.replace(freed, blobs=swept.blobs, bytes=freed.bytes + swept.bytes)

    async def sweep_blobs(self) -> FreedBlobs:
        """Delete the blobs that no thread uses, if they were put a day ago or earlier: a younger
        one may be waiting for the commit that uses it."""
        if self._blobs is None:
            return FreedBlobs()
        return await self._blobs.delete_unreferenced(self._clock.now_ms() - _DAY_MS)


def _task_status(word: str | None) -> TaskStatus | None:
    try:
        return None if word is None else TaskStatus(word)
    except ValueError:
        known = ", ".join(repr(status.value) for status in TaskStatus)
        raise ConfigError(f"status is one of {known}, not {word!r}") from None
