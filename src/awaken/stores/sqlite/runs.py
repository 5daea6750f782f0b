"""Reading runs: their records, state and call ledger, and the interrupted ones."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from awaken.codec import dumps
from awaken.core.lifecycle import RunStatus
from awaken.core.run import PersistedState, RunMessageOutput, RunRecord
from awaken.core.store.commits import CallEntry
from awaken.stores.sql import queries
from awaken.stores.sql.cursors import UnreadableRows
from awaken.stores.sql.delta import calls_in
from awaken.stores.sql.fold import enter, to_persisted_state
from awaken.stores.sqlite.owners import Owners
from awaken.stores.sqlite.rows import commits, find_run, find_thread, thread_of
from awaken.stores.sqlite.state import fold_at, run_state
from awaken.stores.sqlite.threads import messages_between

_replace = msgspec.structs.replace


def load_run(db: sqlite3.Connection, run_id: str | None) -> RunRecord | None:
    row = find_run(db, run_id)
    if row is None:
        return None
    thread = thread_of(db, row.thread)
    record = row.record(thread.id)
    output = record.output
    if output is not None and output.range is not None:
        stop = min(output.range.to_seq, thread.length)
        written = messages_between(db, thread, output.range.from_seq - 1, stop)
        ids = tuple(m.id for m in written if m.id and m.produced_by_run_id() == record.run_id)
        output = RunMessageOutput(thread_id=output.thread_id, range=output.range, message_ids=ids)
    state = {**fold_at(db, thread.pk, thread.position).thread, **run_state(db, row)}
    return _replace(record, output=output, state=to_persisted_state(state))


def latest_run(db: sqlite3.Connection, thread_id: str) -> RunRecord | None:
    thread = find_thread(db, thread_id)
    return load_run(db, thread.latest_run) if thread else None


def load_run_state(db: sqlite3.Connection, run_id: str) -> PersistedState:
    row = find_run(db, run_id)
    return to_persisted_state(run_state(db, row) if row else {})


def load_calls(db: sqlite3.Connection, run_id: str) -> Sequence[CallEntry]:
    row = find_run(db, run_id)
    ledger: dict[str, CallEntry] = {}
    if row is not None:
        for commit in commits(db, row.thread, row.first_position, row.last_position, row.pk):
            for entry in calls_in(commit):
                enter(ledger, entry)
    return tuple(ledger.values())


def list_interrupted(
    db: sqlite3.Connection,
    owners: Owners,
    unreadable: UnreadableRows,
    now_ms: int,
    thread_id: str | None,
    limit: int | None,
) -> Sequence[RunRecord]:
    """The first `limit` open runs without a live owner that a worker should take over."""
    recheck(db, unreadable)
    alive: dict[str, bool] = {}
    found: list[RunRecord] = []
    rows = (
        db.execute(queries.OPEN_RUNS)
        if thread_id is None
        else db.execute(queries.OPEN_RUNS_OF, (thread_id,))
    )
    for run_id, status, body, owner, thread in rows.fetchall():
        if len(found) == limit:
            break
        if owner is not None:
            if owner not in alive:
                alive[owner] = owners.is_alive(owner)
            if alive[owner]:
                continue
        called = status != RunStatus.WAITING or _is_called(db, unreadable, thread, run_id, now_ms)
        if called or _has_ended_parent(db, run_id):
            record = unreadable.read_run(run_id, body)
            if record is not None and (called or record.is_delegated):
                found.append(record)
    return found


def recheck(db: sqlite3.Connection, unreadable: UnreadableRows) -> None:
    """Read the runs and commands again that could not be decoded."""
    if unreadable.runs or unreadable.commands:
        unreadable.recheck(
            db.execute(queries.RECORDS_OF, (dumps(list(unreadable.runs)),)).fetchall(),
            db.execute(queries.BODIES_OF, (dumps(list(unreadable.commands)),)).fetchall(),
        )


def _is_called(
    db: sqlite3.Connection, unreadable: UnreadableRows, thread: int, run_id: str, now_ms: int
) -> bool:
    """Whether a waiting run has a command that can be read, as far as that is known, or one of its
    tickets has expired."""
    passed_over = dumps(list(unreadable.commands))
    return (
        db.execute(queries.HAS_COMMAND, (thread, run_id, passed_over)).fetchone() is not None
        or db.execute(queries.HAS_EXPIRED_TICKET, (thread, run_id, now_ms)).fetchone() is not None
    )


def _has_ended_parent(db: sqlite3.Connection, run_id: str) -> bool:
    return db.execute(queries.HAS_ENDED_PARENT, (run_id,)).fetchone() is not None
