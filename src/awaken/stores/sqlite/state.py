"""State and call ledger, computed from the last snapshot and the commits after it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from awaken.codec import dumps
from awaken.core.rewind import Hidden, before_hidden, find_hidden_spans
from awaken.stores.rules import merge_rewound_state
from awaken.stores.sql import queries
from awaken.stores.sql.delta import calls_in, changes_in
from awaken.stores.sql.fold import Fold, FoldedState, State, load_snapshot
from awaken.stores.sqlite.rows import RunRow, commit_id, commit_of, commits


def fold_at(db: sqlite3.Connection, thread: int, position: int) -> Fold:
    """The state and ledger of a thread after the commit at `position`."""
    at, base = next(_snapshots(db, thread, 1, position), (0, FoldedState()))
    fold = Fold(base)
    for row in commits(db, thread, at + 1, position):
        if row.run is not None and row.run not in fold.runs:
            fold.runs[row.run] = _state_before(db, thread, row.run, at)
        fold.add(row.run, changes_in(row))
    return fold


def fold_rewound(db: sqlite3.Connection, thread: int, position: int, to: int) -> Fold:
    """The state and ledger of a thread after the commit at `position`, if the messages behind the
    position `to` in the log then go out of view.

    They are those from before the first of these messages was written. What became of the calls of
    that time since then is still known.
    """
    first = before_hidden(load_hidden(db, thread), to) + 1
    before = commit_of(db, thread, position, queries.FIRST_SEQ, first) - 1
    now, fold = fold_at(db, thread, position), fold_at(db, thread, before)
    fold.thread, fold.runs = merge_rewound_state(fold.thread, now.thread), now.runs
    for row in commits(db, thread, before + 1, position):
        fold.add_calls(calls_in(row))
    return fold


def write_rewind(
    db: sqlite3.Connection, thread: int, position: int, run: int | None, to: int, until: int
) -> None:
    """Note that the commit at `position`, which is written, has rewound the thread.

    A snapshot of the state that it leaves spares every reader the rewound commits.
    """
    (row,) = commits(db, thread, position, position)
    fold = fold_rewound(db, thread, position - 1, to)
    db.execute(queries.ADD_REWIND, (thread, position, to, until))
    fold.runs = fold_at(db, thread, position).runs
    fold.add(None, changes_in(row))
    _write_snapshot(db, thread, position, run, fold)


def load_hidden(db: sqlite3.Connection, thread: int) -> Hidden:
    """The spans of a thread's messages that are out of view."""
    return find_hidden_spans(db.execute(queries.REWINDS, (thread,)))


def run_state(db: sqlite3.Connection, run: RunRow) -> State:
    """The state of a run after its last commit."""
    return _run_state(db, run.thread, run.pk, run.first_position, run.last_position)


def _state_before(db: sqlite3.Connection, thread: int, run: int, at: int) -> State:
    """The state of a run that the snapshot at `at` has not: a new run, or one that was done."""
    (first,) = db.execute(queries.RUN_BEGIN, (run,)).fetchone()
    return _run_state(db, thread, run, first, at)


def _run_state(db: sqlite3.Connection, thread: int, run: int, first: int, last: int) -> State:
    state: State = {}
    for at, snapshot in _snapshots(db, thread, first, last):
        if run in snapshot.runs:
            first, state = at + 1, dict(snapshot.runs[run])
            break
    for row in commits(db, thread, first, last, run):
        state.update(changes_in(row).run_state)
    return state


def save_snapshot(db: sqlite3.Connection, thread: int, position: int, run: int | None) -> None:
    """Store a snapshot, with the state of the open runs and of the run just written."""
    _write_snapshot(db, thread, position, run, fold_at(db, thread, position))


def _write_snapshot(
    db: sqlite3.Connection, thread: int, position: int, run: int | None, fold: Fold
) -> None:
    kept = frozenset(pk for pk in fold.runs if pk == run or _is_open(db, pk))
    db.execute(queries.ADD_SNAPSHOT, (commit_id(thread, position), dumps(fold.snapshot(kept))))


def _snapshots(
    db: sqlite3.Connection, thread: int, first: int, last: int
) -> Iterator[tuple[int, FoldedState]]:
    """The snapshots from position `last` down to `first`."""
    base = commit_id(thread, 0)
    for id, state in db.execute(queries.SNAPSHOTS, (base + first, base + last)):
        yield id - base, load_snapshot(thread, id - base, state)


def _is_open(db: sqlite3.Connection, run: int) -> bool:
    row = db.execute(queries.RUN_STATUS, (run,)).fetchone()
    return row is not None and row[0] != "done"
