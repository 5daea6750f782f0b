"""The engine of an open store: its operating-system threads, and how coroutines hand them work.

The thread that reads has a connection of its own, so that reads never delay a commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from awaken.core.aio.callbacks import Callbacks
from awaken.core.run import RunRecord
from awaken.core.store.commits import Fence
from awaken.errors import StoreUnavailable
from awaken.stores.sql import queries
from awaken.stores.sql.cursors import UnreadableRows
from awaken.stores.sql.migrations import load_migrations
from awaken.stores.sql.submissions import Wanted
from awaken.stores.sqlite.address import MEMORY, Address
from awaken.stores.sqlite.commit import write_claim
from awaken.stores.sqlite.errors import explain
from awaken.stores.sqlite.jobs import ResultBatch, StoreJob
from awaken.stores.sqlite.open import Presence, make_private, open_reader, open_writer
from awaken.stores.sqlite.owners import Owners
from awaken.stores.sqlite.submissions import claim_next, find_next
from awaken.stores.sqlite.watch import Watch, thread_channel
from awaken.stores.sqlite.writer import Batch, WriterThread
from awaken.stores.write_health import WriteHealth

T = TypeVar("T")


class Engine:
    """An open database file: its connections, its threads, and what this store owns in it."""

    def __init__(
        self,
        address: Address,
        owner: str,
        watch: Watch,
        batches: Callbacks[Batch],
        unreadable: UnreadableRows,
        writes: WriteHealth,
    ) -> None:
        self.address = address
        self.owners = Owners(address.path, owner)
        self.unreleased: list[Fence] = []
        """The threads whose release failed; see `release_again`."""
        # What this store has claimed; used by the writer's thread only. It may include a claim
        # that was rolled back: releasing that has no effect.
        self.held: set[Fence] = set()
        self.watch = watch
        self.unreadable = unreadable
        self._presence = Presence(address.path)
        # A database in memory belongs to one connection, so there can be no second one to read.
        self._reader = (
            None
            if address.path == MEMORY
            else ReaderThread(
                address.path,
                self._presence,
                unreadable,
                self._open_reader,
                lambda error: self.writer.note_damage(error),
            )
        )
        self.writer = WriterThread(
            address.path,
            self._presence,
            watch,
            batches,
            writes,
            unreadable,
            self._open,
            self._finish,
        )
        self.write = self.writer.submit
        """Runs work in a transaction; returns a future."""

    def read(self, work: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Run `work` in a read transaction: it sees the database at one instant."""
        if self._reader is None:
            return self.write(work)
        if self.writer.is_over:
            raise self.writer.make_end_error()
        return self._reader.submit(work)

    # -- claims -------------------------------------------------------------------------------

    async def claim(self, thread_id: str, at_ms: int) -> Fence:
        """See `Commits.claim`."""
        claimed: list[Fence] = []

        def write(db: sqlite3.Connection) -> Fence:
            claimed[:] = [self._claim(db, thread_id, at_ms)]
            return claimed[0]

        try:
            return await self.write(write)
        except asyncio.CancelledError:
            # The caller never gets the fence, so it could not release the thread.
            self.release_later(claimed)
            raise

    async def claim_next(self, wanted: Wanted) -> Sequence[tuple[Fence, RunRecord]]:
        """See `Commits.claim_next`."""
        # Most of the time there is nothing to claim, and reading is cheaper than a transaction.
        find = partial(find_next, owners=self.owners, unreadable=self.unreadable, wanted=wanted)
        if not await self.read(find):
            return ()
        claimed: list[Fence] = []

        def write(db: sqlite3.Connection) -> Sequence[tuple[Fence, RunRecord]]:
            claimed.clear()

            def claim(thread_id: str) -> Fence:
                claimed.append(self._claim(db, thread_id, wanted.at_ms))
                return claimed[-1]

            return claim_next(db, self.owners, self.unreadable, wanted, claim)

        try:
            return await self.write(write)
        except asyncio.CancelledError:
            self.release_later(claimed)
            raise

    def _claim(self, db: sqlite3.Connection, thread_id: str, at_ms: int) -> Fence:
        fence = write_claim(db, self.owners, thread_id, at_ms)
        self.held.add(fence)
        return fence

    async def release(self, fence: Fence) -> None:
        """Release a thread. A release that fails is tried again later: while this store is alive,
        no other owner could claim the thread."""
        await self.write(
            partial(_release, [fence]),
            channels=(thread_channel(fence.thread_id),),
            ended=partial(self._on_released, [fence]),
        )

    def release_later(self, fences: Sequence[Fence]) -> None:
        """Release threads without waiting. `fences` is read when the job runs."""
        self.writer.put(
            StoreJob(partial(_release, fences), ended=partial(self._on_released, fences))
        )

    def release_again(self) -> None:
        """Try again to release the threads whose release failed."""
        fences, self.unreleased = self.unreleased, []
        self.release_later(fences)

    def list_claims(self, db: sqlite3.Connection) -> list[Fence]:
        """The claims in `held` that the database has. For the writer's thread."""
        found: list[Fence] = []
        for fence in self.held:
            row = db.execute(queries.OWNER, (fence.thread_id,)).fetchone()
            if row is not None and (row[1], row[2]) == (fence.owner, fence.epoch):
                found.append(fence)
        return found

    def _on_released(self, fences: Sequence[Fence], error: BaseException | None) -> None:
        if error is None:
            self.held.difference_update(fences)
        else:
            self.unreleased.extend(fences)

    def on_release_committed(self, fence: Fence, error: BaseException | None) -> None:
        """Called when a commit with `release` has ended; its caller handles an error."""
        if error is None:
            self.held.discard(fence)

    # -- waiting ------------------------------------------------------------------------------

    async def wait(self, channel: str, since: int) -> int:
        """Wait until the channel has a change after number `since`, and return its number."""
        future = self.watch.wait(channel, since)
        if future is not None:
            try:
                self.writer.put(None)
                await future
            finally:
                self.watch.leave(channel, future)
        return self.watch.number(channel)

    async def close(self) -> None:
        await self.writer.stop()

    # -- on the threads -----------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        try:
            make_private(self.address.path)
            self._presence.begin()
            return open_writer(self.address, load_migrations("sqlite"))
        except BaseException:
            if self._reader is not None:
                self._reader.stop(wait=False)
            raise

    def _open_reader(self) -> sqlite3.Connection:
        self.writer.wait_until_open()
        return open_reader(self.address)

    def _finish(self, db: sqlite3.Connection) -> None:
        """Release what this store owns, and move the write-ahead log into the database file."""
        if self._reader is not None:
            self._reader.stop()
        # If the disk refuses, giving up the lock file below tells others the same.
        with contextlib.suppress(sqlite3.Error, StoreUnavailable):
            self._presence.check()
            if self.held:
                db.execute("BEGIN IMMEDIATE")
                _release(list(self.held), db)
                db.execute("COMMIT")
            db.execute(
                "PRAGMA busy_timeout = 0"
            )  # another process with the file open does it later
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.owners.unlock()


def _release(fences: Sequence[Fence], db: sqlite3.Connection) -> None:
    db.executemany(
        queries.RELEASE, [(fence.thread_id, fence.owner, fence.epoch) for fence in fences]
    )


class ReaderThread:
    """Runs read jobs one after the other, on its own thread."""

    def __init__(
        self,
        path: str,
        presence: Presence,
        unreadable: UnreadableRows,
        open: Callable[[], sqlite3.Connection],
        on_error: Callable[[Exception], None],
    ) -> None:
        self._path = path
        self._presence = presence
        self._unreadable = unreadable
        self._open = open
        self._on_error = on_error
        self._queue: queue.SimpleQueue[StoreJob[Any] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def submit(self, work: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Run `work` in a read transaction.

        Raises:
            StoreUnavailable: the store was closed.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._stopping:
                raise StoreUnavailable(f"the store of {self._path} was closed: open it again")
            self._queue.put(StoreJob(work, future))
            if self._thread is None:
                name = f"awaken reads {self._path}"
                self._thread = threading.Thread(target=self._main, name=name, daemon=True)
                self._thread.start()
        return future

    def stop(self, *, wait: bool = True) -> None:
        """Finish the queued jobs, then end the thread."""
        with self._lock:
            self._stopping = True
            self._queue.put(None)
        if wait and self._thread is not None:
            self._thread.join()

    def _main(self) -> None:
        db: sqlite3.Connection | None = None
        while (job := self._queue.get()) is not None:
            try:
                db = db or self._open()
                self._read(db, job)
            except Exception as error:
                self._on_error(error)
                job.error = explain(self._path, error, doing="read")
            results = ResultBatch()
            job.finish(results)
            results.send()
        if db is not None:
            db.close()

    def _read(self, db: sqlite3.Connection, job: StoreJob[Any]) -> None:
        self._presence.check()
        db.execute("BEGIN")
        try:
            job.run(db, self._unreadable)
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")
