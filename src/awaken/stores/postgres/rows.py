"""Rows of threads, runs and commits as values, finding them, and writing a thread's metadata."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from awaken.codec import dumps
from awaken.core.rewind import Hidden, find_hidden_spans
from awaken.core.run import RunRecord
from awaken.core.thread import Thread, ThreadMetadata, ThreadPatch
from awaken.core.unreadable import RowKind
from awaken.errors import NotFound, UnreadableRecord
from awaken.stores.postgres.connections import Db
from awaken.stores.rules import change_metadata
from awaken.stores.sql.cursors import UnreadableCommit, UnreadableRows, load_metadata, load_row

_replace = msgspec.structs.replace

THREAD_COLUMNS = """
t.pk, t.id, t.parent, t.created_at, t.updated_at, t.length, t.events, t.position, t.owner,
EXISTS (SELECT 1 FROM @nodes AS n WHERE n.id = t.owner AND n.lease_until > clock_timestamp()),
t.latest_run, t.open_run, t.active_run, t.forked_from, t.forked_at, t.active_at, t.scope, t.family,
(SELECT m.record FROM @thread_metadata AS m WHERE m.thread = t.pk)
"""
# Readers do not see a thread that was claimed and never written (position 0).
THREAD = f"SELECT {THREAD_COLUMNS} FROM @threads AS t WHERE t.id = ? AND t.position > 0"
THREAD_BY_PK = f"SELECT {THREAD_COLUMNS} FROM @threads AS t WHERE t.pk = ?"
# The same for a writer: no other node changes the thread until the transaction ends.
LOCKED_THREAD = f"{THREAD} FOR UPDATE OF t"
HEAD = f"""
SELECT {THREAD_COLUMNS},
       (SELECT array_agg(r.low ORDER BY r.position) FROM @rewinds AS r WHERE r.thread = t.pk),
       (SELECT array_agg(r.high ORDER BY r.position) FROM @rewinds AS r WHERE r.thread = t.pk)
FROM @threads AS t WHERE t.id = ? AND t.position > 0
"""
RUN_COLUMNS = (
    "r.pk, r.id, r.thread, r.status, r.first_position, r.last_position, r.cancelled_by, r.record"
)
RUN = f"SELECT {RUN_COLUMNS} FROM @runs AS r WHERE r.id = ?"

COMMIT_COLUMNS = "thread, position, first_seq, first_event, at_ms, run, delta"
COMMITS = f"""
SELECT {COMMIT_COLUMNS} FROM @commits
WHERE thread = ? AND position BETWEEN ? AND ? ORDER BY position
"""
COMMITS_OF_RUN = f"""
SELECT {COMMIT_COLUMNS} FROM @commits
WHERE thread = ? AND position BETWEEN ? AND ? AND run = ? ORDER BY position
"""


def owner_name(node: int) -> str:
    """The name under which a node claims threads."""
    return f"node-{node}"


def node_of(owner: str) -> int:
    """The number of the node with this name; -1 if it is no node's name."""
    number = owner.removeprefix("node-")
    return int(number) if number.isascii() and number.isdigit() and len(number) < 10 else -1


class ThreadRow(NamedTuple):
    """The head of a thread, as `THREAD_COLUMNS` has it. `owner` may be dead: see `is_owned`."""

    pk: int
    id: str
    parent: str | None
    created_at: int
    updated_at: int
    length: int
    events: int
    position: int
    owner: int | None
    is_owned: bool
    latest_run: str | None
    open_run: str | None
    active_run: str | None
    forked_from: str | None
    forked_at: int | None
    active_at: int | None
    scope: str
    family: str
    said: bytes | None

    def thread(self, unreadable: UnreadableRows | None = None) -> Thread:
        """The thread as callers see it, with `owner` set to `None` if the owner is dead. If its
        metadata cannot be read and `unreadable` is given, that is noted there, and the thread is
        without metadata.

        Raises:
            UnreadableRecord: its metadata cannot be read.
        """
        is_owned = self.is_owned and self.owner is not None
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
            owner=owner_name(self.owner or 0) if is_owned else None,
            scope=self.scope,
            family=self.family,
            metadata=self.metadata(unreadable),
        )

    def metadata(self, unreadable: UnreadableRows | None = None) -> ThreadMetadata:
        return load_metadata(self.id, self.said, unreadable)


class RunRow(NamedTuple):
    """The head of a run, as `RUN_COLUMNS` has it."""

    pk: int
    id: str
    thread: int
    status: str
    first_position: int
    last_position: int
    cancelled_by: str | None
    data: bytes

    def record(self, thread_id: str | None = None) -> RunRecord:
        """
        Raises:
            UnreadableRecord: it cannot be decoded; the error names the thread, if that is given.
        """
        record = load_row(RowKind.RUN, self.id, self.data, RunRecord, thread_id)
        return with_canceller(record, self.cancelled_by)


def with_canceller(record: RunRecord, by: str | None) -> RunRecord:
    """The record of a run, with who had it cancelled."""
    return record if by is None else _replace(record, cancelled_by=by)


class CommitRow(NamedTuple):
    """A commit, as `COMMIT_COLUMNS` has it."""

    thread: int
    position: int
    first_seq: int
    first_event: int
    at_ms: int
    run: int | None
    delta: bytes


async def name_commit(db: Db, error: UnreadableCommit) -> UnreadableRecord:
    """The error for callers: it names the thread of a commit, and the messages of the commit."""
    thread = await thread_of(db, error.thread)
    found = await commits(db, error.thread, error.position, error.position + 1)
    following = found[1].first_seq if len(found) > 1 else thread.length + 1
    return error.to_record(thread.id, found[0].first_seq, following)


async def find_thread(db: Db, thread_id: str) -> ThreadRow | None:
    row = await db.row(THREAD, thread_id)
    return ThreadRow(*row) if row else None


async def lock_thread(db: Db, thread_id: str) -> ThreadRow | None:
    """The same, with the thread locked until the transaction ends."""
    row = await db.row(LOCKED_THREAD, thread_id)
    return ThreadRow(*row) if row else None


async def thread_of(db: Db, pk: int) -> ThreadRow:
    return ThreadRow(*await db.row(THREAD_BY_PK, pk))


async def find_head(db: Db, thread_id: str) -> tuple[ThreadRow | None, Hidden]:
    """A thread, and the spans of its messages that are out of view, at one instant."""
    row = await db.row(HEAD, thread_id)
    if row is None:
        return None, ()
    *columns, lows, highs = row
    return ThreadRow(*columns), find_hidden_spans(zip(lows or (), highs or (), strict=True))


async def find_run(db: Db, run_id: str | None) -> RunRow | None:
    row = await db.row(RUN, run_id) if run_id is not None else None
    return RunRow(*row) if row else None


async def commits(
    db: Db, thread: int, first: int, last: int, run: int | None = None
) -> list[CommitRow]:
    """The commits of a thread from position `first` to `last`; with `run`, that run's only."""
    if first > last:
        return []
    if run is None:
        rows = await db.rows(COMMITS, thread, first, last)
    else:
        rows = await db.rows(COMMITS_OF_RUN, thread, first, last, run)
    return [CommitRow(*row) for row in rows]


_SET = """
INSERT INTO @thread_metadata (thread, user_id, labels, record) VALUES (?, ?, ?, ?)
ON CONFLICT (thread) DO UPDATE
SET user_id = excluded.user_id, labels = excluded.labels, record = excluded.record
"""


async def update_thread(
    db: Db, thread_id: str, patch: ThreadPatch, expected_revision: int | None
) -> Thread:
    """Change a thread's metadata; returns the thread."""
    thread = await lock_thread(db, thread_id)
    if thread is None:
        raise NotFound("thread", thread_id)
    metadata, text = change_metadata(thread_id, thread.metadata(), patch, expected_revision)
    await write_metadata(db, thread.pk, metadata, text)
    return (await thread_of(db, thread.pk)).thread()


async def write_metadata(db: Db, thread: int, metadata: ThreadMetadata, text: bytes) -> None:
    labels = [bytes for label in metadata.labels.items() for bytes in label_bytes(*label)]
    await db.run(_SET, thread, user_bytes(metadata.user), labels, text)


def user_bytes(user: str | None) -> bytes | None:
    """The id of an end user as it is stored: it may be a text that Postgres does not take."""
    return user.encode() if user is not None else None


def label_bytes(name: str, value: str) -> tuple[bytes, bytes]:
    """What is stored of a label: its name, and its name with its value. One is never the other."""
    return dumps(name), dumps([name, value])
