"""The laws of the state engine, on whatever Hypothesis thinks of (01 §2)."""

from __future__ import annotations

import copy
import operator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from awaken.codec import dumps, loads
from awaken.core.context_message import ContextMessage
from awaken.core.run import PersistedState
from awaken.core.state.call_keys import TOOL_CALL_STATES, PutCall, ToolCallState
from awaken.core.state.command import Command, MutationBatch, merge_parallel
from awaken.core.state.key import KeyRegistration, Merge, Scope, StateKey
from awaken.core.state.run_keys import PENDING_WORK, SetPending
from awaken.core.state.step_keys import (
    CONTEXT_MESSAGES,
    TOOL_FILTER,
    ExcludeTool,
    IncludeOnly,
    UpsertContext,
)
from awaken.core.state.store import StateStore, UnknownKeyPolicy
from awaken.core.suspension import ToolCallStatus
from awaken.errors import ReducerFailed, RevisionConflict

quick = settings(max_examples=100, deadline=None)

Key = StateKey[Any, Any]


class Broken(Exception):
    """What the reducer of `FRAGILE` raises."""


def append(value: tuple[int, ...], update: int) -> tuple[int, ...]:
    return (*value, update)


def append_or_break(value: tuple[int, ...], update: int) -> tuple[int, ...]:
    if update == 0:
        raise Broken
    return (*value, update)


LEFT: Key = StateKey("left", initial=tuple, apply=append, type=tuple[int, ...])
RIGHT: Key = StateKey(
    "right", initial=tuple, apply=append, type=tuple[int, ...], scope=Scope.THREAD
)
COUNT: Key = StateKey("count", initial=int, apply=operator.add, merge=Merge.COMMUTATIVE)
UNION: Key = StateKey(
    "union",
    initial=frozenset,
    apply=lambda value, item: value | {item},
    merge=Merge.COMMUTATIVE,
    scope=Scope.THREAD,
    encode=sorted,
    decode=frozenset,
)
FRAGILE: Key = StateKey("fragile", initial=tuple, apply=append_or_break, type=tuple[int, ...])
KEYS = (LEFT, RIGHT, COUNT, UNION, FRAGILE)

UPDATES = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 9)), min_size=1, max_size=5)
SAFE_KEYS = (LEFT, RIGHT, COUNT, UNION)
SAFE_UPDATES = st.lists(
    st.tuples(st.sampled_from(SAFE_KEYS), st.integers(0, 9)), min_size=1, max_size=5
)


def new_store(*keys: Key) -> StateStore:
    store = StateStore()
    store.register_keys(KeyRegistration.of(key) for key in keys or KEYS)
    return store


def batch_of(updates: list[tuple[Key, int]], base: int | None = None) -> MutationBatch:
    batch = MutationBatch(base)
    for key, update in updates:
        batch.update(key, update)
    return batch


def values_of(store: StateStore) -> dict[str, Any]:
    return {key.name: store.read(key) for key in KEYS if store.read(key) is not None}


# -- commutative updates commute --------------------------------------------------------------

ORDERED = st.lists(st.integers(-9, 9), min_size=1, max_size=6).flatmap(
    lambda updates: st.tuples(st.just(updates), st.permutations(updates))
)


@given(ORDERED)
@quick
def test_commutative_updates_commute(orders: tuple[list[int], list[int]]) -> None:
    """01/S-12: in one batch, in many, merged from many commands: any order gives one value."""
    ends = []
    for updates in orders:
        together, apart, merged = new_store(), new_store(), new_store()
        together.commit(batch_of([(key, n) for n in updates for key in (COUNT, UNION)]))
        for n in updates:
            apart.commit(batch_of([(COUNT, n), (UNION, n)], base=0))
        commands = [Command(base_revision=0).update(COUNT, n).update(UNION, n) for n in updates]
        merged.commit(merge_parallel(commands, merged.merge_strategy).batch)
        ends += [values_of(together), values_of(apart), values_of(merged)]

    assert all(end == ends[0] for end in ends)
    assert ends[0] == {"count": sum(orders[0]), "union": frozenset(orders[0])}


def runtime_updates(letter: str) -> list[tuple[Key, Any]]:
    state = ToolCallState(
        call_id=letter, tool_name="t", arguments={}, status=ToolCallStatus.RUNNING
    )
    return [
        (TOOL_CALL_STATES, PutCall(call=state)),
        (CONTEXT_MESSAGES, UpsertContext(message=ContextMessage.system(letter, "x"))),
        (PENDING_WORK, SetPending(pending=letter > "b", owner=letter)),
        (TOOL_FILTER, ExcludeTool(tool_id=letter)),
        (TOOL_FILTER, IncludeOnly(tool_ids=(letter, letter * 2))),
    ]


@given(st.permutations("abcd"))
@quick
def test_the_runtimes_commutative_keys_commute(order: list[str]) -> None:
    """01/S-12: writers that name different calls, messages and owners may come in any order."""

    def read_after(letters: list[str]) -> tuple[Any, ...]:
        store = new_store(TOOL_CALL_STATES, CONTEXT_MESSAGES, PENDING_WORK, TOOL_FILTER)
        for letter in letters:
            for key, update in runtime_updates(letter):
                store.update(key, update)
        passing = store.snapshot().value(TOOL_FILTER)
        return (
            store.read(TOOL_CALL_STATES),
            store.read(CONTEXT_MESSAGES),
            store.read(PENDING_WORK),
            {id for id in ("a", "aa", "b", "bb", "x") if passing.passes(id)},
        )

    assert read_after(order) == read_after(sorted(order))


# -- all or nothing ---------------------------------------------------------------------------


@given(before=SAFE_UPDATES, updates=UPDATES)
@quick
def test_a_batch_is_all_or_nothing(
    before: list[tuple[Key, int]], updates: list[tuple[Key, int]]
) -> None:
    """D-7: a reducer that raises leaves snapshot, revision and unsaved keys untouched."""
    store = new_store()
    store.commit(batch_of(before))
    twin = new_store()
    twin.commit(batch_of(before))
    snapshot = store.snapshot()
    told: list[int] = []
    store.add_commit_hook(lambda event: told.append(event.new_revision))
    breaks = (FRAGILE, 0) in updates

    if breaks:
        with pytest.raises(ReducerFailed) as failure:
            store.commit(batch_of(updates))
        assert isinstance(failure.value.__cause__, Broken)
        assert store.snapshot() is snapshot
        assert told == []
        assert store.take_unsaved() == twin.take_unsaved()
    else:
        assert store.commit(batch_of(updates)) == snapshot.revision + 1
        assert told == [snapshot.revision + 1]
        for key in {key for key, _ in updates}:
            expected = snapshot.value(key)
            for update in (update for touched, update in updates if touched is key):
                expected = key.apply(expected, update)
            assert store.read(key) == expected


# -- export and restore -----------------------------------------------------------------------


@given(st.lists(SAFE_UPDATES, max_size=4), st.lists(SAFE_UPDATES, max_size=2))
@quick
def test_export_and_restore_round_trip(
    batches: list[list[tuple[Key, int]]], other: list[list[tuple[Key, int]]]
) -> None:
    """01/S-10: into an empty store with its revision, into a used one with the same values."""
    store, fresh, used = new_store(), new_store(), new_store()
    for updates in batches:
        store.commit(batch_of(updates))
    for updates in other:
        used.commit(batch_of(updates))
    exported = loads(dumps(store.export_persisted()), PersistedState)

    fresh.restore_persisted(exported, UnknownKeyPolicy.ERROR)
    used.restore_persisted(exported, UnknownKeyPolicy.ERROR)

    assert values_of(fresh) == values_of(used) == values_of(store)
    assert fresh.revision == store.revision
    assert used.revision >= max(store.revision, len(other))
    assert fresh.export_persisted() == store.export_persisted()


@given(st.lists(SAFE_UPDATES, max_size=4))
@quick
def test_what_was_saved_bit_by_bit_is_what_an_export_gives(
    batches: list[list[tuple[Key, int]]],
) -> None:
    """The deltas of the commits add up to the state, scope by scope."""
    store = new_store()
    run: dict[str, msgspec.Raw] = {}
    thread: dict[str, msgspec.Raw] = {}
    for updates in batches:
        store.commit(batch_of(updates))
        changed_run, changed_thread = store.take_unsaved()
        assert changed_run.keys() | changed_thread.keys() <= {key.name for key, _ in updates}
        run |= changed_run
        thread |= changed_thread

    def read(saved: dict[str, msgspec.Raw]) -> dict[str, Any]:
        return {name: loads(json) for name, json in saved.items()}

    assert read(run) == store.export_run_scoped().extensions
    assert read(thread) == store.export_thread_scoped().extensions


# -- a store against a simple model -----------------------------------------------------------


class StoreAgainstModel(RuleBasedStateMachine):
    """Commits from random base revisions, clears and restores, beside a plain dictionary.

    01/S-2 as D-2 decides it: a commit is refused exactly when one of its *exclusive* keys was
    changed after its base, by whatever means (D-7). 01/S-5: snapshots never change.
    """

    @initialize()
    def start(self) -> None:
        self.store = new_store(*SAFE_KEYS)
        self.revision = 0
        self.values: dict[str, Any] = {}
        self.changed_at: dict[str, int] = {}
        self.exports: list[PersistedState] = []
        self.snapshots: list[tuple[Any, int, dict[str, Any]]] = []

    def bump(self, names: set[str]) -> None:
        self.revision += 1
        self.changed_at |= dict.fromkeys(names, self.revision)

    @rule(updates=SAFE_UPDATES, age=st.none() | st.integers(0, 5))
    def commit(self, updates: list[tuple[Key, int]], age: int | None) -> None:
        base = None if age is None else max(0, self.revision - age)
        stale = base is not None and any(
            key.merge is Merge.EXCLUSIVE and self.changed_at.get(key.name, 0) > base
            for key, _ in updates
        )
        if stale:
            with pytest.raises(RevisionConflict):
                self.store.commit(batch_of(updates, base))
            return
        for key, update in updates:
            old = self.values.get(key.name)
            self.values[key.name] = key.apply(key.initial() if old is None else old, update)
        self.bump({key.name for key, _ in updates})
        assert self.store.commit(batch_of(updates, base)) == self.revision

    @rule()
    def clear_the_run(self) -> None:
        names = {
            key.name for key in SAFE_KEYS if key.scope is Scope.RUN and key.name in self.values
        }
        self.store.clear_run_scoped()
        if names:
            self.values = {k: v for k, v in self.values.items() if k not in names}
            self.bump(names)

    @rule()
    def export(self) -> None:
        self.exports.append(self.store.export_persisted())

    @precondition(lambda self: self.exports)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        state = data.draw(st.sampled_from(self.exports))
        self.store.restore_persisted(state, UnknownKeyPolicy.ERROR)
        self.values = {
            key.name: key.load(state.extensions[key.name])
            for key in SAFE_KEYS
            if key.name in state.extensions
        }
        if self.revision or self.values:
            self.bump({*self.changed_at, *self.values})

    @precondition(lambda self: self.exports)
    @rule(data=st.data())
    def restore_the_thread(self, data: st.DataObject) -> None:
        state = data.draw(st.sampled_from(self.exports))
        self.store.restore_thread_scoped(state, UnknownKeyPolicy.ERROR)
        loaded = {
            key.name: key.load(state.extensions[key.name])
            for key in SAFE_KEYS
            if key.scope is Scope.THREAD and key.name in state.extensions
        }
        if loaded:
            self.values |= loaded
            self.bump(set(loaded))

    @rule()
    def keep_a_snapshot(self) -> None:
        self.snapshots.append((self.store.snapshot(), self.revision, copy.deepcopy(self.values)))

    @invariant()
    def the_store_agrees(self) -> None:
        assert self.store.revision == self.revision
        assert {k.name: self.store.read(k) for k in SAFE_KEYS} == {
            k.name: self.values.get(k.name) for k in SAFE_KEYS
        }

    @invariant()
    def snapshots_never_change(self) -> None:
        for snapshot, revision, values in self.snapshots:
            assert snapshot.revision == revision
            assert snapshot.names() == values.keys()
            assert all(snapshot.get(k) == values.get(k.name) for k in SAFE_KEYS)


StoreAgainstModel.TestCase.settings = settings(
    max_examples=100, stateful_step_count=15, deadline=None
)
TestStoreAgainstModel = StoreAgainstModel.TestCase
