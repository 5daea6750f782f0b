"""The threads behind an open store, and the doors to them from an event loop."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from typing import TypeVar

from awaken.contract.commits import Fence
from awaken.stores.sql import queries
from awaken.stores.sql.migrations import load_migrations
from awaken.stores.sqlite.address import MEMORY, Address
from awaken.stores.sqlite.jobs import Job
from awaken.stores.sqlite.opening import open_reader, open_writer
from awaken.stores.sqlite.owners import Owners
from awaken.stores.sqlite.reader import Reader
from awaken.stores.sqlite.unreadable import Unreadable
from awaken.stores.sqlite.watch import Watch
from awaken.stores.sqlite.writer import Writer

T = TypeVar("T")


class Engine:
    """One opening of a file, from its first connection to the end of its threads."""

    def __init__(self, address: Address, owner: str, watch: Watch) -> None:
        self.address = address
        self.owners = Owners(address.path, owner)
        self.unreleased: list[Fence] = []
        self.held: set[str] = set()  # threads this owner has; touched by the writer alone
        self.watch = watch
        self.unreadable = Unreadable()
        # A database in memory belongs to its connection: there is no second one to read by.
        self._reader = (
            None
            if address.path == MEMORY
            else Reader(address.path, self._open_reader, lambda error: self.writer.note(error))
        )
        self.writer = Writer(address.path, self.watch, self._open, self._finish)

    async def write(
        self,
        work: Callable[[sqlite3.Connection], T],
        *,
        channels: tuple[str, ...] = (),
        lost: Callable[[sqlite3.Connection], T | None] | None = None,
        alone: bool = False,
    ) -> T:
        """Do work in a transaction, with whoever else waits."""
        job = Job(work, channels=channels, lost=lost, alone=alone)
        self.writer.put(job)
        return await job.future

    def write_later(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """The same, with nobody who waits for it."""
        self.writer.put(Job(work))

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do work that only reads, at one instant."""
        self.writer.check()
        job = Job(work)
        (self._reader or self.writer).put(job)
        return await job.future

    async def wait(self, channel: str, since: int) -> int:
        """Wait until the channel has a change behind number `since`, and return its number."""
        future = self.watch.wait(channel, since)
        if future is not None:
            try:
                self.writer.nudge()
                await future
            finally:
                self.watch.leave(channel, future)
        return self.watch.number(channel)

    async def close(self) -> None:
        await self.writer.stop()

    # -- on the threads -----------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        try:
            return open_writer(self.address, load_migrations("sqlite"))
        except BaseException:
            if self._reader is not None:
                self._reader.stop(wait=False)
            raise

    def _open_reader(self) -> sqlite3.Connection:
        self.writer.wait_until_open()
        return open_reader(self.address)

    def _finish(self, db: sqlite3.Connection) -> None:
        """Give up what this owner holds, and leave one file behind."""
        if self._reader is not None:
            self._reader.stop()
        # If the disk refuses, the lock's end says the same: this owner is gone.
        with contextlib.suppress(sqlite3.Error):
            if self.held:
                db.execute("BEGIN IMMEDIATE")
                mine = [(thread_id, self.owners.me) for thread_id in self.held]
                db.executemany(queries.RELEASE_OWNED, mine)
                db.execute("COMMIT")
            db.execute("PRAGMA busy_timeout = 0")  # whoever else is there will tidy up the log
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.owners.give_up()
