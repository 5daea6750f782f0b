"""Commits: revisions, conflicts, hooks, registration (01 §2.1 to §2.3)."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import msgspec
import pytest

from awaken.core.state.command import CommitEvent, MutationBatch
from awaken.core.state.key import KeyRegistration, Merge, Scope, StateKey, StateKeyOptions
from awaken.core.state.store import StateStore
from awaken.errors import (
    KeyAlreadyRegistered,
    PluginAlreadyInstalled,
    PluginNotInstalled,
    ReducerFailed,
    RevisionConflict,
    UnknownKey,
)


def fail_on_negative(value: int, update: int) -> int:
    if update < 0:
        raise ValueError("negative")
    return value + update


COUNTER: StateKey[int, int] = StateKey(
    "counter", initial=int, apply=operator.add, merge=Merge.COMMUTATIVE
)
NAME: StateKey[str, str] = StateKey("name", initial=str)
COLOUR: StateKey[str, str] = StateKey("colour", initial=str)
STRICT: StateKey[int, int] = StateKey("strict", initial=int, apply=fail_on_negative)
STRANGER: StateKey[int, int] = StateKey("stranger", initial=int)


def registered(*keys: StateKey[int, int] | StateKey[str, str]) -> list[KeyRegistration]:
    return [KeyRegistration.of(key) for key in keys]


@pytest.fixture
def store() -> StateStore:
    store = StateStore()
    store.install("test", registered(COUNTER, NAME, COLOUR, STRICT))
    return store


@pytest.fixture
def events(store: StateStore) -> list[CommitEvent]:
    events: list[CommitEvent] = []
    store.add_commit_hook(events.append)
    return events


# -- reading ----------------------------------------------------------------------------------


def test_a_key_never_written_reads_as_none_and_its_default_only_on_request(
    store: StateStore,
) -> None:
    """01 §2.1: reading a key never written gives none, not the default."""
    assert store.read(COUNTER) is None
    assert store.snapshot().get(COUNTER) is None
    assert store.snapshot().value(COUNTER) == 0
    assert store.snapshot().names() == frozenset()


def test_the_first_update_is_applied_to_the_default(store: StateStore) -> None:
    key: StateKey[int, int] = StateKey("forty", initial=lambda: 40, apply=operator.add)
    store.register_keys(registered(key))

    store.update(key, 2)

    assert store.read(key) == store.snapshot().value(key) == 42


def test_a_key_set_to_none_is_not_taken_for_one_never_written() -> None:
    seen: list[str | None] = []

    def remember(value: str | None, update: str | None) -> str | None:
        seen.append(value)
        return update

    key: StateKey[str | None, str | None] = StateKey(
        "maybe", initial=lambda: "somebody", apply=remember
    )
    store = StateStore()
    store.register_keys([KeyRegistration.of(key)])

    store.update(key, None)
    assert store.snapshot().value(key) is None
    store.update(key, "Ann")

    assert seen == ["somebody", None]


# -- revisions --------------------------------------------------------------------------------


def test_each_commit_adds_one_to_the_revision(store: StateStore) -> None:
    """01/S-1: each non-empty commit adds exactly 1."""
    assert store.revision == 0
    assert [store.update(COUNTER, 1) for _ in range(3)] == [1, 2, 3]
    assert store.revision == store.snapshot().revision == 3


def test_three_updates_in_one_batch_add_one(store: StateStore, events: list[CommitEvent]) -> None:
    """01/S-1: three updates in one batch add 1 and `op_count` is 3."""
    batch = MutationBatch().update(COUNTER, 1).update(NAME, "x").update(COUNTER, 2)

    assert store.commit(batch) == 1
    assert (store.read(COUNTER), store.read(NAME)) == (3, "x")
    assert [event.op_count for event in events] == [3]


def test_an_empty_commit_changes_nothing(store: StateStore, events: list[CommitEvent]) -> None:
    """01/S-1: no bump, no hooks."""
    store.update(COUNTER, 1)
    events.clear()
    before = store.snapshot()

    assert store.commit(MutationBatch(base_revision=0)) == 1
    assert store.snapshot() is before
    assert events == []


def test_updates_of_one_key_apply_in_order(store: StateStore) -> None:
    store.commit(MutationBatch().update(NAME, "first").update(NAME, "second"))

    assert store.read(NAME) == "second"


# -- conflicts --------------------------------------------------------------------------------


def test_a_stale_base_is_refused_and_changes_nothing(store: StateStore) -> None:
    """01/S-2: stale base, conflict, no change. (D-2: because its exclusive key changed.)"""
    store.update(NAME, "first")
    store.update(NAME, "second")
    before = store.snapshot()

    with pytest.raises(RevisionConflict) as conflict:
        store.commit(MutationBatch(base_revision=1).update(COUNTER, 1).update(NAME, "late"))

    assert (conflict.value.key, conflict.value.expected, conflict.value.actual) == ("name", 1, 2)
    assert store.snapshot() is before
    assert store.read(COUNTER) is None


def test_without_a_base_a_commit_is_always_accepted(store: StateStore) -> None:
    """01/S-2: no base, always accepted."""
    for name in ("a", "b", "c"):
        store.commit(MutationBatch().update(NAME, name))

    assert (store.read(NAME), store.revision) == ("c", 3)


def test_a_fresh_base_is_accepted(store: StateStore) -> None:
    """01/S-2: the current revision is no stale base."""
    store.update(NAME, "a")

    assert store.commit(MutationBatch(base_revision=1).update(NAME, "b")) == 2


def test_writers_of_other_keys_never_disturb_each_other(store: StateStore) -> None:
    """01/S-2 as D-2 decides it: conflicts are per exclusive key, not per store."""
    store.update(NAME, "a")
    store.update(COLOUR, "red")

    store.commit(MutationBatch(base_revision=1).update(NAME, "b"))

    assert (store.read(NAME), store.read(COLOUR)) == ("b", "red")


def test_a_stale_base_does_not_matter_to_a_commutative_key(store: StateStore) -> None:
    """01/S-2 as D-2 decides it: only exclusive keys are checked."""
    store.update(COUNTER, 1)
    store.update(COUNTER, 1)

    store.commit(MutationBatch(base_revision=0).update(COUNTER, 5))

    assert store.read(COUNTER) == 7


def test_a_batch_may_write_its_own_exclusive_key_twice(store: StateStore) -> None:
    store.commit(MutationBatch(base_revision=0).update(NAME, "a").update(NAME, "b"))

    assert store.read(NAME) == "b"


def test_of_two_concurrent_commits_on_one_base_one_wins(store: StateStore) -> None:
    """01/S-3: one wins, the other is told."""
    store.update(NAME, "start")
    barrier = Barrier(2)

    def write(name: str) -> str | None:
        batch = MutationBatch(base_revision=1).update(NAME, name)
        barrier.wait()
        try:
            store.commit(batch)
        except RevisionConflict:
            return None
        return name

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(write, ["a", "b"]))

    winners = [name for name in outcomes if name is not None]
    assert winners == [store.read(NAME)]
    assert store.revision == 2


def test_concurrent_commits_without_a_base_lose_nothing(store: StateStore) -> None:
    """01/S-4: N concurrent commits on a counter."""
    barrier = Barrier(8)

    def count(_: int) -> None:
        barrier.wait()
        for _ in range(200):
            store.update(COUNTER, 1)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(8)))

    assert (store.read(COUNTER), store.revision) == (1600, 1600)


def test_old_snapshots_stay_as_they_are(store: StateStore) -> None:
    """01/S-5: later commits never show in a snapshot."""
    empty = store.snapshot()
    store.commit(MutationBatch().update(COUNTER, 1).update(NAME, "a"))
    first = store.snapshot()
    store.commit(MutationBatch().update(COUNTER, 1).update(NAME, "b"))
    store.clear_run_scoped()

    assert (empty.revision, empty.get(COUNTER), empty.names()) == (0, None, frozenset())
    assert (first.revision, first.get(COUNTER), first.get(NAME)) == (1, 1, "a")


def test_an_unregistered_key_is_refused(store: StateStore, events: list[CommitEvent]) -> None:
    """01/S-6: `UnknownKey`, revision unchanged, nothing of the batch applied."""
    batch = MutationBatch().update(COUNTER, 1).update(STRANGER, 1)

    with pytest.raises(UnknownKey) as unknown:
        store.commit(batch)

    assert unknown.value.key == "stranger"
    assert (store.revision, store.read(COUNTER), events) == (0, None, [])


def test_a_reducer_that_raises_drops_the_whole_batch(
    store: StateStore, events: list[CommitEvent]
) -> None:
    """D-7: reducers run on a copy, swapped in only if all succeed; the cause is chained."""
    store.update(STRICT, 1)
    events.clear()
    before = store.snapshot()

    with pytest.raises(ReducerFailed) as failure:
        store.commit(MutationBatch().update(COUNTER, 1).update(STRICT, -1).update(NAME, "x"))

    assert failure.value.key == "strict"
    assert isinstance(failure.value.__cause__, ValueError)
    assert store.snapshot() is before
    assert events == []
    assert store.update(STRICT, 1) == 2


def test_checking_a_batch_raises_what_committing_it_would_and_changes_nothing(
    store: StateStore, events: list[CommitEvent]
) -> None:
    store.update(NAME, "a")
    events.clear()
    before = store.snapshot()

    store.check(MutationBatch(base_revision=1).update(NAME, "b"))
    with pytest.raises(RevisionConflict):
        store.check(MutationBatch(base_revision=0).update(NAME, "b"))
    with pytest.raises(UnknownKey):
        store.check(MutationBatch().update(STRANGER, 1))
    with pytest.raises(ReducerFailed):
        store.check(MutationBatch().update(STRICT, -1))

    assert store.snapshot() is before
    assert events == []


# -- hooks ------------------------------------------------------------------------------------


def test_hooks_run_in_order_and_see_the_commit(store: StateStore) -> None:
    """01/S-7: in registration order, with the post-commit snapshot."""
    seen: list[tuple[str, int, int, int | None]] = []
    for name in ("one", "two"):
        store.add_commit_hook(
            lambda event, name=name: seen.append(  # type: ignore[misc]
                (
                    name,
                    event.previous_revision,
                    event.new_revision,
                    event.snapshot.get(COUNTER),
                )
            )
        )

    store.update(COUNTER, 5)
    store.update(COUNTER, 1)

    assert seen == [("one", 0, 1, 5), ("two", 0, 1, 5), ("one", 1, 2, 6), ("two", 1, 2, 6)]


def test_hooks_are_silent_for_empty_and_refused_commits(
    store: StateStore, events: list[CommitEvent]
) -> None:
    """01/S-7: none for empty commits, nor for those that failed."""
    store.commit(MutationBatch())
    with pytest.raises(UnknownKey):
        store.update(STRANGER, 1)

    assert events == []


def test_a_hook_may_commit(store: StateStore) -> None:
    """01/S-7: hooks run after the lock is released."""

    def once(event: CommitEvent) -> None:
        if event.new_revision == 1:
            store.update(NAME, "from the hook")

    store.add_commit_hook(once)
    store.update(COUNTER, 1)

    assert (store.read(NAME), store.revision) == ("from the hook", 2)


class Tally(msgspec.Struct, frozen=True):
    count: int = 0


def test_a_refused_update_is_reported_and_does_not_count_as_a_change(store: StateStore) -> None:
    """D-18: an update its key refuses is named to the hooks; other writers are not disturbed."""

    def only_up(value: Tally, update: int) -> Tally:
        return value if update < value.count else Tally(update)

    key: StateKey[Tally, int] = StateKey("tally", initial=Tally, apply=only_up)
    store.register_keys([KeyRegistration.of(key)])
    store.update(key, 5)
    events: list[CommitEvent] = []
    store.add_commit_hook(events.append)

    assert store.commit(MutationBatch().update(key, 3).update(COUNTER, 1)) == 2
    store.commit(MutationBatch(base_revision=1).update(key, 6))

    assert [event.skipped for event in events] == [("tally",), ()]
    assert store.read(key) == Tally(6)


def test_a_value_set_to_itself_is_neither_a_change_nor_a_refusal(
    store: StateStore, events: list[CommitEvent], caplog: pytest.LogCaptureFixture
) -> None:
    """D-18: only a record handed back untouched is a refusal."""
    name = "the same"
    store.update(NAME, name)
    store.take_unsaved()

    store.update(NAME, name)

    assert [event.skipped for event in events] == [(), ()]
    assert store.take_unsaved() == ({}, {})
    assert caplog.records == []


# -- registration -----------------------------------------------------------------------------


def test_a_plugin_whose_key_is_taken_installs_nothing(store: StateStore) -> None:
    """01/S-8: register failing half-way installs nothing."""
    with pytest.raises(KeyAlreadyRegistered) as taken:
        store.install("late", registered(STRANGER, NAME))

    assert taken.value.key == "name"
    assert not store.is_registered("stranger")
    store.install("late", registered(STRANGER))
    assert store.is_registered("stranger")


def test_a_plugin_that_registers_a_key_twice_installs_nothing() -> None:
    """01/S-8: nor one that clashes with itself."""
    store = StateStore()

    with pytest.raises(KeyAlreadyRegistered):
        store.install("twice", registered(NAME, STRANGER, NAME))

    assert not store.is_registered("name")
    assert not store.is_registered("stranger")


def test_a_registration_that_raises_installs_nothing() -> None:
    """01/S-8: nor one that breaks off."""
    store = StateStore()

    def broken() -> Iterator[KeyRegistration]:
        yield KeyRegistration.of(NAME)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        store.install("broken", broken())

    assert not store.is_registered("name")
    store.install("broken", registered(NAME))


def test_the_same_plugin_is_not_installed_twice(store: StateStore) -> None:
    with pytest.raises(PluginAlreadyInstalled):
        store.install("test", registered(STRANGER))

    assert not store.is_registered("stranger")


def test_registering_a_key_again_is_ignored_but_another_key_of_its_name_is_not(
    store: StateStore,
) -> None:
    """D-27: a name taken by a different key is an error, and nothing is registered."""
    store.register_keys(registered(NAME, STRANGER))
    impostor: StateKey[int, int] = StateKey("name", initial=int)
    fresh: StateKey[int, int] = StateKey("fresh", initial=int)

    with pytest.raises(KeyAlreadyRegistered):
        store.register_keys(registered(fresh, impostor))

    assert store.is_registered("stranger")
    assert not store.is_registered("fresh")


def test_uninstalling_is_one_commit_that_hooks_see(
    store: StateStore, events: list[CommitEvent]
) -> None:
    """01/S-9: uninstall is one revision."""
    store.commit(MutationBatch().update(COUNTER, 1).update(NAME, "x"))

    store.uninstall("test")

    assert store.revision == 2
    assert [(e.previous_revision, e.new_revision, e.op_count) for e in events] == [
        (0, 1, 2),
        (1, 2, 2),
    ]
    assert events[1].snapshot.names() == frozenset()
    assert not store.is_registered("counter")


def test_reinstalling_starts_clean(store: StateStore) -> None:
    """01/S-9: a value that is not retained is gone."""
    store.update(COUNTER, 41)

    store.uninstall("test")
    store.install("test", registered(COUNTER))

    assert store.read(COUNTER) is None
    store.update(COUNTER, 1)
    assert store.read(COUNTER) == 1


def test_a_retained_value_is_there_again_after_reinstalling() -> None:
    """01/S-9: a retained value survives."""
    kept = KeyRegistration.of(COUNTER, StateKeyOptions(retain_on_uninstall=True))
    store = StateStore()
    store.install("p", [kept, KeyRegistration.of(NAME)])
    store.commit(MutationBatch().update(COUNTER, 41).update(NAME, "x"))

    store.uninstall("p")
    with pytest.raises(UnknownKey):
        store.update(COUNTER, 1)
    store.install("p", [kept, KeyRegistration.of(NAME)])

    assert (store.read(COUNTER), store.read(NAME)) == (41, None)
    assert store.revision == 2


def test_uninstalling_what_wrote_nothing_is_no_commit(
    store: StateStore, events: list[CommitEvent]
) -> None:
    """01/S-9: nothing to clear, nothing to tell."""
    store.uninstall("test")

    assert (store.revision, events) == (0, [])


def test_uninstalling_a_stranger_is_an_error(store: StateStore) -> None:
    """01/S-9: `PluginNotInstalled`."""
    with pytest.raises(PluginNotInstalled):
        store.uninstall("stranger")


def test_a_change_made_before_an_uninstall_is_stale_after_it(store: StateStore) -> None:
    """D-7: clearing changes state, so stale bases are refused."""
    store.update(NAME, "x")
    store.uninstall("test")
    store.install("test", registered(NAME))

    with pytest.raises(RevisionConflict):
        store.commit(MutationBatch(base_revision=1).update(NAME, "y"))


def test_options_win_over_the_key_and_default_to_it() -> None:
    """01 §2.1 (OURS): options default to the key's own settings."""
    key: StateKey[int, int] = StateKey(
        "k", initial=int, scope=Scope.THREAD, persistent=False, retain_on_uninstall=True
    )

    own = KeyRegistration.of(key)
    given = KeyRegistration.of(
        key, StateKeyOptions(persistent=True, retain_on_uninstall=False, scope=Scope.RUN)
    )

    assert (own.persistent, own.retain_on_uninstall, own.scope) == (False, True, Scope.THREAD)
    assert (given.persistent, given.retain_on_uninstall, given.scope) == (True, False, Scope.RUN)


def test_a_key_is_exclusive_run_scoped_and_persistent_unless_it_says_otherwise() -> None:
    """01 §2.1: the defaults."""
    key: StateKey[int, int] = StateKey("k", initial=int)

    assert (key.merge, key.scope) == (Merge.EXCLUSIVE, Scope.RUN)
    assert (key.persistent, key.retain_on_uninstall) == (True, False)
    assert key.apply(1, 2) == 2
