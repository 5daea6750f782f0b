"""Submissions, and claiming the next runs, in the Postgres store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from awaken.codec import dumps
from awaken.core.identity import id_of
from awaken.core.lifecycle import RunStatus
from awaken.core.run import RunRecord
from awaken.core.store.commands import KEY_KEPT_MS, Submission, SubmitMode, Submitted, ThreadCommand
from awaken.core.store.commits import Fence, ThreadCommit
from awaken.core.thread import NO_METADATA, metadata_of
from awaken.core.thread_ids import parse_family
from awaken.errors import AlreadyExists, ThreadBusy, ThreadDeleted, ThreadOwned
from awaken.stores.postgres.commands import add_command, cancel_tree, decide, send_if_there
from awaken.stores.postgres.connections import Db
from awaken.stores.postgres.rows import (
    ThreadRow,
    find_run,
    lock_thread,
    owner_name,
    thread_of,
    user_bytes,
    with_canceller,
    write_metadata,
)
from awaken.stores.postgres.runs import recheck
from awaken.stores.postgres.thread_reads import find_rewind
from awaken.stores.rules import StoredKey, needs_idle_thread, steering_command
from awaken.stores.sql.cursors import UnreadableRows
from awaken.stores.sql.delta import pack
from awaken.stores.sql.submissions import PackedSubmission, Wanted

_DELETED_AT = "SELECT at_ms FROM @deleted_threads WHERE id = ?"
_KEY = "SELECT asked, run, cursor, at_ms FROM @submission_keys WHERE thread = ? AND key = ?"
_DROP_OLD_KEYS = "DELETE FROM @submission_keys WHERE at_ms < ?"
_ADD_KEY = """
INSERT INTO @submission_keys (thread, key, asked, run, cursor, at_ms) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (thread, key) DO UPDATE
SET asked = excluded.asked, run = excluded.run, cursor = excluded.cursor, at_ms = excluded.at_ms
"""
_SUBMITTED = "SELECT run_id FROM @commands WHERE kind = 'run' AND thread = ? ORDER BY id"
_ADD_RUN = """
INSERT INTO @runs (id, thread, scope, agent, kind, status, user_id, delegated, suspect,
                   first_position, last_position, updated_at_ms, changed_at, record)
VALUES ($1, $2, $3, $4, 'agent', 'created', $5, $6, false, 0, 0, $7, $7, $8)
"""
_OWNER = "SELECT owner, @is_alive_v1(owner) FROM @threads WHERE id = ?"
_ADD_THREAD = """
INSERT INTO @threads (id, created_at, updated_at, epoch)
SELECT $1, $2, $2, floor FROM @epochs ON CONFLICT (id) DO NOTHING
"""
_LOCK_ROW = "SELECT pk, position FROM @threads WHERE id = ? FOR UPDATE"
_ADD_COMMIT = """
INSERT INTO @commits (thread, position, first_seq, first_event, at_ms, delta)
VALUES (?, 1, 1, 1, ?, ?)
"""
_BEGIN = """
UPDATE @threads SET created_at = $2, updated_at = $2, active_at = $2, position = 1, scope = $3,
       family = $4
WHERE pk = $1
"""

_ANY_TO_TAKE = "ANY (ARRAY(SELECT @dead_owners_v1() WHERE @may_take_v1($5)))"
# Runs of the agents that can continue: running; waiting, and answered, cancelled or expired;
# submitted, due, and first in a thread without an open run. Each part is found by an index. Of each
# thread the first run counts. $8 are the commands that cannot be read, which are passed over.
_NEXT = f"""
FROM (
    SELECT thread, min(pk) AS pk FROM @runs WHERE pk IN (
        SELECT l.pk FROM @runs AS l JOIN @threads AS o ON o.pk = l.thread
        WHERE l.status = 'running' AND (o.owner IS NULL OR o.owner = {_ANY_TO_TAKE})
        UNION ALL
        SELECT w.pk FROM @commands AS c JOIN @threads AS o ON o.pk = c.thread
        JOIN @runs AS w ON w.id = o.open_run
        WHERE c.kind IN ('cancel', 'decisions') AND w.status = 'waiting'
          AND (c.run_id IS NULL OR c.run_id = w.id) AND c.id <> ALL ($8::bigint[])
        UNION ALL
        SELECT w.pk FROM @tickets AS k JOIN @runs AS w ON w.id = k.run_id
        WHERE k.status = 'open' AND k.expires_at IS NOT NULL AND k.expires_at < $1
          AND w.status = 'waiting'
        UNION ALL
        SELECT n.pk FROM (
            SELECT thread, min(id) AS id FROM @commands
            WHERE kind = 'run' AND (not_before IS NULL OR not_before <= $2)
              AND id <> ALL ($8::bigint[]) GROUP BY thread
        ) AS q
        JOIN @commands AS c ON c.id = q.id JOIN @threads AS o ON o.pk = q.thread
        JOIN @runs AS n ON n.id = c.run_id
        WHERE o.open_run IS NULL AND n.status = 'created'
    )
    AND kind = 'agent' AND NOT delegated AND NOT suspect
    AND agent = ANY ($3::text[]) AND id <> ALL ($4::text[]) GROUP BY thread
) AS f
JOIN @runs AS r ON r.pk = f.pk JOIN @threads AS t ON t.pk = f.thread
WHERE (t.owner IS NULL OR t.owner = {_ANY_TO_TAKE})
  AND ($6::bigint[] IS NULL OR t.pk = ANY ($6))
ORDER BY r.pk LIMIT $7
"""
_FIND_NEXT = f"SELECT t.pk, t.epoch {_NEXT}"
_READ_NEXT = f"""
SELECT t.pk, t.id, r.id, r.cancelled_by, r.record, t.epoch, t.owner, r.status {_NEXT}
"""
_SUBMISSION = """
SELECT id, body FROM @commands WHERE kind = 'run' AND thread = ? AND run_id = ? ORDER BY id LIMIT 1
"""
_CALLS_OF_RUN = """
SELECT id, body FROM @commands WHERE thread = ? AND kind IN ('cancel', 'decisions')
AND (run_id IS NULL OR run_id = ?)
"""
# Threads that another node is claiming at this moment, or has claimed meanwhile, are passed over.
_LOCK_SOME = """
SELECT t.pk FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS seen(pk, epoch, place)
JOIN @threads AS t ON t.pk = seen.pk AND t.epoch = seen.epoch
ORDER BY seen.place LIMIT $3 FOR UPDATE OF t SKIP LOCKED
"""
_TAKE = "UPDATE @threads SET owner = $1, epoch = epoch + 1 WHERE pk = ANY ($2::bigint[])"
_MAX_CANDIDATES = 1000
"""The most runs that a node chooses from, so that many nodes seldom choose the same."""


async def submit(db: Db, unreadable: UnreadableRows, packed: PackedSubmission) -> Submitted:
    """Store a submission; see `Commands.submit`."""
    submission = packed.submission
    thread = await lock_thread(db, submission.thread_id)
    oldest = submission.at_ms - KEY_KEPT_MS
    if thread is None:
        deleted = await db.value(_DELETED_AT, submission.thread_id)
        if deleted is not None and deleted >= oldest:
            raise ThreadDeleted(submission.thread_id)
    elif submission.key is not None:
        row = await db.row(_KEY, thread.pk, submission.key)
        answer = StoredKey(*row).answer(submission) if row is not None else None
        if answer is not None:
            return answer
    if await find_run(db, submission.run_id) is not None:
        raise AlreadyExists("run", submission.run_id)
    thread, run_id = await _take(db, unreadable, packed, thread)
    if submission.key is not None:
        await db.run(_DROP_OLD_KEYS, oldest)
        await db.run(
            _ADD_KEY,
            *(thread.pk, submission.key, submission.request_digest),
            *(run_id, thread.events, submission.at_ms),
        )
    return Submitted(thread_id=submission.thread_id, run_id=run_id, cursor=thread.events)


async def _take(
    db: Db, unreadable: UnreadableRows, packed: PackedSubmission, thread: ThreadRow | None
) -> tuple[ThreadRow, str]:
    """Carry a submission out in the store; returns its thread, and the id of the run that it leads
    to."""
    submission, at_ms, body = packed.submission, packed.submission.at_ms, packed.command
    if submission.decisions:
        await decide(db, unreadable, submission.thread_id, submission.decisions, at_ms)
        assert thread is not None, "only the tickets of a thread can be answered"
        if submission.messages:
            await add_command(db, thread.pk, steering_command(submission), packed.steering_command)
        return thread, thread.open_run or thread.latest_run or ""
    if submission.rewind_to is not None:
        rewinds_to = await find_rewind(db, submission.thread_id, submission.rewind_to)
        body = dumps(ThreadCommand.run(submission, rewinds_to))
    if needs_idle_thread(submission):
        await _refuse_busy(db, submission.thread_id, thread)
    open_run = thread.open_run if thread is not None else None
    if submission.mode is SubmitMode.STEER and thread is not None and open_run is not None:
        await add_command(db, thread.pk, steering_command(submission), packed.steering_command)
        return thread, open_run
    if submission.mode is SubmitMode.INTERRUPT and thread is not None:
        await _interrupt(db, unreadable, submission, thread)
    if thread is None:
        thread = await _create_thread(db, submission)
    record = submission.record()
    await db.run(
        _ADD_RUN,
        *(submission.run_id, thread.pk, thread.scope, submission.agent_id),
        *(user_bytes(submission.user), record.is_delegated, at_ms, packed.record),
    )
    command = ThreadCommand.run(submission)
    await add_command(db, thread.pk, command, body, submission.not_before_ms)
    return thread, submission.run_id


async def _interrupt(
    db: Db, unreadable: UnreadableRows, submission: Submission, thread: ThreadRow
) -> None:
    """Cancel what runs in a thread, and end what waits to start there."""
    by, at_ms = id_of(submission.principal), submission.at_ms
    await cancel_tree(db, unreadable, thread.id, at_ms, by)
    for (run_id,) in await db.rows(_SUBMITTED, thread.pk):
        cancel = ThreadCommand.cancel(thread.id, run_id, at_ms=at_ms, by=by)
        await send_if_there(db, cancel, dumps(cancel))


async def _refuse_busy(db: Db, thread_id: str, thread: ThreadRow | None) -> None:
    if thread is not None:
        queued = await db.value(_SUBMITTED, thread.pk)
        if thread.open_run is not None or queued is not None:
            raise ThreadBusy(thread_id, thread.open_run or queued)
    row = await db.row(_OWNER, thread_id)
    if row is not None and row[1]:
        raise ThreadOwned(thread_id, owner_name(row[0]))


async def _create_thread(db: Db, submission: Submission) -> ThreadRow:
    """Make the thread exist for readers, with an empty commit. A claim may have made its row."""
    thread_id, at_ms = submission.thread_id, submission.at_ms
    await db.run(_ADD_THREAD, thread_id, at_ms)
    pk, position = await db.row(_LOCK_ROW, thread_id)
    if position:
        raise ThreadAppeared
    empty = pack(ThreadCommit(thread_id=thread_id, expected_length=0, at_ms=at_ms))
    await db.run(_ADD_COMMIT, pk, at_ms, empty.delta)
    await db.run(_BEGIN, pk, at_ms, *parse_family(thread_id))
    if (said := metadata_of(submission.record())) is not NO_METADATA:
        await write_metadata(db, pk, said, dumps(said))
    return await thread_of(db, pk)


class ThreadAppeared(Exception):
    """Another node created the thread during this transaction, which begins again."""


# -- claims -----------------------------------------------------------------------------------


async def find_next(
    db: Db, node: int, unreadable: UnreadableRows, wanted: Wanted
) -> list[tuple[int, int]]:
    """The threads of the runs that can continue, of those that are wanted, the oldest first, with
    their epochs."""
    if wanted.limit <= 0:
        return []
    await recheck(db, unreadable)
    rows = await db.rows(_FIND_NEXT, *_parameters(wanted, unreadable, node, None, _MAX_CANDIDATES))
    return [(pk, epoch) for pk, epoch in rows]


async def claim_next(
    db: Db, node: int, unreadable: UnreadableRows, wanted: Wanted, seen: Sequence[tuple[int, int]]
) -> Sequence[tuple[Fence, RunRecord]]:
    """Claim those of the threads whose runs can still continue; `seen` is what `find_next` found. A
    run that cannot be read, or has a command that cannot be read, is passed over."""
    threads, epochs = zip(*seen, strict=True)
    rows = await db.rows(_LOCK_SOME, threads, epochs, wanted.limit)
    locked = [pk for (pk,) in rows]
    claimed: list[tuple[Fence, RunRecord]] = []
    taken: list[int] = []
    for pk, thread_id, run_id, by, body, epoch, dead, status in await db.rows(
        _READ_NEXT, *_parameters(wanted, unreadable, node, locked, wanted.limit)
    ):
        record = unreadable.read_run(run_id, body)
        is_readable = await _has_readable_commands(
            db, unreadable, pk, run_id, status, has_record=record is not None
        )
        if record is None or not is_readable:
            continue
        fence = Fence(
            thread_id=thread_id,
            owner=owner_name(node),
            epoch=epoch + 1,
            taken_from=owner_name(dead) if dead is not None else None,
        )
        claimed.append((fence, with_canceller(record, by)))
        taken.append(pk)
    await db.run(_TAKE, node, taken)
    return claimed


async def _has_readable_commands(
    db: Db, unreadable: UnreadableRows, thread: int, run_id: str, status: str, *, has_record: bool
) -> bool:
    """Whether the commands of a run that is to start or continue, can be read. If one cannot, the
    run is looked for again without it."""
    known = len(unreadable.commands)
    if status == RunStatus.CREATED:
        for id, body in await db.rows(_SUBMISSION, thread, run_id):
            if unreadable.read_command(id, body) is not None and not has_record:
                unreadable.commands.add(id)
    if status == RunStatus.WAITING:
        for id, body in await db.rows(_CALLS_OF_RUN, thread, run_id):
            unreadable.read_command(id, body)
    return len(unreadable.commands) == known


def _parameters(
    wanted: Wanted, unreadable: UnreadableRows, node: int, threads: list[int] | None, limit: int
) -> tuple[Any, ...]:
    return (
        *(wanted.overdue_ms, wanted.at_ms, wanted.agents, [*wanted.skip, *unreadable.runs]),
        *(node, threads, limit, list(unreadable.commands)),
    )
