"""Forking, deleting and pruning threads, and compacting the file."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence

from awaken.codec import dumps
from awaken.core.account import ledger_key
from awaken.core.profile import ProfileOwner
from awaken.core.run import PersistedState
from awaken.core.store.commands import KEY_KEPT_MS
from awaken.core.store.threads import ChildStrategy, DeleteResult
from awaken.core.thread import NO_METADATA, Thread, fork_metadata
from awaken.core.thread_ids import parse_family
from awaken.core.value import Value
from awaken.errors import AlreadyExists, InvalidRecord, NotFound, RunOpen, ThreadOwned
from awaken.stores.sql import queries
from awaken.stores.sql.fold import to_persisted_state
from awaken.stores.sqlite.rows import (
    ThreadRow,
    commit_id,
    find_thread,
    position_of,
    thread_of,
    write_metadata,
)
from awaken.stores.sqlite.state import fold_at

IsAlive = Callable[[str], bool]


class Compacted(Value, frozen=True, kw_only=True):
    """The size of the database files before and after, in bytes, and the lock files removed."""

    before: int
    after: int
    dead_owners: int


# -- fork -------------------------------------------------------------------------------------


def fork(
    db: sqlite3.Connection,
    thread_id: str,
    new_id: str,
    at: int | None,
    at_ms: int,
    by: str | None,
) -> Thread:
    source = find_thread(db, thread_id)
    if source is None:
        raise NotFound("thread", thread_id)
    position, length, events = _find_position(db, source, at)
    pk = _new_thread(db, new_id, at_ms)
    first, last = commit_id(source.pk, 1), commit_id(source.pk, position)
    shift = (commit_id(source.pk, 0), commit_id(pk, 0))
    db.execute(queries.COPY_COMMITS, (*shift, first, last))
    db.execute(queries.COPY_SNAPSHOTS, (*shift, first, last))
    db.execute(queries.COPY_BLOB_USES, (pk, source.pk, position))
    db.execute(queries.COPY_REWINDS, (pk, source.pk, position))
    db.execute(queries.COPY_TEXT_USES, (pk, source.pk, position))
    newest = db.execute(queries.SNAPSHOTS, (first, last)).fetchone()
    snapshot = newest[0] - shift[0] if newest else 0
    db.execute(
        queries.FORKED,
        (
            *(at_ms, at_ms, length, events, position, snapshot, thread_id, events, at_ms),
            *parse_family(new_id),
            pk,
        ),
    )
    if (said := fork_metadata(source.metadata(), by)) != NO_METADATA:
        write_metadata(db, pk, said, dumps(said))
    return thread_of(db, pk).thread()


def state_at(db: sqlite3.Connection, thread_id: str, seq: int) -> PersistedState:
    thread = find_thread(db, thread_id)
    if thread is None:
        raise NotFound("thread", thread_id)
    position, _, _ = _find_position(db, thread, seq)
    return to_persisted_state(fold_at(db, thread.pk, position).thread)


def _find_position(
    db: sqlite3.Connection, source: ThreadRow, at: int | None
) -> tuple[int, int, int]:
    """The position to copy up to, and how many messages and events there are up to it."""
    if at is None:
        return source.position, source.length, source.events
    if not 1 <= at <= source.events:
        raise NotFound("event", f"{at} of thread {source.id}")
    position = position_of(db, source, queries.FIRST_EVENT, at)
    if position == source.position:
        return position, source.length, source.events
    behind = commit_id(source.pk, position + 1)
    (next_seq,) = db.execute(queries.FIRST_SEQ, (behind,)).fetchone()
    (next_event,) = db.execute(queries.FIRST_EVENT, (behind,)).fetchone()
    return position, next_seq - 1, next_event - 1


def _new_thread(db: sqlite3.Connection, thread_id: str, at_ms: int) -> int:
    row = db.execute(queries.OWNER, (thread_id,)).fetchone()
    if row is not None:
        pk, owner, _, position = row
        if position or owner is not None:
            raise AlreadyExists("thread", thread_id)
        return int(pk)  # left by an owner that claimed the thread and released it unwritten
    return db.execute(queries.ADD_THREAD, (thread_id, at_ms, at_ms)).lastrowid or 0


# -- deletion ---------------------------------------------------------------------------------


def delete_thread(
    db: sqlite3.Connection,
    is_alive: IsAlive,
    thread_id: str,
    children: ChildStrategy,
    force: bool,
    at_ms: int,
) -> DeleteResult:
    thread = find_thread(db, thread_id)
    if thread is None:
        raise NotFound("thread", thread_id)
    family = [thread]
    if children is ChildStrategy.CASCADE:
        known = {thread.pk}
        for member in family:  # the list grows while it is walked
            born = [child for child in _children(db, member) if child.pk not in known]
            known.update(child.pk for child in born)
            family += born
    elif children is ChildStrategy.REJECT and (born := _children(db, thread)):
        names = ", ".join(repr(child.id) for child in born[:3])
        raise InvalidRecord(
            f"thread {thread_id!r} has children ({names}{', …' if len(born) > 3 else ''}): "
            "delete it with children='detach' to keep them, or 'cascade' to delete them too"
        )
    for member in family:
        if member.owner is not None and is_alive(member.owner):
            raise ThreadOwned(member.id, member.owner)
    for member in () if force else family:
        if member.open_run is not None:
            raise RunOpen(thread_id, member.open_run, of=member.id)
    if open_above := db.execute(queries.OPEN_ABOVE, (thread_id, thread_id)).fetchone():
        raise RunOpen(thread_id, open_above[1], of=open_above[0])
    if children is ChildStrategy.DETACH:
        db.execute(queries.DETACH, (at_ms, thread_id))
    return _delete(db, family, at_ms)


def _children(db: sqlite3.Connection, thread: ThreadRow) -> list[ThreadRow]:
    return [ThreadRow._make(row) for row in db.execute(queries.CHILDREN, (thread.id,))]


# -- prune ------------------------------------------------------------------------------------


def find_old(db: sqlite3.Connection, is_alive: IsAlive, before_ms: int) -> list[int]:
    """The threads that `prune` may delete, children before their parents."""
    rows = [ThreadRow._make(row) for row in db.execute(queries.OLD_THREADS, (before_ms,))]
    needed = {id for (id,) in db.execute(queries.BENEATH_OPEN)}
    going = {row.id: row for row in _free(rows, is_alive) if row.id not in needed}
    return sorted((row.pk for row in _drop_parents_of_kept(db, going)), reverse=True)


def delete_old(
    db: sqlite3.Connection, is_alive: IsAlive, threads: Sequence[int], before_ms: int, at_ms: int
) -> DeleteResult:
    """Delete those of the threads that were not used meanwhile."""
    old = [row for pk in threads for row in db.execute(queries.OLD_THREAD, (before_ms, pk))]
    going = {
        row.id: row
        for row in _free(map(ThreadRow._make, old), is_alive)
        if db.execute(queries.OPEN_ABOVE, (row.id, row.id)).fetchone() is None
    }
    return _delete(db, _drop_parents_of_kept(db, going), at_ms)


def _drop_parents_of_kept(
    db: sqlite3.Connection, going: dict[str, ThreadRow]
) -> Iterable[ThreadRow]:
    """Those that have no child that is kept. One with such a child is kept too, and then its own
    parent as well."""
    while staying := [row for row in going.values() if _has_child_outside(db, row, going)]:
        for row in staying:
            del going[row.id]
    return going.values()


def _free(rows: Iterable[ThreadRow], is_alive: IsAlive) -> Iterator[ThreadRow]:
    """Those that have no live owner."""
    alive: dict[str, bool] = {}
    for row in rows:
        if row.owner is not None and row.owner not in alive:
            alive[row.owner] = is_alive(row.owner)
        if row.owner is None or not alive[row.owner]:
            yield row


def _has_child_outside(
    db: sqlite3.Connection, thread: ThreadRow, going: dict[str, ThreadRow]
) -> bool:
    rows = db.execute(queries.CHILD_IDS, (thread.id,)).fetchall()
    return any(child not in going for (child,) in rows)


def forget_expired(db: sqlite3.Connection, at_ms: int) -> None:
    """Delete what is kept for some days alone: keys, and ids of deleted threads."""
    db.execute(queries.DROP_OLD_SUBMISSION_KEYS, (at_ms - KEY_KEPT_MS,))
    db.execute(queries.FORGET_DELETED, (at_ms - KEY_KEPT_MS,))


def find_in_scope(db: sqlite3.Connection, scope: str) -> list[int]:
    """The threads of a tenant, the latest first."""
    return [pk for (pk,) in db.execute(queries.PKS_OF_SCOPE, (scope,))]


def delete_free(
    db: sqlite3.Connection, is_alive: IsAlive, threads: Sequence[int], at_ms: int
) -> DeleteResult:
    """Delete those of the threads that have no live owner, whatever state their runs are in."""
    rows = [row for pk in threads for row in db.execute(queries.THREAD_BY_PK, (pk,))]
    return _delete(db, _free(map(ThreadRow._make, rows), is_alive), at_ms)


def _delete(db: sqlite3.Connection, threads: Iterable[ThreadRow], at_ms: int) -> DeleteResult:
    freed = DeleteResult()
    db.execute(queries.FORGET_DELETED, (at_ms - KEY_KEPT_MS,))
    for thread in threads:
        between = (commit_id(thread.pk, 0), commit_id(thread.pk + 1, 0) - 1)
        commits, size = db.execute(queries.SIZE_OF_COMMITS, between).fetchone()
        db.execute(queries.DELETE_COMMITS, between)
        db.execute(queries.DELETE_SNAPSHOTS, between)
        db.execute(queries.DELETE_BOOKS, (str(ProfileOwner()), ledger_key(""), thread.pk))
        runs = db.execute(queries.DELETE_RUNS, (thread.pk,)).rowcount
        db.execute(queries.DELETE_TICKETS, (thread.pk,))
        db.execute(queries.DELETE_COMMANDS, (thread.pk,))
        db.execute(queries.DELETE_KEYS, (thread.pk,))
        db.execute(queries.DELETE_SUBMISSION_KEYS, (thread.pk,))
        if thread.position > 0:
            db.execute(queries.NOTE_DELETED, (thread.id, at_ms))
        db.execute(queries.DROP_OUTBOX, (thread.pk,))
        db.execute(queries.DELETE_STREAM_LOG, (thread.pk,))
        db.execute(queries.DELETE_METADATA, (thread.pk,))
        db.execute(queries.DELETE_BLOB_USES, (thread.pk,))
        db.execute(queries.DELETE_REWINDS, (thread.pk,))
        db.execute(queries.DELETE_TEXTS_OF, (thread.pk,))
        db.execute(queries.DELETE_TEXT_USES, (thread.pk,))
        db.execute(queries.RAISE_EPOCHS, (thread.pk,))
        db.execute(queries.DELETE_THREAD, (thread.pk,))
        freed = DeleteResult(
            # A row that was only claimed is deleted too, but it is no thread yet.
            threads=freed.threads + (thread.position > 0),
            runs=freed.runs + runs,
            commits=freed.commits + commits,
            bytes=freed.bytes + size,
        )
    return freed


# -- space ------------------------------------------------------------------------------------


def compact(db: sqlite3.Connection, path: str, tidy: Callable[[], int]) -> Compacted:
    """Rewrite the database without gaps; needs as much free disk space as the database has."""
    before = _size(path)
    dead = tidy()
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    db.execute("VACUUM")
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return Compacted(before=before, after=_size(path), dead_owners=dead)


def _size(path: str) -> int:
    names = (path, f"{path}-wal")
    return sum(os.path.getsize(name) for name in names if os.path.exists(name))


def check_write(db: sqlite3.Connection) -> None:
    """Write a row and delete it: an update that leaves a row as it is would write no page."""
    db.execute("INSERT INTO epochs (floor) VALUES (0)")
    db.execute("DELETE FROM epochs WHERE rowid = last_insert_rowid()")
