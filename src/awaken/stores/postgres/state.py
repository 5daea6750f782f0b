"""State and call ledger, computed from the last snapshot and the commits after it.

Commits and snapshots never change, so their readers need no transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

from awaken.codec import dumps
from awaken.core.rewind import Hidden, before_hidden
from awaken.stores.postgres.connections import Db
from awaken.stores.postgres.rows import CommitRow, RunRow, commits
from awaken.stores.rules import merge_rewound_state
from awaken.stores.sql.delta import calls_in, changes_in
from awaken.stores.sql.fold import Fold, FoldedState, State, load_snapshot

_LAST_SNAPSHOT = """
SELECT position, state FROM @snapshots WHERE thread = ? AND position <= ?
ORDER BY position DESC LIMIT 1
"""
_SNAPSHOTS = """
SELECT position, state FROM @snapshots WHERE thread = ? AND position BETWEEN ? AND ?
ORDER BY position DESC
"""
_RUN_BEGIN = "SELECT first_position FROM @runs WHERE pk = ?"
_OPEN_RUNS = "SELECT pk FROM @runs WHERE pk = ANY (?::bigint[]) AND status <> 'done'"
_ADD_SNAPSHOT = """
INSERT INTO @snapshots (thread, position, state) VALUES (?, ?, ?) ON CONFLICT DO NOTHING
"""
_NOTE_SNAPSHOT = "UPDATE @threads SET snapshot = greatest(snapshot, ?) WHERE pk = ?"
_COMMIT_OF_SEQ = "SELECT @commit_of_seq_v1(?, ?, ?)"


async def fold_at(db: Db, thread: int, position: int) -> Fold:
    """The state and ledger of a thread after the commit at `position`."""
    row = await db.row(_LAST_SNAPSHOT, thread, position)
    at, state = row if row else (0, None)
    return await fold_rows(db, thread, at, state, await commits(db, thread, at + 1, position))


async def fold_rows(
    db: Db, thread: int, at: int, state: bytes | None, rows: Sequence[CommitRow]
) -> Fold:
    """The state after `rows`, which follow the snapshot at `at`."""
    fold = Fold(FoldedState() if state is None else load_snapshot(thread, at, state))
    for row in rows:
        if row.run is not None and row.run not in fold.runs:
            fold.runs[row.run] = await _state_before(db, thread, row.run, at)
        fold.add(row.run, changes_in(row))
    return fold


async def fold_rewound(db: Db, thread: int, hidden: Hidden, position: int, to: int) -> Fold:
    """The state and ledger of a thread after the commit at `position`, if the messages behind the
    position `to` in the log then go out of view.

    They are those from before the first of these messages was written. What became of the calls of
    that time since then is still known.
    """
    first = before_hidden(hidden, to) + 1
    before = await db.value(_COMMIT_OF_SEQ, thread, position, first) - 1
    now, fold = await fold_at(db, thread, position), await fold_at(db, thread, before)
    fold.thread, fold.runs = merge_rewound_state(fold.thread, now.thread), now.runs
    for row in await commits(db, thread, before + 1, position):
        fold.add_calls(calls_in(row))
    return fold


async def write_rewound(db: Db, thread: int, hidden: Hidden, position: int, to: int) -> None:
    """Write the snapshot of a commit that rewound its thread to `to`, which must be written with
    it: without the snapshot, readers would not know that the state went back.

    `hidden` are the spans that were out of view before.
    """
    (row,) = await commits(db, thread, position, position)
    fold = await fold_rewound(db, thread, hidden, position - 1, to)
    fold.runs = (await fold_at(db, thread, position)).runs
    fold.add(None, changes_in(row))
    await _write_snapshot(db, thread, position, row.run, fold)


async def save_snapshot(db: Db, thread: int, position: int) -> None:
    """Store a snapshot, with the state of the open runs and of the run of that commit."""
    rows = await commits(db, thread, position, position)
    if rows:  # else the thread was deleted meanwhile
        fold = await fold_at(db, thread, position)
        await _write_snapshot(db, thread, position, rows[0].run, fold)


async def _write_snapshot(db: Db, thread: int, position: int, run: int | None, fold: Fold) -> None:
    is_open = {row[0] for row in await db.rows(_OPEN_RUNS, list(fold.runs))}
    kept = frozenset(pk for pk in fold.runs if pk == run or pk in is_open)
    await db.run(_ADD_SNAPSHOT, thread, position, dumps(fold.snapshot(kept)))
    await db.run(_NOTE_SNAPSHOT, position, thread)


async def run_state(db: Db, run: RunRow) -> State:
    """The state of a run after its last commit."""
    return await _run_state(db, run.thread, run.pk, run.first_position, run.last_position)


async def _state_before(db: Db, thread: int, run: int, at: int) -> State:
    """The state of a run that the snapshot at `at` has not: a new run, or one that was done."""
    first = await db.value(_RUN_BEGIN, run)
    return {} if first is None else await _run_state(db, thread, run, first, at)


async def _run_state(db: Db, thread: int, run: int, first: int, last: int) -> State:
    state: State = {}
    if first > last:
        return state
    for at, kept in await db.rows(_SNAPSHOTS, thread, first, last):
        runs = load_snapshot(thread, at, kept).runs
        if run in runs:
            first, state = at + 1, dict(runs[run])
            break
    for row in await commits(db, thread, first, last, run):
        state.update(changes_in(row).run_state)
    return state
