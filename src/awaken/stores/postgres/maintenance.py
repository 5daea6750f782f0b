"""Forking, deleting and pruning threads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from awaken.codec import dumps
from awaken.core.account import ledger_key
from awaken.core.profile import ProfileOwner
from awaken.core.store.commands import KEY_KEPT_MS
from awaken.core.store.threads import ChildStrategy, DeleteResult
from awaken.core.thread import NO_METADATA, Thread, fork_metadata
from awaken.core.thread_ids import parse_family
from awaken.errors import AlreadyExists, InvalidRecord, NotFound, RunOpen, ThreadOwned
from awaken.stores.postgres.connections import Db
from awaken.stores.postgres.lease import FORGET_NODES
from awaken.stores.postgres.rows import (
    THREAD_COLUMNS,
    ThreadRow,
    lock_thread,
    owner_name,
    thread_of,
    write_metadata,
)
from awaken.stores.postgres.thread_reads import find_position

# -- fork -------------------------------------------------------------------------------------

_ADD_THREAD = """
INSERT INTO @threads (id, created_at, updated_at, epoch)
SELECT $1, $2, $2, floor FROM @epochs ON CONFLICT (id) DO NOTHING
"""
_ROW = "SELECT pk, owner, position FROM @threads WHERE id = ? FOR UPDATE"
_COPIES = (
    """
    INSERT INTO @commits (thread, position, first_seq, first_event, at_ms, run, delta)
    SELECT $1, position, first_seq, first_event, at_ms, NULL, delta FROM @commits
    WHERE thread = $2 AND position <= $3
    """,
    """
    INSERT INTO @snapshots (thread, position, state)
    SELECT $1, position, state FROM @snapshots WHERE thread = $2 AND position <= $3
    """,
    """
    INSERT INTO @blob_uses (thread, blob, position)
    SELECT $1, blob, position FROM @blob_uses WHERE thread = $2 AND position <= $3
    """,
    """
    INSERT INTO @rewinds (thread, position, low, high)
    SELECT $1, position, low, high FROM @rewinds WHERE thread = $2 AND position <= $3
    """,
    """
    INSERT INTO @text_uses (thread, digest, position)
    SELECT $1, digest, position FROM @text_uses WHERE thread = $2 AND position <= $3
    """,
)
_FORKED = """
UPDATE @threads SET created_at = $2, updated_at = $2, active_at = $2, length = $3, events = $4,
       position = $5, forked_from = $6, forked_at = $4, scope = $7, family = $8,
       snapshot = coalesce((SELECT max(position) FROM @snapshots WHERE thread = $1), 0)
WHERE pk = $1
"""


async def fork(
    db: Db, thread_id: str, new_id: str, at: int | None, at_ms: int, by: str | None
) -> Thread:
    # The lock keeps a deletion from taking away what is copied.
    source = await lock_thread(db, thread_id)
    if source is None:
        raise NotFound("thread", thread_id)
    position, length, events = await find_position(db, source, at)
    await db.run(_ADD_THREAD, new_id, at_ms)
    pk, owner, written = await db.row(_ROW, new_id)
    # A row without both was left by an owner that claimed the thread and released it unwritten.
    if written or owner is not None:
        raise AlreadyExists("thread", new_id)
    for copy in _COPIES:
        await db.run(copy, pk, source.pk, position)
    await db.run(_FORKED, pk, at_ms, length, events, position, thread_id, *parse_family(new_id))
    if (said := fork_metadata(source.metadata(), by)) != NO_METADATA:
        await write_metadata(db, pk, said, dumps(said))
    return (await thread_of(db, pk)).thread()


# -- deletion ---------------------------------------------------------------------------------

_CHILDREN = f"SELECT {THREAD_COLUMNS} FROM @threads AS t WHERE t.parent = ANY (?::text[])"
_LOCK = f"""
SELECT {THREAD_COLUMNS} FROM @threads AS t WHERE t.pk = ANY (?::bigint[])
ORDER BY t.id FOR UPDATE OF t
"""
_DETACH = "UPDATE @threads SET parent = NULL, updated_at = ? WHERE parent = ?"
_OPEN_ABOVE = """
WITH RECURSIVE above(id, parent, open_run) AS (
    SELECT id, parent, open_run FROM @threads WHERE id = $1
    UNION SELECT t.id, t.parent, t.open_run FROM above AS a JOIN @threads AS t ON t.id = a.parent
)
SELECT id, open_run FROM above WHERE open_run IS NOT NULL AND id <> $1 LIMIT 1
"""
_DELETES = tuple(
    f"DELETE FROM @{table} WHERE thread = ANY ($1::bigint[])"
    for table in (
        *("snapshots", "tickets", "commands", "command_keys", "submission_keys"),
        *("outboxes", "streams", "thread_metadata", "blob_uses", "rewinds", "text_uses"),
    )
)
_DELETE_COMMITS = """
WITH gone AS (DELETE FROM @commits WHERE thread = ANY (?::bigint[]) RETURNING length(delta) AS size)
SELECT count(*), coalesce(sum(size), 0)::bigint FROM gone
"""
# The key of a tree's budget ledger ends with the id of its root run.
_DELETE_BOOKS = """
DELETE FROM @profiles WHERE owner = $1
AND key IN (SELECT $2 || id FROM @runs WHERE thread = ANY ($3::bigint[]))
"""
_DELETE_RUNS = "DELETE FROM @runs WHERE thread = ANY (?::bigint[])"
# First the lock, then another statement, which sees the uses of commits that came before the lock.
_LOCK_TEXTS = """
SELECT digest FROM @texts
WHERE digest IN (SELECT digest FROM @text_uses WHERE thread = ANY (?::bigint[]))
ORDER BY digest FOR UPDATE
"""
_DELETE_TEXTS = """
DELETE FROM @texts AS t WHERE t.digest = ANY ($1::bytea[]) AND NOT EXISTS (
    SELECT 1 FROM @text_uses AS u WHERE u.digest = t.digest AND u.thread <> ALL ($2::bigint[]))
"""
_NOTE_DELETED = """
INSERT INTO @deleted_threads (id, at_ms)
SELECT id, $2 FROM @threads WHERE pk = ANY ($1::bigint[]) AND position > 0
ON CONFLICT (id) DO UPDATE SET at_ms = excluded.at_ms
"""
_FORGET_DELETED = "DELETE FROM @deleted_threads WHERE at_ms < ?"
_RAISE_EPOCHS = """
UPDATE @epochs SET floor = t.epoch
FROM (SELECT max(epoch) AS epoch FROM @threads WHERE pk = ANY (?::bigint[])) AS t
WHERE t.epoch > floor
"""
_DELETE_THREADS = "DELETE FROM @threads WHERE pk = ANY (?::bigint[])"


async def delete_thread(
    db: Db, thread_id: str, children: ChildStrategy, force: bool, at_ms: int
) -> DeleteResult:
    thread = await lock_thread(db, thread_id)
    if thread is None:
        raise NotFound("thread", thread_id)
    family = [thread]
    born = await _children(db, [thread])
    if children is ChildStrategy.CASCADE:
        known = {thread.pk}
        while born := [child for child in born if child.pk not in known]:
            known.update(child.pk for child in born)
            family += born
            born = await _children(db, born)
        family = await _lock_threads(db, family)
    elif children is ChildStrategy.REJECT and born:
        names = ", ".join(repr(child.id) for child in born[:3])
        raise InvalidRecord(
            f"thread {thread_id!r} has children ({names}{', …' if len(born) > 3 else ''}): "
            "delete it with children='detach' to keep them, or 'cascade' to delete them too"
        )
    for member in family:
        if member.is_owned and member.owner is not None:
            raise ThreadOwned(member.id, owner_name(member.owner))
    for member in () if force else family:
        if member.open_run is not None:
            raise RunOpen(thread_id, member.open_run, of=member.id)
    if open_above := await db.row(_OPEN_ABOVE, thread_id):
        raise RunOpen(thread_id, open_above[1], of=open_above[0])
    if children is ChildStrategy.DETACH:
        await db.run(_DETACH, at_ms, thread_id)
    return await _delete(db, family, at_ms)


async def _children(db: Db, parents: Iterable[ThreadRow]) -> list[ThreadRow]:
    rows = await db.rows(_CHILDREN, [parent.id for parent in parents])
    return [ThreadRow(*row) for row in rows]


async def _lock_threads(db: Db, threads: Iterable[ThreadRow]) -> list[ThreadRow]:
    rows = await db.rows(_LOCK, [thread.pk for thread in threads])
    return [ThreadRow(*row) for row in rows]


async def _delete(db: Db, threads: Sequence[ThreadRow], at_ms: int) -> DeleteResult:
    """Delete threads, which are locked."""
    await db.run(_FORGET_DELETED, at_ms - KEY_KEPT_MS)
    pks = [thread.pk for thread in threads]
    commits, size = await db.row(_DELETE_COMMITS, pks)
    texts = [digest for (digest,) in await db.rows(_LOCK_TEXTS, pks)]
    await db.run(_DELETE_TEXTS, texts, pks)
    await db.run(_DELETE_BOOKS, str(ProfileOwner()), ledger_key(""), pks)
    runs = await db.run(_DELETE_RUNS, pks)
    for delete in _DELETES:
        await db.run(delete, pks)
    await db.run(_NOTE_DELETED, pks, at_ms)
    await db.run(_RAISE_EPOCHS, pks)
    await db.run(_DELETE_THREADS, pks)
    # A row that was only claimed is deleted too, but it is no thread yet.
    written = sum(thread.position > 0 for thread in threads)
    return DeleteResult(threads=written, runs=runs, commits=commits, bytes=size)


_LONG_STATEMENT_SECONDS = 600
"""Seconds that a statement may take which reads every thread."""


# -- prune ------------------------------------------------------------------------------------

# The threads that may go: old, without an open or a submitted run, without a live owner, not
# beneath an open run, and without children that are kept. There may be a million: each part is a
# join, since `NOT IN` reads a long list anew for every row.
_OLD = """
WITH RECURSIVE old AS (
    SELECT t.pk, t.id, t.parent FROM @threads AS t
    WHERE t.updated_at < $1 AND t.open_run IS NULL
      AND (t.owner IS NULL OR t.owner = ANY (ARRAY(SELECT @dead_owners_v1())))
      AND NOT EXISTS (SELECT 1 FROM @commands AS c WHERE c.kind = 'run' AND c.thread = t.pk)
), beneath(id, parent) AS (
    SELECT c.id, c.parent FROM @threads AS p JOIN @threads AS c ON c.parent = p.id
    WHERE p.open_run IS NOT NULL
    UNION SELECT c.id, c.parent FROM beneath AS b JOIN @threads AS c ON c.parent = b.id
), kept(id) AS (
    SELECT t.parent FROM @threads AS t LEFT JOIN old AS o ON o.pk = t.pk
    WHERE t.parent IS NOT NULL AND o.pk IS NULL
    UNION SELECT parent FROM beneath
    UNION SELECT t.parent FROM kept AS k JOIN @threads AS t ON t.id = k.id
    WHERE t.parent IS NOT NULL
)
SELECT o.pk FROM old AS o
LEFT JOIN beneath AS b ON b.id = o.id LEFT JOIN kept AS k ON k.id = o.id
WHERE b.id IS NULL AND k.id IS NULL ORDER BY o.pk DESC
"""
_STILL_OLD = f"""
SELECT {THREAD_COLUMNS} FROM @threads AS t
WHERE t.pk = ANY ($1::bigint[]) AND t.updated_at < $2 AND t.open_run IS NULL
  AND NOT @is_alive_v1(t.owner)
  AND NOT EXISTS (SELECT 1 FROM @commands AS c WHERE c.kind = 'run' AND c.thread = t.pk)
  AND NOT EXISTS (SELECT 1 FROM @threads AS c WHERE c.parent = t.id AND c.pk <> ALL ($1::bigint[]))
ORDER BY t.id FOR UPDATE OF t SKIP LOCKED
"""
_BENEATH_OPEN = """
WITH RECURSIVE above(of, parent) AS (
    SELECT id, parent FROM @threads WHERE id = ANY (?::text[])
    UNION SELECT a.of, t.parent FROM above AS a JOIN @threads AS t ON t.id = a.parent
)
SELECT DISTINCT a.of FROM above AS a JOIN @threads AS t ON t.id = a.parent
WHERE t.open_run IS NOT NULL
"""


async def find_old(db: Db, before_ms: int) -> list[int]:
    """The threads that `prune` may delete, children before their parents. It reads every thread."""
    async with db.connection.transaction():
        await db.run(f"SET LOCAL statement_timeout = '{_LONG_STATEMENT_SECONDS}s'")
        text = db.schema.statement(_OLD)
        return [
            pk
            for (pk,) in await db.connection.fetch(text, before_ms, timeout=_LONG_STATEMENT_SECONDS)
        ]


async def delete_old(db: Db, threads: Sequence[int], before_ms: int, at_ms: int) -> DeleteResult:
    """Delete those of the threads that were not used meanwhile."""
    rows = [ThreadRow(*row) for row in await db.rows(_STILL_OLD, threads, before_ms)]
    born = [row.id for row in rows if row.parent is not None]
    kept = {id for (id,) in await db.rows(_BENEATH_OPEN, born)} if born else set()
    return await _delete(db, [row for row in rows if row.id not in kept], at_ms)


# -- what has expired -------------------------------------------------------------------------

_FORGET_KEYS = "DELETE FROM @submission_keys WHERE at_ms < ?"


async def forget_expired(db: Db, at_ms: int) -> None:
    """Delete what is kept for some days alone: keys, ids of deleted threads, and dead nodes."""
    await db.run(_FORGET_KEYS, at_ms - KEY_KEPT_MS)
    await db.run(_FORGET_DELETED, at_ms - KEY_KEPT_MS)
    await db.run(FORGET_NODES)


# -- forgetting a tenant ----------------------------------------------------------------------

_IN_SCOPE = "SELECT pk FROM @threads WHERE scope = ? ORDER BY pk DESC"
_FREE = f"""
SELECT {THREAD_COLUMNS} FROM @threads AS t
WHERE t.pk = ANY (?::bigint[]) AND NOT @is_alive_v1(t.owner)
ORDER BY t.id FOR UPDATE OF t SKIP LOCKED
"""


async def find_in_scope(db: Db, scope: str) -> list[int]:
    """The threads of a tenant, the latest first."""
    return [pk for (pk,) in await db.rows(_IN_SCOPE, scope)]


async def delete_free(db: Db, threads: Sequence[int], at_ms: int) -> DeleteResult:
    """Delete those of the threads that have no live owner, whatever state their runs are in."""
    rows = await db.rows(_FREE, threads)
    return await _delete(db, [ThreadRow(*row) for row in rows], at_ms)
