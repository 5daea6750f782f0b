"""The SQLite store. Each operation is handed to the thread that reads or writes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.aio.callbacks import Callbacks
from awaken.core.event import RunEvent
from awaken.core.llm import InferenceRequest
from awaken.core.message import Message, MessageRecord
from awaken.core.request_manifest import RequestManifest
from awaken.core.run import PersistedState, RunRecord
from awaken.core.store.commands import Submission, SubmitMode, Submitted, ThreadCommand
from awaken.core.store.commits import (
    NEVER_LOST,
    CallEntry,
    Committed,
    Fence,
    Lease,
    StreamLogEntry,
    ThreadCommit,
)
from awaken.core.store.store import Process
from awaken.core.store.threads import (
    ChildStrategy,
    CommitView,
    DeleteResult,
    Page,
    RunQuery,
    ThreadContext,
    ThreadQuery,
    TicketQuery,
)
from awaken.core.suspension import Decision, Ticket
from awaken.core.thread import Thread, ThreadPatch
from awaken.core.unreadable import RowKind
from awaken.errors import StoreUnavailable
from awaken.ids import UUID7, Ids
from awaken.stores import lazy_search
from awaken.stores.batch_delete import delete_in_batches
from awaken.stores.sql import queries
from awaken.stores.sql.cursors import UnreadableRows
from awaken.stores.sql.delta import encode_row, pack
from awaken.stores.sql.row_check import RowChange, StoredRow
from awaken.stores.sql.submissions import Wanted, pack_submission
from awaken.stores.sqlite import (
    commands,
    listing,
    maintenance,
    requests,
    row_check,
    rows,
    runs,
    submissions,
    threads,
)
from awaken.stores.sqlite.access import SqliteAccess
from awaken.stores.sqlite.address import MEMORY, address_of, parse_address
from awaken.stores.sqlite.commit import find_committed, write_commit
from awaken.stores.sqlite.engine import Engine
from awaken.stores.sqlite.owners import new_owner
from awaken.stores.sqlite.profiles import SqliteProfiles
from awaken.stores.sqlite.rows import append_stream, find_thread
from awaken.stores.sqlite.watch import COMMANDS, Watch, thread_channel
from awaken.stores.sqlite.writer import ALL, Batch
from awaken.stores.waiting import POLL_SECONDS, CommandPoller
from awaken.stores.write_health import WriteHealth

if TYPE_CHECKING:
    from awaken.core.search.index import SearchIndex, ThreadHead


class SqliteStore:
    """Threads, runs, tickets, commands and profiles in one SQLite file.

    The constructor does not touch the file; the first operation opens it. Several event loops may
    use one store, one after the other or at once.

    A thread that was claimed and never written is invisible to readers, but it has an owner: other
    claims and writes without a fence are refused.
    """

    immediate = False
    lease: Lease = NEVER_LOST

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: str = "full",
        busy_timeout: float = 5.0,
        clock: Clock = SYSTEM_CLOCK,
        ids: Ids = UUID7,
    ) -> None:
        name = os.fspath(path)
        if name != MEMORY:
            name = os.path.abspath(name)
        self._address = address_of(name, synchronous, busy_timeout)
        self._ids = ids
        self._clock = clock
        self._owner, self._pid = new_owner(ids), os.getpid()
        self._watch = Watch()
        self._batches: Callbacks[Batch] = Callbacks()
        self._unreadable = UnreadableRows()
        self._writes = WriteHealth()
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._finalizer: weakref.finalize[..., SqliteStore] | None = None
        self._closed = False
        self._profiles = SqliteProfiles(self._ready, clock)
        self._access = SqliteAccess(self._ready)

    @classmethod
    def from_address(cls, address: str, *, clock: Clock = SYSTEM_CLOCK, ids: Ids = UUID7) -> Self:
        """
        Raises:
            ConfigError: the address is not an SQLite address; the text shows how to write one.
        """
        path, synchronous, busy_timeout = parse_address(address)
        return cls(path, synchronous=synchronous, busy_timeout=busy_timeout, clock=clock, ids=ids)

    @property
    def path(self) -> str:
        """The file, or `:memory:`."""
        return self._address.path

    @property
    def blobs_folder(self) -> str | None:
        """The folder for the blobs of this store's threads; `None` for a database in memory."""
        return None if self.path == MEMORY else f"{os.path.realpath(self.path)}-blobs"

    @property
    def owner(self) -> str:
        return self._owner

    @property
    def profiles(self) -> SqliteProfiles:
        return self._profiles

    @property
    def access(self) -> SqliteAccess:
        return self._access

    def add_batch_callback(self, callback: Callable[[int, float], object]) -> None:
        self._batches.subscribe(lambda batch: callback(*batch))

    def count_unreadable(self) -> Mapping[str, int]:
        return self._unreadable.count()

    async def load_rows(
        self, kind: RowKind, after: tuple[Any, ...] | None, limit: int
    ) -> Sequence[StoredRow]:
        return await self._ready().read(lambda db: row_check.load_rows(db, kind, after, limit))

    async def replace_rows(self, changes: Sequence[RowChange]) -> Sequence[str | None]:
        engine = self._ready()
        return await engine.write(
            lambda db: row_check.replace_rows(db, engine.owners, changes), channels=(ALL,)
        )

    async def open(self) -> None:
        with self._lock:
            if self._closed:
                # A new owner name: the old one's lock may not be released yet.
                self._owner, self._closed = new_owner(self._ids), False
        engine = self._ready()
        await engine.read(lambda db: None)
        # On the writer's thread, like every use of the lock, and outside of a transaction.
        await engine.write(lambda db: engine.owners.lock_if_writable(), alone=True)

    async def check(self) -> None:
        await self._ready().read(lambda db: db.execute(queries.CHECK).fetchone())

    @property
    def is_refusing_writes(self) -> bool:
        return self._writes.is_refusing

    async def check_write(self) -> None:
        await self._ready().write(maintenance.check_write, lost=lambda db: None)

    async def processes(self) -> Sequence[Process]:
        engine = self._ready()
        return await engine.read(lambda db: engine.owners.processes())

    async def close(self) -> None:
        with self._lock:
            self._closed = True
            engine, finalizer = self._engine, self._finalizer
        if engine is not None:
            await engine.close()
        if finalizer is not None:
            finalizer.detach()  # it keeps the engine, whose listeners may know this store

    def _ready(self) -> Engine:
        """The engine of the open store; a new one if there is none or opening it failed."""
        with self._lock:
            if self._closed:
                raise StoreUnavailable(f"the store of {self.path} was closed: open it again")
            if self._pid != os.getpid():
                # After a fork: the operating-system threads, and all claims, are the parent's.
                self._pid, self._engine = os.getpid(), None
                self._owner, self._watch = new_owner(self._ids), Watch()
            if self._engine is None or self._engine.writer.is_over:
                # The real path, because owners look for each other's lock files beside the file.
                path = self.path if self.path == MEMORY else os.path.realpath(self.path)
                address = self._address._replace(path=path)
                if self._finalizer is not None:
                    self._finalizer.detach()
                self._engine = Engine(
                    address,
                    self._owner,
                    self._watch,
                    self._batches,
                    self._unreadable,
                    self._writes,
                )
                # A store that is never closed still releases its threads.
                self._finalizer = weakref.finalize(self, self._engine.writer.abandon)
                self._finalizer.atexit = False
            if self._engine.unreleased:
                self._engine.release_again()
            return self._engine

    # -- commits ------------------------------------------------------------------------------

    async def commit(self, commit: ThreadCommit) -> Committed:
        packed = pack(commit)
        engine = self._ready()

        fence = commit.fence
        channels: tuple[str, ...] = (thread_channel(commit.thread_id),)
        if commit.sends:
            receivers = [thread_channel(command.thread_id) for command in commit.sends]
            channels = (*channels, COMMANDS, *receivers)
        return await engine.write(
            partial(write_commit, packed=packed),
            channels=channels,
            lost=partial(find_committed, commit=commit),
            ended=partial(engine.on_release_committed, fence) if commit.release and fence else None,
        )

    async def find_commit(self, commit: ThreadCommit) -> Committed | None:
        # As a write, so that it comes after all waiting writes: the commit may be one of them.
        return await self._ready().write(partial(find_committed, commit=commit))

    async def append_stream(self, fence: Fence, entry: StreamLogEntry) -> None:
        body = encode_row(entry, f"the stream log of thread {fence.thread_id!r}")
        await self._ready().write(
            partial(append_stream, fence=fence, number=entry.number, body=body)
        )

    async def claim(self, thread_id: str, *, at_ms: int) -> Fence:
        return await self._ready().claim(thread_id, at_ms)

    async def claim_next(
        self,
        agents: Collection[str],
        *,
        limit: int,
        at_ms: int,
        overdue_ms: int,
        skip: Collection[str] = (),
    ) -> Sequence[tuple[Fence, RunRecord]]:
        wanted = Wanted(frozenset(agents), limit, at_ms, overdue_ms, frozenset(skip))
        return await self._ready().claim_next(wanted)

    async def release(self, fence: Fence) -> None:
        await self._ready().release(fence)

    async def list_claims(self) -> Sequence[Fence]:
        engine = self._ready()
        return await engine.write(engine.list_claims, alone=True)

    async def wait_released(self, thread_id: str) -> None:
        channel = thread_channel(thread_id)
        while True:
            engine = self._ready()
            number = engine.watch.number(channel)
            owned = partial(threads.has_owner, owners=engine.owners, thread_id=thread_id)
            if not await engine.read(owned):
                return
            # The death of an owner is no change of the thread; its lock file tells of it.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await engine.wait(channel, number)

    # -- threads ------------------------------------------------------------------------------

    async def load_thread(self, thread_id: str) -> Thread | None:
        engine = self._ready()

        def load(db: sqlite3.Connection) -> Thread | None:
            row = find_thread(db, thread_id)
            return row.thread(engine.owners, engine.unreadable) if row else None

        return await engine.read(load)

    async def update_thread(
        self, thread_id: str, patch: ThreadPatch, *, expected_revision: int | None = None
    ) -> Thread:
        engine = self._ready()
        owners = engine.owners
        return await engine.write(
            lambda db: rows.update_thread(db, owners, thread_id, patch, expected_revision),
            channels=(thread_channel(thread_id),),
        )

    async def list_threads(self, query: ThreadQuery) -> Page[Thread]:
        engine = self._ready()
        return await engine.read(
            lambda db: listing.list_threads(db, engine.owners, engine.unreadable, query)
        )

    async def load_context(
        self, thread_id: str, *, tail: int | None = None
    ) -> ThreadContext | None:
        engine = self._ready()
        return await engine.read(
            lambda db: threads.load_context(db, engine.owners, engine.unreadable, thread_id, tail)
        )

    async def load_rewound(
        self, thread_id: str, to: int, *, tail: int | None = None
    ) -> ThreadContext | None:
        engine = self._ready()
        owners, unreadable = engine.owners, engine.unreadable
        return await engine.read(
            lambda db: threads.load_context(db, owners, unreadable, thread_id, tail, to)
        )

    async def load_messages(
        self, thread_id: str, *, after: int = 0, limit: int | None = None, hidden: bool = False
    ) -> Sequence[Message]:
        messages, _ = await self._ready().read(
            lambda db: threads.load_messages(db, thread_id, after, limit, hidden)
        )
        return messages

    async def load_records(
        self, thread_id: str, *, after: int = 0, limit: int | None = None, hidden: bool = False
    ) -> Sequence[MessageRecord]:
        messages, seqs = await self._ready().read(
            lambda db: threads.load_messages(db, thread_id, after, limit, hidden)
        )
        return [
            MessageRecord.from_message(thread_id, seq, message)
            for message, seq in zip(messages, seqs, strict=False)
        ]

    async def find_rewind(self, thread_id: str, message_id: str) -> int:
        return await self._ready().read(lambda db: threads.find_rewind(db, thread_id, message_id))

    async def load_events(
        self, thread_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[RunEvent]:
        return await self._ready().read(lambda db: threads.load_events(db, thread_id, after, limit))

    async def load_commits(
        self, thread_id: str, *, after: int = 0, limit: int = 200
    ) -> Sequence[CommitView]:
        return await self._ready().read(
            lambda db: threads.load_commits(db, thread_id, after, limit)
        )

    async def load_stream_log(self, thread_id: str) -> Sequence[StreamLogEntry]:
        engine = self._ready()
        return await engine.read(
            lambda db: threads.load_open_stream(db, engine.unreadable, thread_id)
        )

    async def wait_changed(self, thread_id: str, since: int) -> int:
        return await self._ready().wait(thread_channel(thread_id), since)

    async def load_thread_state(self, thread_id: str) -> PersistedState:
        return await self._ready().read(lambda db: threads.load_thread_state(db, thread_id))

    async def state_at(self, thread_id: str, seq: int) -> PersistedState:
        return await self._ready().read(lambda db: maintenance.state_at(db, thread_id, seq))

    async def fork(
        self,
        thread_id: str,
        new_id: str,
        *,
        at: int | None = None,
        at_ms: int,
        by: str | None = None,
    ) -> Thread:
        return await self._ready().write(
            lambda db: maintenance.fork(db, thread_id, new_id, at, at_ms, by),
            channels=(thread_channel(new_id),),
        )

    async def delete_thread(
        self,
        thread_id: str,
        *,
        children: ChildStrategy = ChildStrategy.REJECT,
        force: bool = False,
        at_ms: int,
    ) -> DeleteResult:
        engine = self._ready()
        is_alive = engine.owners.is_alive
        return await engine.write(
            lambda db: maintenance.delete_thread(db, is_alive, thread_id, children, force, at_ms),
            channels=(ALL,),
        )

    async def prune(self, *, before_ms: int) -> DeleteResult:
        engine = self._ready()
        is_alive = engine.owners.is_alive
        now = self._clock.now_ms()
        old = await engine.read(lambda db: maintenance.find_old(db, is_alive, before_ms))
        freed = await delete_in_batches(
            old,
            lambda batch: engine.write(
                lambda db: maintenance.delete_old(db, is_alive, batch, before_ms, now),
                channels=(ALL,),
            ),
        )
        await engine.write(lambda db: maintenance.forget_expired(db, now))
        return freed

    async def forget_scope(self, scope: str, *, at_ms: int) -> DeleteResult:
        engine = self._ready()
        is_alive = engine.owners.is_alive
        found = await engine.read(lambda db: maintenance.find_in_scope(db, scope))
        return await delete_in_batches(
            found,
            lambda batch: engine.write(
                lambda db: maintenance.delete_free(db, is_alive, batch, at_ms), channels=(ALL,)
            ),
        )

    async def filter_used_blobs(
        self, ids: Collection[str], *, thread_id: str | None = None
    ) -> frozenset[str]:
        return await self._ready().read(lambda db: threads.filter_used_blobs(db, ids, thread_id))

    async def load_request(self, thread_id: str, message_id: str) -> InferenceRequest:
        return await self._ready().read(lambda db: requests.load_request(db, thread_id, message_id))

    async def load_manifest(self, thread_id: str, message_id: str) -> RequestManifest:
        return await self._ready().read(
            lambda db: requests.load_manifest(db, thread_id, message_id)
        )

    async def compact(self) -> maintenance.Compacted:
        """Free the disk space of deleted threads, and remove the lock files of dead owners."""
        engine = self._ready()
        path, tidy = engine.address.path, engine.owners.tidy
        return await engine.write(lambda db: maintenance.compact(db, path, tidy), alone=True)

    # -- searching ----------------------------------------------------------------------------

    async def list_heads(self, *, after: str = "", limit: int = 1000) -> Sequence[ThreadHead]:
        return await lazy_search.SqliteHeads(self._ready).list_heads(after, limit)

    async def list_active_heads(self, *, since_ms: int) -> Sequence[ThreadHead]:
        return await lazy_search.SqliteHeads(self._ready).list_active(since_ms)

    def search_index(self) -> SearchIndex:
        if self.path == MEMORY:
            return lazy_search.MemorySearchIndex(self._clock)
        path = f"{os.path.realpath(self.path)}-search"
        return lazy_search.SqliteSearchIndex(path, self._clock)

    # -- runs ---------------------------------------------------------------------------------

    async def load_run(self, run_id: str) -> RunRecord | None:
        return await self._ready().read(lambda db: runs.load_run(db, run_id))

    async def latest_run(self, thread_id: str) -> RunRecord | None:
        return await self._ready().read(lambda db: runs.latest_run(db, thread_id))

    async def list_runs(self, query: RunQuery) -> Page[RunRecord]:
        engine = self._ready()
        return await engine.read(lambda db: listing.list_runs(db, engine.unreadable, query))

    async def list_interrupted(
        self, *, now_ms: int, thread_id: str | None = None, limit: int | None = None
    ) -> Sequence[RunRecord]:
        engine = self._ready()
        owners, unreadable = engine.owners, engine.unreadable
        return await engine.read(
            lambda db: runs.list_interrupted(db, owners, unreadable, now_ms, thread_id, limit)
        )

    async def load_run_state(self, run_id: str) -> PersistedState:
        return await self._ready().read(lambda db: runs.load_run_state(db, run_id))

    async def load_calls(self, run_id: str) -> Sequence[CallEntry]:
        return await self._ready().read(lambda db: runs.load_calls(db, run_id))

    # -- tickets and commands -----------------------------------------------------------------

    async def list_tickets(self, query: TicketQuery) -> Page[Ticket]:
        engine = self._ready()
        return await engine.read(lambda db: listing.list_tickets(db, engine.unreadable, query))

    async def send(self, command: ThreadCommand) -> int:
        body = commands.pack_command(command)
        return await self._ready().write(
            lambda db: commands.send(db, command, body),
            channels=(COMMANDS, thread_channel(command.thread_id)),
        )

    async def submit(self, submission: Submission) -> Submitted:
        packed = pack_submission(submission)
        engine = self._ready()
        is_one = submission.mode is not SubmitMode.INTERRUPT
        channels = (COMMANDS, thread_channel(submission.thread_id)) if is_one else (ALL,)
        return await engine.write(
            lambda db: submissions.submit(db, engine.owners, engine.unreadable, packed),
            channels=channels,
        )

    async def decide(
        self, thread_id: str, decisions: Sequence[Decision], *, at_ms: int
    ) -> int | None:
        encode_row(tuple(decisions), f"decisions for thread {thread_id!r}", tuple[Decision, ...])
        engine = self._ready()
        return await engine.write(
            lambda db: commands.decide(db, engine.unreadable, thread_id, decisions, at_ms),
            channels=(COMMANDS, thread_channel(thread_id)),
        )

    async def cancel_tree(
        self, thread_id: str, *, at_ms: int, by: str | None = None
    ) -> Sequence[Thread]:
        engine = self._ready()
        owners, unreadable = engine.owners, engine.unreadable
        return await engine.write(
            lambda db: commands.cancel_tree(db, owners, unreadable, thread_id, at_ms, by),
            channels=(ALL,),
        )

    async def load_commands(
        self, thread_id: str, *, skip: Collection[int] = ()
    ) -> Sequence[ThreadCommand]:
        engine = self._ready()
        return await engine.read(
            lambda db: commands.load_commands(db, engine.unreadable, thread_id, skip)
        )

    async def is_pending(self, id: int) -> bool:
        return await self._ready().read(
            lambda db: db.execute(queries.IS_PENDING, (id,)).fetchone() is not None
        )

    async def list_outboxes(self) -> Sequence[str]:
        engine = self._ready()
        return await engine.read(lambda db: commands.list_outboxes(db, engine.owners))

    async def watch_commands(self) -> AsyncGenerator[set[str], None]:
        poller = CommandPoller(asyncio.get_running_loop().time)
        is_first = True
        while True:
            engine, after = self._ready(), poller.read_after
            number = engine.watch.number(COMMANDS)
            now = self._clock.now_ms()
            named = poller.select_threads(
                await engine.read(partial(_waiting, engine, after, now)), after
            )
            if named or is_first:
                is_first = False
                yield named
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(poller.seconds_left):
                    await engine.wait(COMMANDS, number)


def _waiting(engine: Engine, after: int, now_ms: int, db: sqlite3.Connection) -> dict[int, str]:
    return commands.waiting(db, engine.owners, after, now_ms)
