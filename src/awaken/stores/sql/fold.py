"""State and call ledger of a thread, computed from a snapshot and the commits after it. No I/O."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from awaken.codec import loads
from awaken.core.message import Role
from awaken.core.run import PersistedState
from awaken.core.store.commits import CallEntry
from awaken.core.unreadable import RowKind
from awaken.core.value import Value
from awaken.stores.sql.cursors import UNREADABLE, UnreadableCommit
from awaken.stores.sql.delta import Changes

SNAPSHOT_EVERY = 100
"""Commits between two snapshots of a thread: the most rows that reading its state costs."""

_replace = msgspec.structs.replace
State = dict[str, msgspec.Raw]


class FoldedState(Value, frozen=True, kw_only=True):
    """The state and ledger of a thread after a commit, as stored.

    `runs` has the state of the runs that were open, by primary key. `asked` is the id of the last
    assistant message with tool calls, `calls` are their ledger entries.
    """

    thread: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    runs: dict[int, dict[str, msgspec.Raw]] = msgspec.field(default_factory=dict)
    asked: str = ""
    calls: tuple[CallEntry, ...] = ()


def load_snapshot(thread: int, position: int, body: bytes) -> FoldedState:
    """
    Raises:
        UnreadableCommit: the snapshot cannot be decoded.
    """
    try:
        return loads(body, FoldedState)
    except UNREADABLE as error:
        raise UnreadableCommit(RowKind.SNAPSHOT, thread, position, error) from error


class Fold:
    """A snapshot to which commits are added, one by one."""

    def __init__(self, base: FoldedState) -> None:
        self.thread: State = dict(base.thread)
        self.runs: dict[int, State] = {run: dict(state) for run, state in base.runs.items()}
        self._message_id = base.asked
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
                self._message_id, self._calls = message.id, {}
        self.add_calls(changes.calls)

    def add_calls(self, calls: Iterable[CallEntry]) -> None:
        """Add the entries that are about the last message with tool calls."""
        for entry in calls:
            if entry.key.rpartition(":")[0] == self._message_id:
                enter(self._calls, entry)

    def snapshot(self, runs: frozenset[int]) -> FoldedState:
        kept = {run: state for run, state in self.runs.items() if run in runs}
        return FoldedState(thread=self.thread, runs=kept, asked=self._message_id, calls=self.calls)


def enter(ledger: dict[str, CallEntry], entry: CallEntry) -> None:
    """Put an entry into the ledger; without arguments it keeps those of the entry before."""
    known = ledger.get(entry.key)
    if known is not None and entry.arguments is None and known.arguments is not None:
        entry = _replace(entry, arguments=known.arguments)
    ledger[entry.key] = entry


def to_persisted_state(state: State) -> PersistedState:
    return PersistedState(extensions={name: loads(state[name]) for name in sorted(state)})
