"""State and call ledger, computed from the last snapshot and the commits after it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator

import msgspec

from awaken.codec import dumps, loads
from awaken.contract.commits import CallEntry
from awaken.domain.message import Role
from awaken.domain.rewind import Hidden, before_hidden, hidden_by
from awaken.domain.run import PersistedState
from awaken.domain.value import Value
from awaken.stores.rewinding import rewound_state
from awaken.stores.sql import queries
from awaken.stores.sqlite.delta import Changes, calls_in, changes_in
from awaken.stores.sqlite.rows import RunRow, commit_id, commit_of, commits

SNAPSHOT_EVERY = 100
"""Commits between two snapshots of a thread: the most rows that reading its state costs."""

_replace = msgspec.structs.replace
_State = dict[str, msgspec.Raw]


class FoldedState(Value, frozen=True, kw_only=True):
    """The state and ledger of a thread after a commit, as stored.

    `runs` has the state of the runs that were open, by primary key. `asked` is the id of the last
    assistant message with tool calls, `calls` are their ledger entries.
    """

    thread: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    runs: dict[int, dict[str, msgspec.Raw]] = msgspec.field(default_factory=dict)
    asked: str = ""
    calls: tuple[CallEntry, ...] = ()


class Fold:
    """A snapshot to which commits are added, one by one."""

    def __init__(self, base: FoldedState) -> None:
        self.thread: _State = dict(base.thread)
        self.runs: dict[int, _State] = {run: dict(state) for run, state in base.runs.items()}
        self._asked = base.asked
        self._calls = {entry.key: entry for entry in base.calls}

    @property
    def calls(self) -> tuple[CallEntry, ...]:
        """The ledger entries of the last message with tool calls, in the order of the calls."""
        # All keys begin with the same message id, so a shorter key has a smaller index.
        return tuple(self._calls[key] for key in sorted(self._calls, key=lambda k: (len(k), k)))

    def add(self, run: int | None, changes: Changes) -> None:
        self.thread.update(changes.thread_state)
        if run is not None:
            self.runs[run].update(changes.run_state)
        for message in changes.messages:
            if message.role is Role.ASSISTANT and message.tool_calls:
                self._asked, self._calls = message.id, {}
        self.add_calls(changes.calls)

    def add_calls(self, calls: Iterable[CallEntry]) -> None:
        """Add the entries that are about the last message with tool calls."""
        for entry in calls:
            if entry.key.rpartition(":")[0] == self._asked:
                enter(self._calls, entry)

    def snapshot(self, runs: frozenset[int]) -> FoldedState:
        kept = {run: state for run, state in self.runs.items() if run in runs}
        return FoldedState(thread=self.thread, runs=kept, asked=self._asked, calls=self.calls)


def enter(ledger: dict[str, CallEntry], entry: CallEntry) -> None:
    """Put an entry into the ledger; without arguments it keeps those of the entry before."""
    known = ledger.get(entry.key)
    if known is not None and entry.arguments is None and known.arguments is not None:
        entry = _replace(entry, arguments=known.arguments)
    ledger[entry.key] = entry


def fold_at(db: sqlite3.Connection, thread: int, position: int) -> Fold:
    """The state and ledger of a thread after the commit at `position`."""
    at, base = next(_snapshots(db, thread, 1, position), (0, FoldedState()))
    fold = Fold(base)
    for row in commits(db, thread, at + 1, position):
        if row.run is not None and row.run not in fold.runs:
            fold.runs[row.run] = _state_before(db, thread, row.run, at)
        fold.add(row.run, changes_in(row.delta))
    return fold


def rewound(db: sqlite3.Connection, thread: int, position: int, to: int) -> Fold:
    """The state and ledger of a thread after the commit at `position`, if the messages behind the
    position `to` in the log then go out of view.

    They are those from before the first of these messages was written. What became of the calls of
    that time since then is still known.
    """
    first = before_hidden(hidden_in(db, thread), to) + 1
    before = commit_of(db, thread, position, queries.FIRST_SEQ, first) - 1
    now, fold = fold_at(db, thread, position), fold_at(db, thread, before)
    fold.thread, fold.runs = rewound_state(fold.thread, now.thread), now.runs
    for row in commits(db, thread, before + 1, position):
        fold.add_calls(calls_in(row.delta))
    return fold


def write_rewind(
    db: sqlite3.Connection, thread: int, position: int, run: int | None, to: int, until: int
) -> None:
    """Note that the commit at `position`, which is written, has rewound the thread.

    A snapshot of the state that it leaves spares every reader the rewound commits.
    """
    (row,) = commits(db, thread, position, position)
    fold = rewound(db, thread, position - 1, to)
    db.execute(queries.ADD_REWIND, (thread, position, to, until))
    fold.runs = fold_at(db, thread, position).runs
    fold.add(None, changes_in(row.delta))
    _write_snapshot(db, thread, position, run, fold)


def hidden_in(db: sqlite3.Connection, thread: int) -> Hidden:
    """The spans of a thread's messages that are out of view."""
    return hidden_by(db.execute(queries.REWINDS, (thread,)))


def run_state(db: sqlite3.Connection, run: RunRow) -> _State:
    """The state of a run after its last commit."""
    return _run_state(db, run.thread, run.pk, run.first_position, run.last_position)


def _state_before(db: sqlite3.Connection, thread: int, run: int, at: int) -> _State:
    """The state of a run that the snapshot at `at` has not: a new run, or one that was done."""
    (first,) = db.execute(queries.RUN_BEGIN, (run,)).fetchone()
    return _run_state(db, thread, run, first, at)


def _run_state(db: sqlite3.Connection, thread: int, run: int, first: int, last: int) -> _State:
    state: _State = {}
    for at, snapshot in _snapshots(db, thread, first, last):
        if run in snapshot.runs:
            first, state = at + 1, dict(snapshot.runs[run])
            break
    for row in commits(db, thread, first, last, run):
        state.update(changes_in(row.delta).run_state)
    return state


def save_snapshot(db: sqlite3.Connection, thread: int, position: int, run: int | None) -> None:
    """Store a snapshot, with the state of the open runs and of the run just written."""
    _write_snapshot(db, thread, position, run, fold_at(db, thread, position))


def _write_snapshot(
    db: sqlite3.Connection, thread: int, position: int, run: int | None, fold: Fold
) -> None:
    kept = frozenset(pk for pk in fold.runs if pk == run or _is_open(db, pk))
    db.execute(queries.ADD_SNAPSHOT, (commit_id(thread, position), dumps(fold.snapshot(kept))))


def persisted(state: _State) -> PersistedState:
    return PersistedState(extensions={name: loads(state[name]) for name in sorted(state)})


def _snapshots(
    db: sqlite3.Connection, thread: int, first: int, last: int
) -> Iterator[tuple[int, FoldedState]]:
    """The snapshots from position `last` down to `first`."""
    base = commit_id(thread, 0)
    for id, state in db.execute(queries.SNAPSHOTS, (base + first, base + last)):
        yield id - base, loads(state, FoldedState)


def _is_open(db: sqlite3.Connection, run: int) -> bool:
    row = db.execute(queries.RUN_STATUS, (run,)).fetchone()
    return row is not None and row[0] != "done"
