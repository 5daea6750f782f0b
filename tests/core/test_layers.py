"""Many keys: a store beside a plain dictionary, whatever layers its snapshots have (ADR 12)."""

from __future__ import annotations

import copy
import operator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from awaken.core.run import PersistedState
from awaken.core.state.command import MutationBatch
from awaken.core.state.key import KeyRegistration, Scope, StateKey
from awaken.core.state.snapshot import TOP, Snapshot
from awaken.core.state.store import StateStore, UnknownKeyPolicy
from awaken.errors import KeyEncode

Key = StateKey[Any, Any]


def key(number: int) -> Key:
    """Of the keys, each second lives for the thread, each third is not persistent, and each fifth
    outlives its plugin."""
    return StateKey(
        f"k{number}",
        initial=int,
        apply=operator.add,
        scope=Scope.THREAD if number % 2 else Scope.RUN,
        persistent=number % 3 != 0,
        public=True,
        retain_on_uninstall=number % 5 == 0,
    )


KEYS = [key(number) for number in range(3 * TOP)]
OURS, BROUGHT = KEYS[: 2 * TOP], KEYS[2 * TOP :]


def register(keys: list[Key]) -> list[KeyRegistration]:
    return [KeyRegistration.of(key) for key in keys]


class ManyKeys(RuleBasedStateMachine):
    """Some keys change often, some seldom; some are brought by a plugin that comes and goes."""

    @initialize()
    def start(self) -> None:
        self.store = StateStore()
        self.store.register_keys(register(OURS))
        self.keys = list(OURS)
        self.values: dict[str, int] = {}
        self.snapshots: list[tuple[Snapshot, dict[str, int]]] = []
        self.shown: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.exports: list[PersistedState] = []

    def add(self, keys: list[Key]) -> None:
        for key in keys:
            self.values[key.name] = self.values.get(key.name, 0) + 1

    @rule(number=st.integers(0, 5))
    def change_one_key_that_changes_often(self, number: int) -> None:
        self.store.update(KEYS[number], 1)
        self.add([KEYS[number]])

    @rule(number=st.integers(0, 2 * TOP - 1))
    def change_any_key(self, number: int) -> None:
        self.store.update(KEYS[number], 1)
        self.add([KEYS[number]])

    @rule(first=st.integers(0, 3 * TOP), count=st.integers(1, TOP + 2))
    def change_many_keys_at_once(self, first: int, count: int) -> None:
        keys = self.keys[first : first + count]
        batch = MutationBatch()
        for key in keys:
            batch.update(key, 1)
        self.store.commit(batch)
        self.add(keys)

    @precondition(lambda self: len(self.keys) == len(OURS))
    @rule()
    def bring_keys(self) -> None:
        self.store.install("plugin", register(BROUGHT))
        self.keys = list(KEYS)

    @precondition(lambda self: len(self.keys) > len(OURS))
    @rule()
    def take_keys_away(self) -> None:
        self.store.uninstall("plugin")
        self.keys = list(OURS)
        for key in BROUGHT:
            if not key.retain_on_uninstall:
                self.values.pop(key.name, None)

    @rule()
    def clear_the_run(self) -> None:
        self.store.clear_run_scoped()
        for key in self.keys:
            if key.scope is Scope.RUN:
                self.values.pop(key.name, None)

    @rule()
    def export(self) -> None:
        self.exports.append(self.store.export_persisted())

    @precondition(lambda self: self.exports)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        state = data.draw(st.sampled_from(self.exports))
        self.store.restore_persisted(state, UnknownKeyPolicy.SKIP)
        known = {key.name for key in self.keys}
        self.values = {k: v for k, v in state.extensions.items() if k in known}

    @rule()
    def keep_a_snapshot(self) -> None:
        self.snapshots.append((self.store.snapshot(), dict(self.values)))

    @rule()
    def show(self) -> None:
        revision, json = self.store.public_json()[:2]
        exported = self.store.export_persisted()
        assert revision == exported.revision
        assert list(json.items()) == list(exported.extensions.items())
        self.shown.append((json, copy.deepcopy(json)))

    @invariant()
    def the_store_agrees(self) -> None:
        snapshot = self.store.snapshot()
        assert snapshot.names() == self.values.keys()
        for key in KEYS:
            assert self.store.read(key) == snapshot.get(key) == self.values.get(key.name)
            assert snapshot.value(key) == self.values.get(key.name, 0)

    @invariant()
    def what_was_handed_out_never_changes(self) -> None:
        for snapshot, values in self.snapshots:
            assert snapshot.names() == values.keys()
            assert all(snapshot.get(key) == values.get(key.name) for key in KEYS)
        for json, then in self.shown:
            assert json == then


ManyKeys.TestCase.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
TestManyKeys = ManyKeys.TestCase


def test_one_change_among_many_keys_copies_a_few_of_them() -> None:
    """Whatever the store holds, a change shares all but the top of the snapshot before."""
    keys = [key(number) for number in range(2_000)]
    store = StateStore()
    store.register_keys(register(keys))
    for one in keys:
        store.update(one, 1)
    for _ in range(3):
        for one in keys[:TOP]:
            store.update(one, 1)
    base = store.snapshot().base

    for one in keys[:TOP] * 50:
        store.update(one, 1)

    assert store.snapshot().base is base
    assert len(store.snapshot().top) <= 45, "about the root of 2,000"


def test_a_value_of_none_hides_the_one_before() -> None:
    """It lies on top of a base that has another."""
    keys = [key(number) for number in range(TOP + 1)]
    note: Key = StateKey("note", initial=lambda: None, type=str | None, public=True)
    store = StateStore()
    store.register_keys(register([note, *keys]))
    store.update(note, "here")
    for one in keys:
        store.update(one, 1)
    assert "note" in store.snapshot().base

    store.update(note, None)

    assert store.read(note) is None
    assert store.snapshot().get(note) is None
    assert store.public_json().values["note"] is None


def test_only_what_changed_is_shown_anew() -> None:
    made: list[str] = []

    def noting(name: str) -> Key:
        def encode(value: int) -> dict[str, int]:
            made.append(name)
            return {"value": value}

        return StateKey(name, initial=int, apply=operator.add, encode=encode, public=True)

    keys = [noting(f"k{number}") for number in range(100)]
    store = StateStore()
    store.register_keys(register(keys))
    for one in keys:
        store.update(one, 1)
    first = store.public_json().values
    made.clear()

    store.update(keys[7], 1)
    second = store.public_json().values

    assert made == ["k7"]
    assert second == {**first, "k7": {"value": 2}}
    assert second["k8"] is first["k8"]


def test_a_retained_value_is_shown_while_its_key_is_there() -> None:
    count: Key = StateKey(
        "count", initial=int, apply=operator.add, retain_on_uninstall=True, public=True
    )
    store = StateStore()
    store.install("plugin", register([count]))
    store.update(count, 1)
    assert store.public_json().values == {"count": 1}

    store.uninstall("plugin")
    assert store.public_json().values == {}
    store.install("plugin", register([count]))
    assert store.public_json().values == {"count": 1}


def test_a_value_that_cannot_be_shown_is_told_each_time_until_it_can() -> None:
    note: Key = StateKey("note", initial=str, type=Any, public=True)
    count: Key = StateKey("count", initial=int, apply=operator.add, public=True)
    store = StateStore()
    store.register_keys(register([note, count]))
    store.update(count, 1)
    store.public_json()

    store.update(note, object())
    for _ in range(2):
        with pytest.raises(KeyEncode):
            store.public_json()
        store.update(count, 1)
    store.update(note, "here")

    assert store.public_json().values == {"count": 3, "note": "here"}
