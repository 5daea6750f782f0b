"""Submissions, and claiming the next runs, in the SQLite store."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from awaken.codec import dumps
from awaken.core.identity import id_of
from awaken.core.lifecycle import RunStatus
from awaken.core.run import RunRecord
from awaken.core.store.commands import KEY_KEPT_MS, Submission, SubmitMode, Submitted, ThreadCommand
from awaken.core.store.commits import Fence, ThreadCommit
from awaken.core.thread import NO_METADATA, metadata_of
from awaken.core.thread_ids import parse_family
from awaken.errors import AlreadyExists, ThreadBusy, ThreadDeleted, ThreadOwned
from awaken.stores.rules import StoredKey, needs_idle_thread, steering_command
from awaken.stores.sql import queries
from awaken.stores.sql.cursors import UnreadableRows
from awaken.stores.sql.delta import pack
from awaken.stores.sql.submissions import PackedSubmission, Wanted
from awaken.stores.sqlite.commands import add_command, cancel_tree, decide, send_if_there
from awaken.stores.sqlite.owners import Owners
from awaken.stores.sqlite.rows import ThreadRow, commit_id, find_run, find_thread, write_metadata
from awaken.stores.sqlite.runs import recheck
from awaken.stores.sqlite.threads import find_rewind


def submit(
    db: sqlite3.Connection, owners: Owners, unreadable: UnreadableRows, packed: PackedSubmission
) -> Submitted:
    """Store a submission; see `Commands.submit`."""
    submission = packed.submission
    thread = find_thread(db, submission.thread_id)
    oldest = submission.at_ms - KEY_KEPT_MS
    if thread is None:
        deleted = db.execute(queries.DELETED_AT, (submission.thread_id,)).fetchone()
        if deleted is not None and deleted[0] >= oldest:
            raise ThreadDeleted(submission.thread_id)
    elif submission.key is not None:
        row = db.execute(queries.SUBMISSION_KEY, (thread.pk, submission.key)).fetchone()
        answer = StoredKey(*row).answer(submission) if row is not None else None
        if answer is not None:
            return answer
    if find_run(db, submission.run_id) is not None:
        raise AlreadyExists("run", submission.run_id)
    run_id = _take(db, owners, unreadable, packed, thread)
    thread = thread or find_thread(db, submission.thread_id)
    assert thread is not None, "a submission creates its thread"
    if submission.key is not None:
        db.execute(queries.DROP_OLD_SUBMISSION_KEYS, (oldest,))
        db.execute(
            queries.ADD_SUBMISSION_KEY,
            (
                thread.pk,
                submission.key,
                submission.request_digest,
                run_id,
                thread.events,
                submission.at_ms,
            ),
        )
    return Submitted(thread_id=submission.thread_id, run_id=run_id, cursor=thread.events)


def _take(
    db: sqlite3.Connection,
    owners: Owners,
    unreadable: UnreadableRows,
    packed: PackedSubmission,
    thread: ThreadRow | None,
) -> str:
    """Carry a submission out in the store; returns the id of the run that it leads to."""
    submission, at_ms, command = packed.submission, packed.submission.at_ms, packed.command
    if submission.decisions:
        decide(db, unreadable, submission.thread_id, submission.decisions, at_ms)
        assert thread is not None, "only the tickets of a thread can be answered"
        if submission.messages:
            add_command(db, thread.pk, steering_command(submission), packed.steering_command)
        return thread.open_run or thread.latest_run or ""
    if submission.rewind_to is not None:
        rewinds_to = find_rewind(db, submission.thread_id, submission.rewind_to)
        command = dumps(ThreadCommand.run(submission, rewinds_to))
    if needs_idle_thread(submission):
        _refuse_busy(db, owners, submission.thread_id, thread)
    open_run = thread.open_run if thread is not None else None
    if submission.mode is SubmitMode.STEER and thread is not None and open_run is not None:
        add_command(db, thread.pk, steering_command(submission), packed.steering_command)
        return open_run
    if submission.mode is SubmitMode.INTERRUPT and thread is not None:
        by = id_of(submission.principal)
        cancel_tree(db, owners, unreadable, thread.id, at_ms, by)
        for (run_id,) in db.execute(queries.SUBMITTED_RUNS, (thread.pk,)).fetchall():
            cancel = ThreadCommand.cancel(thread.id, run_id, at_ms=at_ms, by=by)
            send_if_there(db, cancel, dumps(cancel))
    pk = thread.pk if thread is not None else _create_thread(db, submission)
    scope = thread.scope if thread is not None else parse_family(submission.thread_id).scope
    listed = ("created", submission.agent_id, None, "agent")
    db.execute(
        queries.ADD_RUN,
        (
            *(submission.run_id, pk, scope, submission.user),
            *(0, 0, packed.record, submission.at_ms),
            *listed,
        ),
    )
    db.execute(
        queries.ADD_SUBMISSION,
        (pk, submission.run_id, command, submission.not_before_ms),
    )
    return submission.run_id


def _refuse_busy(
    db: sqlite3.Connection, owners: Owners, thread_id: str, thread: ThreadRow | None
) -> None:
    if thread is not None:
        queued = db.execute(queries.SUBMITTED_RUNS, (thread.pk,)).fetchone()
        if thread.open_run is not None or queued is not None:
            raise ThreadBusy(thread_id, thread.open_run or queued[0])
    row = db.execute(queries.OWNER, (thread_id,)).fetchone()
    if row is not None and row[1] is not None and owners.is_alive(row[1]):
        raise ThreadOwned(thread_id, row[1])


def _create_thread(db: sqlite3.Connection, submission: Submission) -> int:
    """Make the thread exist for readers, with an empty commit. A claim may have made its row."""
    thread_id, at_ms = submission.thread_id, submission.at_ms
    row = db.execute(queries.OWNER, (thread_id,)).fetchone()
    if row is None:
        pk = db.execute(queries.ADD_THREAD, (thread_id, at_ms, at_ms)).lastrowid or 0
    else:
        pk = row[0]
    empty = pack(ThreadCommit(thread_id=thread_id, expected_length=0, at_ms=at_ms))
    db.execute(queries.ADD_COMMIT, (commit_id(pk, 1), 1, 1, at_ms, None, empty.delta))
    db.execute(queries.BEGIN_THREAD, (at_ms, at_ms, at_ms, pk))
    db.execute(queries.PLACE_THREAD, (None, *parse_family(thread_id), pk))
    if (said := metadata_of(submission.record())) is not NO_METADATA:
        write_metadata(db, pk, said, dumps(said))
    return pk


# -- claims -----------------------------------------------------------------------------------


def find_next(
    db: sqlite3.Connection, owners: Owners, unreadable: UnreadableRows, wanted: Wanted
) -> Sequence[RunRecord]:
    """The runs that can continue, of those that are wanted, oldest first. What cannot be read is
    passed over; then the next submission of its thread comes first."""
    recheck(db, unreadable)
    while True:
        known = len(unreadable.commands)
        found = _find_next(db, owners, unreadable, wanted)
        if len(unreadable.commands) == known or len(found) == wanted.limit:
            return found


def _find_next(
    db: sqlite3.Connection, owners: Owners, unreadable: UnreadableRows, wanted: Wanted
) -> Sequence[RunRecord]:
    alive: dict[str, bool] = {}
    found: list[RunRecord] = []
    passed_over = dumps(list(unreadable.commands))
    for run_id, agent, body, owner, status, thread in db.execute(
        queries.NEXT_RUNS, (wanted.overdue_ms, wanted.at_ms, passed_over)
    ).fetchall():
        if len(found) == wanted.limit:
            break
        if agent not in wanted.agents or run_id in wanted.skip:
            continue
        if owner is not None and owner not in alive:
            alive[owner] = owners.is_alive(owner)
        if owner is not None and alive[owner]:
            continue
        record = unreadable.read_run(run_id, body)
        if not _has_readable_commands(
            db, unreadable, thread, run_id, status, has_record=record is not None
        ):
            continue
        if record is None or record.is_delegated or record.takeovers is not None:
            continue
        if all(other.thread_id != record.thread_id for other in found):
            found.append(record)
    return found


def _has_readable_commands(
    db: sqlite3.Connection,
    unreadable: UnreadableRows,
    thread: int,
    run_id: str,
    status: str,
    *,
    has_record: bool,
) -> bool:
    """Whether the commands of a run that is to start or continue, can be read. If one cannot, the
    run is looked for again without it."""
    known = len(unreadable.commands)
    if status == RunStatus.CREATED:
        for id, body in db.execute(queries.SUBMISSION, (thread, run_id)).fetchall():
            if unreadable.read_command(id, body) is not None and not has_record:
                unreadable.commands.add(id)
    if status == RunStatus.WAITING:
        for id, body in db.execute(queries.CALLS_OF_RUN, (thread, run_id)).fetchall():
            unreadable.read_command(id, body)
    return len(unreadable.commands) == known


def claim_next(
    db: sqlite3.Connection,
    owners: Owners,
    unreadable: UnreadableRows,
    wanted: Wanted,
    claim: Callable[[str], Fence],
) -> Sequence[tuple[Fence, RunRecord]]:
    """Claim the threads of the runs that can continue."""
    found = find_next(db, owners, unreadable, wanted)
    return [(claim(record.thread_id), record) for record in found]
