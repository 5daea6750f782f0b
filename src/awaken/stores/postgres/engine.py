"""The connections of an open store, and what this node owns in it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import TypeVar

from awaken.core.aio.callbacks import Callbacks
from awaken.core.aio.owned_tasks import OwnedTasks, start_task
from awaken.core.store.commits import Fence
from awaken.errors import StoreUnavailable, UnreadableRecord
from awaken.stores.postgres.address import Address
from awaken.stores.postgres.connections import (
    ConnectionPool,
    Connector,
    Db,
    Schema,
    check_pooler,
    end,
)
from awaken.stores.postgres.errors import AGAIN, explain, is_lost, is_read_only
from awaken.stores.postgres.lease import Heart, PostgresLease
from awaken.stores.postgres.migrations import check_standbys, prepare
from awaken.stores.postgres.notifications import (
    COMMANDS,
    COMPARE_SECONDS,
    Channel,
    Listener,
    Watch,
    compare_marks,
    release,
    send_hints,
    wait_set,
)
from awaken.stores.postgres.rows import name_commit, owner_name
from awaken.stores.postgres.state import save_snapshot
from awaken.stores.postgres.submissions import ThreadAppeared
from awaken.stores.postgres.writer import MAX_WAIT_SECONDS, CommitWriter
from awaken.stores.sql.cursors import UnreadableCommit, UnreadableRows
from awaken.stores.sql.migrations import load_migrations
from awaken.stores.waiting import POLL_SECONDS, CommandPoller
from awaken.stores.write_health import WriteHealth

T = TypeVar("T")
log = logging.getLogger("awaken.stores")

_ATTEMPTS = 8
_PAUSE = 0.1
_TOUCH = "UPDATE @nodes SET pid = pid WHERE id = ?"
_HAS_WRITTEN = "SELECT pg_current_xact_id_if_assigned() IS NOT NULL"
_END_SESSIONS = "SELECT pg_terminate_backend(pid, 5000) FROM unnest(?::int[]) AS pid"


class Engine:
    """An open database, used by one event loop."""

    def __init__(
        self,
        address: Address,
        lease: PostgresLease,
        batches: Callbacks[tuple[int, float]],
        unreadable: UnreadableRows,
        writes: WriteHealth,
    ) -> None:
        self.address = address
        self._batches, self._writes = batches, writes
        self.schema = Schema(address.schema)
        self.watch = Watch()
        self.unreadable = unreadable
        self.held: dict[str, Fence] = {}
        self.loop = asyncio.get_running_loop()
        self.pid = os.getpid()
        self._connector = Connector(address)
        self.pool = ConnectionPool(address.pool, self._connector.connect)
        self._tasks = OwnedTasks(log)
        self._poll_now = asyncio.Event()
        self._threads_to_hint: set[str] = set()
        self._snapshots: set[int] = set()
        self._is_listening = False
        self._no_commands_at = 0.0
        self._listener = Listener(address, self._connector, self.watch, self._poll_now.set)
        self.heart = Heart(address, self.schema, lease, lambda: list(self.held.values()), writes)
        self.writer: CommitWriter

    @property
    def node(self) -> int:
        return self.heart.node

    @property
    def owner(self) -> str:
        return owner_name(self.node)

    @property
    def _poll_seconds(self) -> float:
        """Seconds after which a node reads the pending commands, even without a hint."""
        return POLL_SECONDS / 4 if self._listener.is_deaf else POLL_SECONDS

    async def start(self) -> None:
        """
        Raises:
            StoreUnavailable: the database cannot be used; the text says what to do.
        """
        connection = None
        try:
            if self.address.dsn != self.address.direct:
                async with self.pool.use() as pooled:
                    await check_pooler(pooled, self.address, direct=False)
            connection = await self._connector.connect(direct=True)
            await check_pooler(connection, self.address, direct=True)
            await prepare(connection, self.address, load_migrations("postgres"))
            await check_standbys(connection, self.address)
            await self.heart.start(connection)
        except Exception as error:
            if connection is not None:
                await end(connection)
            await self.pool.close()
            raise explain(self.address.display, error) from error
        if self.address.is_pooled:
            await end(connection)
        else:
            self.pool.give(connection)
        self.writer = CommitWriter(
            self.address.display, self.schema, self._connector.connect, self._batches, self._writes
        )

    async def close(self) -> None:
        """Finish the writes under way, and release every thread of this node."""
        await self.writer.close()
        await self._tasks.close(5.0)
        try:
            await self.read(self.heart.stop)
        except StoreUnavailable as error:
            log.warning("%s could not release its threads: %s", self.owner, error)
        self.watch.mark_all()
        await self.pool.close()
        await self._connector.close()

    # -- reading and writing ------------------------------------------------------------------

    async def read(self, work: Callable[[Db], Awaitable[T]], *, patience: float = 0.0) -> T:
        """Run `work`, whose statements are transactions of their own.

        A connection that turns out to be broken is replaced once, since reading may be repeated.
        """
        until = self.loop.time() + patience
        has_failed = False
        while True:
            try:
                async with self.pool.use() as connection:
                    return await self._do(work, Db(connection, self.schema))
            except Exception as error:
                if not is_lost(error) or (has_failed and self.loop.time() >= until):
                    raise explain(self.address.display, error) from error
                if has_failed:
                    await asyncio.sleep(_PAUSE)
                has_failed = True

    async def _do(self, work: Callable[[Db], Awaitable[T]], db: Db) -> T:
        """Do `work`. If it fails because a row cannot be decoded, the error names the row."""
        try:
            return await work(db)
        except UnreadableRecord as error:
            self.unreadable.note_record(error)
            raise
        except UnreadableCommit as error:
            named = await name_commit(db, error)
            self.unreadable.note_record(named)
            raise named from error

    async def write(
        self,
        work: Callable[[Db], Awaitable[T]],
        *,
        channels: Sequence[Channel] = (),
        tells: Collection[str] = (),
    ) -> T:
        """Run `work` in a transaction. `tells` are the threads that get commands in it.

        While the store is known to refuse writes, a transaction is asked whether it has written: it
        does not tell if it has not.
        """
        for attempt in range(_ATTEMPTS):
            try:
                answer = await self._transact(work, tells)
                break
            except (*AGAIN, ThreadAppeared, _NothingWritten) as error:
                if attempt == _ATTEMPTS - 1:
                    raise self._explain(error.__cause__ or error) from error
            except Exception as error:
                raise self._explain(error) from error
        self.watch.mark(channels)
        return answer

    def _explain(self, error: BaseException) -> BaseException:
        """The error that the caller of a write gets; see `explain`."""
        answer = explain(self.address.display, error)
        self._writes.note_error(answer)
        return answer

    async def _transact(self, work: Callable[[Db], Awaitable[T]], tells: Collection[str]) -> T:
        async with self.pool.use() as connection:
            transaction = connection.transaction()
            try:
                await transaction.start()
            except Exception as error:
                if is_lost(error):
                    connection.terminate()
                    raise _NothingWritten from error  # a kept connection that the server had closed
                raise
            has_written = False
            try:
                async with contextlib.AsyncExitStack() as stack:
                    stack.push_async_exit(transaction.__aexit__)
                    db = Db(connection, self.schema)
                    answer = await self._do(work, db)
                    if tells:
                        await send_hints(db, tells)
                    if self._writes.is_refusing:
                        has_written = await db.value(_HAS_WRITTEN)
            except Exception as error:
                if is_read_only(error):
                    connection.terminate()
                    raise _NothingWritten from error  # a kept connection to what is a standby now
                raise
            if has_written:
                self._writes.note_success()
            return answer

    async def end_lost_sessions(self) -> None:
        """End the sessions that may still be writing a batch whose answer was lost."""
        lost = self.writer.take_lost()
        # A pooler's sessions are not ours to end; there, the lock of the thread decides.
        if lost and not self.address.is_pooled:
            await self.read(lambda db: db.rows(_END_SESSIONS, lost), patience=MAX_WAIT_SECONDS)

    # -- beside the commits -------------------------------------------------------------------

    def snapshot_later(self, thread: int, position: int) -> None:
        """Store a snapshot of a thread's state; nothing depends on when. While the snapshot is
        being written, commits of its thread do not start another one."""
        if thread in self._snapshots:
            return
        self._snapshots.add(thread)
        work = self._save_snapshot(thread, position)
        task = self._tasks.start_logged(work, "a snapshot was not written")
        task.add_done_callback(lambda _: self._snapshots.discard(thread))

    async def _save_snapshot(self, thread: int, position: int) -> None:
        # Readers of a commit that cannot be decoded say so; they can do without a snapshot.
        with contextlib.suppress(UnreadableRecord):
            await self.read(lambda db: save_snapshot(db, thread, position))

    def hint_later(self, thread_ids: Collection[str]) -> None:
        """Send nodes hints of threads in which a commit has left work; a commit sends none itself.
        Threads that are added before they are sent share a statement."""
        if not self._threads_to_hint:
            self._tasks.start_logged(self.read(self._send_hints), "a hint was not given")
        self._threads_to_hint.update(thread_ids)

    async def _send_hints(self, db: Db) -> None:
        thread_ids, self._threads_to_hint = self._threads_to_hint, set()
        await send_hints(db, thread_ids)

    # -- ownership ----------------------------------------------------------------------------

    async def release(self, fence: Fence) -> None:
        try:
            await self.read(
                lambda db: release(db, self._node_of(fence), fence.thread_id, fence.epoch),
                patience=MAX_WAIT_SECONDS,
            )
        except StoreUnavailable as error:
            self._writes.note_error(error)
            raise
        self.forget(fence)

    async def check_write(self) -> None:
        """See `Store.check_write`."""
        await self.write(lambda db: db.run(_TOUCH, self.node))

    def _node_of(self, fence: Fence) -> int:
        return self.node if fence.owner == self.owner else -1

    def release_later(self, fences: Iterable[Fence]) -> None:
        """Release threads without waiting."""
        for fence in fences:
            self._tasks.start_logged(self.release(fence), "a thread was not released")

    def forget(self, fence: Fence) -> None:
        """Note that a claim was given up."""
        if self.held.get(fence.thread_id) == fence:
            del self.held[fence.thread_id]
        self.watch.mark([fence.thread_id])

    # -- waiting ------------------------------------------------------------------------------

    async def wait(self, channel: Channel, since: int) -> int:
        """Wait until the channel has a change after number `since`, and return its number."""
        if not self._is_listening:
            self._is_listening = True
            self._tasks.start_repeating(
                lambda: self._listener.listen(self.node), 1.0, "hints are not heard"
            )
            self._tasks.start_repeating(self._poll_changes, 1.0, "changes are not seen")
        self._poll_now.set()
        return await self.watch.wait(channel, since)

    def note_poll(self, at: float, *, finds_commands: bool) -> None:
        """Note whether a look that began at time `at` has found commands for this node."""
        if finds_commands:
            self.watch.mark([COMMANDS])
        else:
            self._no_commands_at = at

    async def wait_for_commands(self, poller: CommandPoller, since: int) -> None:
        """Wait until commands have to be read: after a hint, or because the last look for them was
        too long ago."""
        while True:
            try:
                async with asyncio.timeout(min(poller.seconds_left, self._poll_seconds)):
                    await self.wait(COMMANDS, since)
                return
            except TimeoutError:
                if self._listener.is_deaf or not poller.defer(self._no_commands_at):
                    return

    async def _poll_changes(self) -> None:
        """Look again and again at the threads that tasks wait for."""
        while True:
            await wait_set(self._poll_now, COMPARE_SECONDS if self.watch.waiting_threads else 3600)
            await asyncio.sleep(0)  # so that a task that is about to wait does
            if self.watch.waiting_threads:
                await self.read(lambda db: compare_marks(db, self.watch))


class _NothingWritten(Exception):
    """The connection was of no use, and nothing was written: another one may do."""


class EngineOpener:
    """Opens the engine of a store when it is first used, and again after it was closed."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.lease = PostgresLease(self.engine, address.lease)
        self.batches: Callbacks[tuple[int, float]] = Callbacks()
        self.unreadable = UnreadableRows()
        self.writes = WriteHealth()
        self._engine: Engine | None = None
        self._starting: asyncio.Task[Engine] | None = None
        self._is_closed = False

    @property
    def owner(self) -> str:
        """The name of this node; empty before the store is open."""
        return self._engine.owner if self._engine is not None else ""

    async def open(self) -> Engine:
        self._is_closed = False
        return await self.engine()

    async def engine(self) -> Engine:
        """The engine of the open store.

        Raises:
            StoreUnavailable: the store was closed, is used by another event loop, or cannot be
                opened.
        """
        if self._is_closed:
            raise StoreUnavailable(f"the store of {self.address.display} was closed: open it again")
        loop = asyncio.get_running_loop()
        engine = self._engine
        if engine is not None and engine.loop is loop and engine.pid == os.getpid():
            return engine
        if engine is not None:
            self._leave(engine)
        if self._starting is None or self._starting.get_loop() is not loop:
            self._starting = start_task(self._start())
        return await asyncio.shield(self._starting)

    def _leave(self, engine: Engine) -> None:
        """Give up the engine of an event loop that is gone, or of the process before a fork."""
        if engine.pid == os.getpid() and not engine.loop.is_closed():
            raise StoreUnavailable(
                f"the store of {self.address.display} is used by another event loop: give each its "
                "own store"
            )
        if engine.pid == os.getpid():
            engine.heart.abandon()
        self._engine = None

    async def _start(self) -> Engine:
        try:
            engine = Engine(self.address, self.lease, self.batches, self.unreadable, self.writes)
            await engine.start()
            self._engine = engine
            return engine
        finally:
            self._starting = None

    def abandon(self) -> None:
        """Release the threads of a store that is never closed, without waiting."""
        if self._engine is not None:
            self._engine.heart.abandon()

    async def close(self) -> None:
        self._is_closed = True
        if self._starting is not None:
            with contextlib.suppress(StoreUnavailable):
                await asyncio.shield(self._starting)
        engine, self._engine = self._engine, None
        if engine is not None and engine.loop is asyncio.get_running_loop():
            await engine.close()
