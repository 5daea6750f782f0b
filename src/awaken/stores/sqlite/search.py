"""The search index beside a SQLite store: a file of its own, `<store>-search`, that may be deleted.

The index of words is FTS5's. Each operation runs in a thread, on one of two connections: one
writes, the other reads meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
import threading
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from awaken.clock import Clock
from awaken.codec import dumps_text
from awaken.core.search.index import FORMAT, FoundPage, IndexedHead, IndexState, ThreadUpdate
from awaken.core.search.query import SearchKind, SearchTerms
from awaken.core.search.usage import UsageQuery, UsageRow, load_zone
from awaken.core.search.words import split_words
from awaken.errors import SearchUnavailable
from awaken.stores.sql import search
from awaken.stores.sql.search_find import find
from awaken.stores.sql.search_sums import sum_usage
from awaken.stores.sql.search_tables import Dialect, ManyRows, Work

T = TypeVar("T")
log = logging.getLogger("awaken.stores")

ENDING = "-search"
"""What the name of the index has behind the name of the store's file."""
MAX_SECONDS = 5.0
"""How long one search may take."""
_TOO_SLOW = "the search took longer than {:g} seconds: write more words, or rarer ones"
_VERSION = f"{FORMAT} sqlite 1 {unicodedata.unidata_version}"
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_NO_TABLE = ("no such table: search_", "vtable constructor failed", "unsupported file format")
_STEPS = 10_000  # of SQLite's machine, between two looks at the time


class Fts5(Dialect):
    """The SQLite side of the index; see `Dialect`."""

    tables = (
        "CREATE TABLE search_docs (key INTEGER PRIMARY KEY, body TEXT NOT NULL)",
        "CREATE VIRTUAL TABLE search_words USING fts5"
        "(words, place, content='', tokenize='unicode61 remove_diacritics 0')",
    )
    keyed = " WITHOUT ROWID"
    collate = ""
    like_ids = "{} IN (SELECT value FROM json_each(?))"
    doc_key = "d.rowid"
    cross_join = "CROSS JOIN"
    docs_first = "search_words AS d CROSS JOIN search_entries AS e ON e.key = (d.rowid & -1024)"
    entries_first = (
        "search_entries AS e CROSS JOIN search_words AS d "
        "ON d.rowid >= e.key AND d.rowid < e.key + 1024"
    )
    fits = "d.search_words MATCH ?"

    has_key = "d.rowid IN (SELECT value FROM json_each(?))"

    def list_keys(self, terms: SearchTerms) -> Work[Sequence[int] | None]:
        yield from ()
        return None  # FTS5 is always asked first, and gives its rows in the order of the key

    def ids(self, ids: Sequence[str]) -> str:
        return dumps_text(list(ids))

    def match(self, terms: SearchTerms, scope: str | None) -> str:
        # Each word is a text in quotation marks, so that nothing in it is an operator.
        phrases = [
            f'"{" ".join(phrase.words)}"{" *" if phrase.is_prefix else ""}'
            for phrase in terms.phrases
        ]
        words = f"words : ({' AND '.join(phrases)})"
        return words if scope is None else f'place : "{_scope_word(scope)}" AND {words}'

    def write_doc(self, key: int, scope: str, body: str, replaced: str | None) -> Work[None]:
        if replaced is not None:
            yield _DROP_WORDS, (key, _words(replaced), _scope_word(scope))
        yield _SET_DOC, (key, body)
        yield _ADD_WORDS, (key, _words(body), _scope_word(scope))

    def delete_doc(self, key: int, scope: str, body: str) -> Work[None]:
        yield _DROP_WORDS, (key, _words(body), _scope_word(scope))
        yield "DELETE FROM search_docs WHERE key = ?", (key,)


_SET_DOC = """
INSERT INTO search_docs (key, body) VALUES (?, ?)
ON CONFLICT (key) DO UPDATE SET body = excluded.body
"""
_ADD_WORDS = "INSERT INTO search_words (rowid, words, place) VALUES (?, ?, ?)"
# FTS5 deletes a text whose contents it does not keep only if it gets the very same words again.
_DROP_WORDS = (
    "INSERT INTO search_words (search_words, rowid, words, place) VALUES ('delete', ?, ?, ?)"
)


def _words(body: str) -> str:
    return " ".join(split_words(body))


def _scope_word(scope: str) -> str:
    return f"s{scope.encode().hex()}"


class SqliteSearchIndex:
    """The index in the file `path`; see `SearchIndex`."""

    def __init__(self, path: str, clock: Clock) -> None:
        self.path = path
        self._clock = clock
        self._dialect = Fts5()
        self._writer, self._reader = _Connection(path), _Connection(path)
        self._zone = "UTC"

    async def claim(self, owner: str, seconds: float, state: IndexState) -> bool:
        now = self._clock.now_ms()
        return await self._write(lambda: search.claim(owner, now, seconds, state))

    async def release(self, owner: str) -> None:
        await self._write(lambda: search.release(owner))

    async def load_state(self) -> IndexState:
        now = self._clock.now_ms()
        return await self._read(lambda: search.load_state(now))

    async def load_heads(self, thread_ids: Sequence[str]) -> Mapping[str, IndexedHead]:
        return await self._read(lambda: search.load_heads(self._dialect, thread_ids))

    async def list_heads(self, after: str, until: str | None) -> Mapping[str, IndexedHead]:
        return await self._read(lambda: search.list_heads(after, until))

    async def apply(self, updates: Sequence[ThreadUpdate]) -> int:
        return await self._write(lambda: search.apply(self._dialect, updates))

    async def remove(self, thread_ids: Sequence[str]) -> None:
        await self._write(lambda: search.remove(self._dialect, thread_ids))

    async def find(
        self,
        terms: SearchTerms,
        *,
        scope: str | None,
        kind: SearchKind,
        before_key: int | None,
        limit: int,
    ) -> FoundPage:
        return await self._read(lambda: find(self._dialect, terms, scope, kind, before_key, limit))

    async def sum_usage(self, query: UsageQuery) -> Sequence[UsageRow]:
        return await self._read(lambda: sum_usage(query))

    async def rebuild(self, zone: str | None = None) -> None:
        if zone is not None:
            load_zone(zone)
        state = await self.load_state()
        await asyncio.to_thread(self._start_over, zone or state.zone)

    async def exists(self) -> bool:
        return _identity(self.path) is not None

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._writer.close()
        self._reader.close()

    # -- on threads ---------------------------------------------------------------------------

    async def _read(self, work: Callable[[], Work[T]]) -> T:
        return await asyncio.to_thread(self._do, self._reader, work, "BEGIN")

    async def _write(self, work: Callable[[], Work[T]]) -> T:
        return await asyncio.to_thread(self._do, self._writer, work, "BEGIN IMMEDIATE")

    def _do(self, connection: _Connection, work: Callable[[], Work[T]], begin: str) -> T:
        """Do `work` in a transaction; in a new index if this one is damaged."""
        for attempt in (1, 2):
            try:
                return connection.run(self._prepare, work, begin)
            except (sqlite3.Error, OSError) as error:
                if attempt == 2 or not _is_damage(error):
                    # The text goes to clients: it leaves out the names of files.
                    raise SearchUnavailable(
                        f"the search index cannot be used: {_reason(error)}"
                    ) from error
                log.error(
                    "the search index %s is damaged (%s): it is thrown away and built anew",
                    self.path,
                    error,
                )
                self._start_over(self._zone)
        raise AssertionError("the second attempt returns or raises")

    def _prepare(self, db: sqlite3.Connection) -> None:
        """Make the tables of a new index, or check the version of the one that is there."""
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        with contextlib.suppress(sqlite3.OperationalError):
            found = dict(db.execute("SELECT name, value FROM search_meta WHERE name <> 'owner'"))
            self._zone = found.get("zone", self._zone)
            if found.get("version") == _VERSION:
                return
        db.execute("BEGIN IMMEDIATE")
        try:
            if _has_version(db):
                db.execute("ROLLBACK")  # another process has just made it
                return
            for (name,) in db.execute(_TABLES).fetchall():
                db.execute(f'DROP TABLE IF EXISTS "{name}"')
            _drive(db, search.create(self._dialect, _VERSION, self._zone))
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _start_over(self, zone: str) -> None:
        """Delete the files of the index. The next operation makes new ones."""
        self._zone = zone
        self._close()
        # SQLite itself deletes the write-ahead log of a database that is not there any more.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'search_*'"


def _has_version(db: sqlite3.Connection) -> bool:
    try:
        rows = db.execute("SELECT value FROM search_meta WHERE name = 'version'").fetchall()
    except sqlite3.OperationalError:
        return False
    return rows == [(_VERSION,)]


class _Connection:
    """A connection that is opened when it is first used, and again when the file is another one:
    a process that threw the index away has made it anew."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    def run(
        self, prepare: Callable[[sqlite3.Connection], None], work: Callable[[], Work[T]], begin: str
    ) -> T:
        with self._lock:
            db = self._open(prepare)
            until = time.monotonic() + MAX_SECONDS
            is_search = begin == "BEGIN"
            if is_search:
                db.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
            db.execute(begin)
            try:
                answer = _drive(db, work())
                db.execute("COMMIT")
                return answer
            except BaseException as error:
                db.set_progress_handler(None, 0)
                if db.in_transaction:
                    db.execute("ROLLBACK")
                if is_search and isinstance(error, sqlite3.Error) and time.monotonic() > until:
                    raise SearchUnavailable(_TOO_SLOW.format(MAX_SECONDS)) from error
                raise

    def close(self) -> None:
        with self._lock:
            self._forget()

    def _forget(self) -> None:
        if self._db is not None:
            with contextlib.suppress(sqlite3.Error):
                self._db.close()
        self._db = None

    def _open(self, prepare: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
        if self._db is not None and self._file != _identity(self._path):
            self._forget()
        if self._db is None:
            if _identity(self._path) is None:
                os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, _mode_of(self._path)))
            db = sqlite3.connect(
                self._path, isolation_level=None, check_same_thread=False, timeout=10.0
            )
            try:
                prepare(db)
            except BaseException:
                db.close()
                raise
            self._db, self._file = db, _identity(self._path)
        return self._db


def _drive(db: sqlite3.Connection, work: Work[T]) -> T:
    try:
        text, values = next(work)
        while True:
            run = db.executemany if isinstance(values, ManyRows) else db.execute
            text, values = work.send(run(text, values).fetchall())
    except StopIteration as end:
        answer: T = end.value
        return answer


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return (found.st_dev, found.st_ino)


def _mode_of(path: str) -> int:
    """The permissions of a new index: those of the store's file."""
    try:
        return os.stat(path.removesuffix(ENDING)).st_mode & 0o666
    except FileNotFoundError:
        return 0o600


def _is_damage(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in _DAMAGED or any(text in str(error) for text in _NO_TABLE)


def _reason(error: Exception) -> str:
    if "interrupted" in str(error):
        return (
            f"the search took longer than {MAX_SECONDS:g} seconds; write more words, or rarer ones"
        )
    if "no such module: fts5" in str(error):
        return "SQLite was built without FTS5 here"
    return error.strerror or "" if isinstance(error, OSError) else str(error)
