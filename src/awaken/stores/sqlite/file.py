"""The file of a SQLite store, and this process as an owner in it."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.aio.callbacks import Callbacks
from awaken.core.store.store import Process
from awaken.core.unreadable import RowKind
from awaken.errors import StoreUnavailable
from awaken.ids import UUID7, Ids
from awaken.stores.sql import queries
from awaken.stores.sql.cursors import UnreadableRows
from awaken.stores.sql.row_check import RowChange, StoredRow
from awaken.stores.sqlite import row_check
from awaken.stores.sqlite.access import SqliteAccess
from awaken.stores.sqlite.address import MEMORY, address_of, parse_address
from awaken.stores.sqlite.engine import Engine
from awaken.stores.sqlite.owners import new_owner
from awaken.stores.sqlite.profiles import SqliteProfiles
from awaken.stores.sqlite.watch import Watch
from awaken.stores.sqlite.writer import ALL, Batch
from awaken.stores.write_health import WriteHealth


class SqliteFile:
    """A file that is open, or will be: `SqliteStore` adds the operations on what it holds.

    The constructor does not touch the file; the first operation opens it. Several event loops may
    use one store, one after the other or at once.
    """

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
        self._finalizer: weakref.finalize[..., SqliteFile] | None = None
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
        await self._ready().write(_check_write, lost=lambda db: None)

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
            self._engine.release_again()
            return self._engine


def _check_write(db: sqlite3.Connection) -> None:
    # An update that leaves a row as it is would write no page.
    db.execute("INSERT INTO epochs (floor) VALUES (0)")
    db.execute("DELETE FROM epochs WHERE rowid = last_insert_rowid()")
