"""Rows of threads, runs and commits as values, and finding them.

Also here: writing a thread's metadata, and the stream log, which keeps unfinished model answers
until a commit ends them.
"""

from __future__ import annotations

import bisect
import sqlite3
from collections.abc import Iterator
from types import NoneType
from typing import NamedTuple

import msgspec

from awaken.codec import dumps_text
from awaken.core.run import RunRecord
from awaken.core.store.commits import Fence, StreamLogEntry
from awaken.core.thread import Thread, ThreadMetadata, ThreadPatch
from awaken.core.unreadable import RowKind
from awaken.errors import NotFound, Serialization, StaleFence, UnreadableRecord
from awaken.stores.rules import change_metadata
from awaken.stores.sql import queries
from awaken.stores.sql.cursors import UnreadableCommit, UnreadableRows, load_metadata, load_row
from awaken.stores.sqlite.owners import Owners

_replace = msgspec.structs.replace


def commit_id(thread: int, position: int) -> int:
    """The primary key of a commit; the commits of a thread lie together, in order."""
    return thread << 32 | position


class ThreadRow(NamedTuple):
    """The head of a thread, as `THREAD_COLUMNS` has it."""

    pk: int
    id: str
    parent: str | None
    created_at: int
    updated_at: int
    length: int
    events: int
    position: int
    snapshot: int
    owner: str | None
    latest_run: str | None
    open_run: str | None
    active_run: str | None
    forked_from: str | None
    forked_at: int | None
    active_at: int | None
    scope: str
    family: str
    said: bytes | None

    def thread(
        self, owners: Owners | None = None, unreadable: UnreadableRows | None = None
    ) -> Thread:
        """The thread as callers see it, with `owner` set to `None` if the owner is dead. If its
        metadata cannot be read and `unreadable` is given, that is noted there, and the thread is
        without metadata.

        Raises:
            Serialization: a column has a wrong type, which SQLite allows.
            UnreadableRecord: its metadata cannot be read.
        """
        if not all(isinstance(*pair) for pair in zip(self, _THREAD_TYPES, strict=True)):
            pairs = zip(self._fields, zip(self, _THREAD_TYPES, strict=True), strict=True)
            wrong = [f"{name} {pair[0]!r}" for name, pair in pairs if not isinstance(*pair)]
            raise Serialization(
                f"the row of thread {self.id!r} has values that awaken did not write: "
                f"{', '.join(wrong)}"
            )
        owner = self.owner
        if owner is not None and owners is not None and not owners.is_alive(owner):
            owner = None
        return Thread(
            id=self.id,
            parent_thread_id=self.parent,
            latest_run_id=self.latest_run,
            open_run_id=self.open_run,
            active_run_id=self.active_run,
            message_count=self.length,
            event_count=self.events,
            created_at=self.created_at,
            updated_at=self.updated_at,
            active_at=self.active_at or 0,
            forked_from=self.forked_from,
            forked_at=self.forked_at,
            owner=owner,
            scope=self.scope,
            family=self.family,
            metadata=self.metadata(unreadable),
        )

    def metadata(self, unreadable: UnreadableRows | None = None) -> ThreadMetadata:
        return load_metadata(self.id, self.said, unreadable)


_MAYBE_TEXT, _MAYBE_NUMBER = (str, NoneType), (int, NoneType)
_THREAD_TYPES: tuple[type | tuple[type, ...], ...] = (
    *(int, str, _MAYBE_TEXT),
    *(int,) * 6,
    *(_MAYBE_TEXT,) * 5,
    *(_MAYBE_NUMBER, _MAYBE_NUMBER),
    *(str, str, (bytes, NoneType)),
)


class RunRow(NamedTuple):
    """The head of a run, as `RUN_COLUMNS` has it."""

    pk: int
    id: str
    thread: int
    status: str
    first_position: int
    last_position: int
    data: bytes

    def record(self, thread_id: str | None = None) -> RunRecord:
        """
        Raises:
            UnreadableRecord: it cannot be decoded; the error names the thread, if that is given.
        """
        return load_row(RowKind.RUN, self.id, self.data, RunRecord, thread_id)


class CommitRow(NamedTuple):
    """A commit, as `COMMITS` has it."""

    id: int
    first_seq: int
    first_event: int
    at_ms: int
    run: int | None
    delta: bytes

    @property
    def thread(self) -> int:
        return self.id >> 32

    @property
    def position(self) -> int:
        return self.id & 0xFFFFFFFF


def name_commit(db: sqlite3.Connection, error: UnreadableCommit) -> UnreadableRecord:
    """The error for callers: it names the thread of a commit, and the messages of the commit."""
    thread = thread_of(db, error.thread)
    between = (commit_id(thread.pk, error.position), commit_id(thread.pk, error.position + 1))
    firsts = [row[1] for row in db.execute(queries.COMMITS, between)]
    following = firsts[1] if len(firsts) > 1 else thread.length + 1
    return error.to_record(thread.id, firsts[0], following)


def find_thread(db: sqlite3.Connection, thread_id: str) -> ThreadRow | None:
    row = db.execute(queries.THREAD, (thread_id,)).fetchone()
    return ThreadRow._make(row) if row else None


def thread_of(db: sqlite3.Connection, pk: int) -> ThreadRow:
    return ThreadRow._make(db.execute(queries.THREAD_BY_PK, (pk,)).fetchone())


def find_run(db: sqlite3.Connection, run_id: str | None) -> RunRow | None:
    row = db.execute(queries.RUN, (run_id,)).fetchone()
    return RunRow._make(row) if row else None


def commits(
    db: sqlite3.Connection, thread: int, first: int, last: int, run: int | None = None
) -> Iterator[CommitRow]:
    """The commits of a thread from position `first` to `last`; with `run`, that run's only."""
    between = (commit_id(thread, first), commit_id(thread, last))
    if run is None:
        return map(CommitRow._make, db.execute(queries.COMMITS, between))
    return map(CommitRow._make, db.execute(queries.COMMITS_OF_RUN, (*between, run)))


def position_of(db: sqlite3.Connection, thread: ThreadRow, query: str, number: int) -> int:
    """The position of the commit that holds the message or event with this number."""
    return commit_of(db, thread.pk, thread.position, query, number)


def commit_of(db: sqlite3.Connection, thread: int, last: int, query: str, number: int) -> int:
    """The position of the commit that holds a message or event, of the first `last` commits.

    `query` reads the first number of a commit. The numbers never decrease along a thread, so a
    binary search finds the commit without a second index.
    """

    def first_of(position: int) -> int:
        (first,) = db.execute(query, (commit_id(thread, position),)).fetchone()
        return int(first)

    return bisect.bisect_right(range(1, last + 1), number, key=first_of)


# -- metadata ---------------------------------------------------------------------------------


def update_thread(
    db: sqlite3.Connection,
    owners: Owners,
    thread_id: str,
    patch: ThreadPatch,
    expected_revision: int | None,
) -> Thread:
    """Change a thread's metadata; returns the thread."""
    thread = find_thread(db, thread_id)
    if thread is None:
        raise NotFound("thread", thread_id)
    metadata, text = change_metadata(thread_id, thread.metadata(), patch, expected_revision)
    write_metadata(db, thread.pk, metadata, text)
    return thread_of(db, thread.pk).thread(owners)


def write_metadata(
    db: sqlite3.Connection, thread: int, metadata: ThreadMetadata, text: bytes
) -> None:
    labels = dumps_text(metadata.labels) if metadata.labels else None
    db.execute(queries.SET_METADATA, (thread, metadata.user, labels, text))


# -- the stream log ---------------------------------------------------------------------------


def append_stream(db: sqlite3.Connection, fence: Fence, number: int, body: bytes) -> None:
    """
    Raises:
        StaleFence: another owner has claimed the thread.
    """
    row = db.execute(queries.OWNER, (fence.thread_id,)).fetchone()
    pk, owner, epoch, position = row if row is not None else (0, None, 0, 0)
    if (owner, epoch) != (fence.owner, fence.epoch):
        raise StaleFence(fence.thread_id, epoch=fence.epoch, current=epoch)
    if position == 0:
        return  # there is no thread before its first commit
    if number == 1:
        delete_stream_log(db, pk)
    db.execute(queries.ADD_STREAM_ENTRY, (pk, number, body))


def delete_stream_log(db: sqlite3.Connection, thread: int) -> None:
    db.execute(queries.DELETE_STREAM_LOG, (thread,))


def load_stream_log(
    db: sqlite3.Connection, unreadable: UnreadableRows, thread: ThreadRow
) -> tuple[StreamLogEntry, ...]:
    rows = db.execute(queries.STREAM_LOG, (thread.pk,)).fetchall()
    return unreadable.read_stream(thread.id, [body for (body,) in rows])
