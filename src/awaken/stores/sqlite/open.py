"""Opening a database: the file is created, checked, or migrated to this version.

A file of another program, or of a later version, is refused before anything is written to it.

While the database is open, `Presence` checks that the files are still the ones at their paths. A
file that was deleted, or replaced by a restore, stays open and takes every commit, but no other
process would ever read those commits.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from urllib.parse import quote

from awaken.errors import StoreUnavailable
from awaken.stores.sql import queries
from awaken.stores.sql.migrations import Migration
from awaken.stores.sqlite.address import MEMORY, Address
from awaken.stores.sqlite.errors import code_of, explain, why_not_opened

APPLICATION_ID = 0x41574B4E  # "AWKN", in the file's header: this database is ours

# A commit changes a few small rows. With pages of 1 KB it writes 6 to 8 KB of log instead of 16 to
# 27 KB with SQLite's default of 4 KB, at the same CPU time; long rows use overflow pages.
_PAGE_SIZE = 1024
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag
# SQLite's text for a name that is in use.
_NAME_EXISTS = re.compile(r"(?:^|already an? )(table|index)(?: named)? (\w+)(?: already exists)?$")
_NO_ACCESS = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_CHECKPOINT_PAGES = 4096
_LOG_BYTES = 16 * 1024 * 1024  # the log file is cut back to this after a very large commit


def make_private(path: str) -> None:
    """Create the file so that only this user may use it; an existing file keeps its permissions.

    SQLite gives the files it puts beside a database the same permissions.
    """
    if path == MEMORY:
        return
    # If this fails, SQLite will fail to create the file too, and say why.
    with contextlib.suppress(OSError):
        # Only a new file is opened here: closing an existing one would drop SQLite's locks on it.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def open_writer(address: Address, migrations: Sequence[Migration]) -> sqlite3.Connection:
    """A connection for writing, to a file that is created or migrated if needed.

    Raises:
        StoreUnavailable: the file cannot be used; the text says why and what to do.
    """
    path = address.path
    if path != MEMORY and not os.path.isdir(os.path.dirname(path)):
        raise StoreUnavailable(why_not_opened(path))
    try:
        connection = _connect(address)
        try:
            _prepare(connection, address, migrations)
        except BaseException:
            connection.close()
            raise
    except sqlite3.Error as error:
        raise explain(path, error, doing="opened") from error
    return connection


def open_reader(address: Address) -> sqlite3.Connection:
    """A read-only connection to a file that a writer has opened."""
    try:
        connection = _connect(address)
        connection.execute("PRAGMA query_only = 1")
    except sqlite3.Error as error:
        raise explain(address.path, error, doing="opened") from error
    return connection


class Presence:
    """Remembers the device and inode of the database file and its log from their opening."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._names = () if path == MEMORY else (path, f"{path}-wal")
        self._known: dict[str, tuple[int, int]] = {}
        self._missing: str | None = None

    def begin(self) -> None:
        """Remember the database file, which is about to be opened.

        Not the log: another process may still remove the one that is there now.
        """
        for name in self._names[:1]:
            self._look(name)

    def check(self) -> None:
        """Check both files. A file that is new is remembered.

        Raises:
            StoreUnavailable: a file was deleted or replaced, now or at an earlier check.
        """
        for name in self._names:
            if self._missing is None:
                self._look(name)
        if self._missing is not None:
            # For good: what was written since then may be in neither of the two files.
            raise StoreUnavailable(
                f"{self._missing} was deleted or replaced while the database {self._path} was "
                "open: nothing more is written or read; find out what did that, then close the "
                "store and open it again"
            )

    def _look(self, name: str) -> None:
        try:
            there = os.stat(name)
        except (FileNotFoundError, NotADirectoryError):
            if name in self._known:
                self._missing = name
        except OSError:
            pass  # no permission to check: that says nothing about the file
        else:
            found = (there.st_dev, there.st_ino)
            if self._known.setdefault(name, found) != found:
                self._missing = name


def _connect(address: Address) -> sqlite3.Connection:
    try:
        return _configure(address, address.path)
    except sqlite3.OperationalError as error:
        if code_of(error) not in _NO_ACCESS or not _is_still(address.path):
            raise
        # SQLite may not even create the file that readers share, so no process can be writing.
        return _configure(address, f"file:{quote(address.path)}?immutable=1", uri=True)


def _is_still(path: str) -> bool:
    """Whether the file has no write-ahead log and this process could not create one."""
    return (
        os.access(path, os.R_OK)
        and not os.access(os.path.dirname(path), os.W_OK)
        and not os.path.exists(f"{path}-wal")
    )


def _configure(address: Address, name: str, *, uri: bool = False) -> sqlite3.Connection:
    connection = sqlite3.connect(
        name,
        timeout=address.busy_timeout,
        isolation_level=None,  # this code begins and ends transactions itself
        check_same_thread=False,  # used by one thread at a time; another one may close it
        cached_statements=256,
        uri=uri,
    )
    try:
        connection.execute(f"PRAGMA synchronous = {address.synchronous}")
    except BaseException:
        connection.close()
        raise
    return connection


# -- versions ---------------------------------------------------------------------------------


def _prepare(db: sqlite3.Connection, address: Address, migrations: Sequence[Migration]) -> None:
    latest = len(migrations)
    db.execute("BEGIN")  # one instant for both checks: another process may be creating the file
    try:
        version = _version(db, address.path, latest)
        _check_application(db, address.path)
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")
    if version == latest and not os.access(address.path, os.W_OK):
        return  # the file can be read; an attempt to write will raise
    if version == 0:
        db.execute(f"PRAGMA page_size = {_PAGE_SIZE}")
    _use_wal(db, address)
    db.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
    db.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
    if version == latest:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have migrated the file while this one waited for the lock.
        version = _version(db, address.path, latest)
        if 0 < version < latest:
            _copy(address, f"{address.path}.v{version}.bak")
        for step in migrations[version:]:
            for statement in _statements(step.script):
                _migrate(db, address.path, statement)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {latest}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _migrate(db: sqlite3.Connection, path: str, statement: str) -> None:
    """Carry out a statement of a migration.

    Raises:
        StoreUnavailable: the user has a table or an index of the name that awaken needs now.
    """
    try:
        db.execute(statement)
    except sqlite3.OperationalError as error:
        taken = _NAME_EXISTS.search(str(error))
        if taken is None:
            raise
        raise StoreUnavailable(
            f"database {path} has the {taken[1]} {taken[2]!r}, which awaken did not create, and "
            "this version needs that name; the file was not changed: rename it, or keep your own "
            "tables in another file"
        ) from error


def _version(db: sqlite3.Connection, path: str, latest: int) -> int:
    """The version of the file; 0 if it is empty.

    Raises:
        StoreUnavailable: the file is another program's, or of a later version.
    """
    # In one statement: another process may be creating the file at this moment.
    application, version, tables = db.execute(queries.IDENTITY).fetchone()
    if application != APPLICATION_ID:
        if application or version or tables:
            raise StoreUnavailable(
                f"{path} is an SQLite database of another program and was not changed: "
                "name another file"
            )
        return 0
    if version > latest:
        raise StoreUnavailable(
            f"database {path} has version {version}, this awaken knows versions up to {latest}: "
            "upgrade awaken, or name another file"
        )
    return int(version)


def _check_application(db: sqlite3.Connection, path: str) -> None:
    """Refuse a file with views or triggers: a view can have endless rows, a trigger can undo a
    commit.

    Raises:
        StoreUnavailable: the file holds more than plain tables and indexes.
    """
    found = db.execute(queries.STRANGE).fetchone()
    if found is not None:
        raise StoreUnavailable(
            f"database {path} has the {found[0]} {found[1]!r}, which awaken did not create: it "
            "uses plain tables and indexes only; the file was not changed: drop the "
            f"{found[0]}, or name another file"
        )


def _use_wal(db: sqlite3.Connection, address: Address) -> None:
    """Switch the file to a write-ahead log, unless it has one."""
    if address.path == MEMORY or db.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
        return
    # SQLite itself does not wait when two processes create the same file at once.
    deadline = time.monotonic() + address.busy_timeout
    while True:
        try:
            (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if code_of(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
        else:
            break
    if mode != "wal":
        raise StoreUnavailable(
            f"the file system of {address.path} cannot keep a write-ahead log (mode {mode}): "
            "use a local disk"
        )


def _copy(address: Address, target: str) -> None:
    """Write a consistent copy of the file to `target`; a failure leaves no partial copy there."""
    unfinished = f"{target}.part"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(unfinished)
    # Only a file created here is written, so that another user's link is not followed.
    fd = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _NO_FOLLOW, 0o600)
    if hasattr(os, "fchmod"):
        os.fchmod(fd, stat.S_IMODE(os.stat(address.path).st_mode))
    os.close(fd)
    with closing(_connect(address)) as source, closing(sqlite3.connect(unfinished)) as copy:
        source.backup(copy)
    os.replace(unfinished, target)


def _statements(script: str) -> Iterator[str]:
    """The statements of a script, one by one: `executescript` would end the transaction."""
    statement = ""
    for part in script.split(";"):
        statement += f"{part};"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
