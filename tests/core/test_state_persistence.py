"""Export and restore; what a run has still to save (01 §2.4)."""

from __future__ import annotations

import math
import operator
from threading import Thread
from typing import Any

import msgspec
import pytest

from awaken.codec import Json, dumps, loads
from awaken.core.inference import TokenUsage
from awaken.core.run import PersistedState
from awaken.core.state.command import CommitEvent, MutationBatch
from awaken.core.state.key import KeyRegistration, Merge, Scope, StateKey
from awaken.core.state.store import StateStore, UnknownKeyPolicy
from awaken.errors import KeyDecode, KeyEncode, RevisionConflict, UnknownKey

ERROR, SKIP = UnknownKeyPolicy.ERROR, UnknownKeyPolicy.SKIP


class Profile(msgspec.Struct, frozen=True):
    name: str = ""
    tags: tuple[str, ...] = ()


COUNTER: StateKey[int, int] = StateKey(
    "counter", initial=int, apply=operator.add, merge=Merge.COMMUTATIVE
)
PROFILE: StateKey[Profile, Profile] = StateKey("profile", initial=Profile)
TOPIC: StateKey[str, str] = StateKey("topic", initial=str, scope=Scope.THREAD)
SCRATCH: StateKey[int, int] = StateKey("scratch", initial=int, persistent=False)
ANYTHING: StateKey[object, object] = StateKey("anything", initial=lambda: None)
KEYS = [KeyRegistration.of(key) for key in (COUNTER, PROFILE, TOPIC, SCRATCH, ANYTHING)]


def new_store() -> StateStore:
    store = StateStore()
    store.register_keys(KEYS)
    return store


@pytest.fixture
def full() -> StateStore:
    store = new_store()
    store.update(COUNTER, 3)
    batch = MutationBatch().update(PROFILE, Profile("Ann", ("x", "y"))).update(TOPIC, "tea")
    store.commit(batch.update(SCRATCH, 9))
    return store


# -- export and restore -----------------------------------------------------------------------


def test_several_keys_survive_a_round_trip(full: StateStore) -> None:
    """01/S-10: round trip of several keys, revision included, over real JSON."""
    exported = loads(dumps(full.export_persisted()), PersistedState)
    restored = new_store()

    restored.restore_persisted(exported, ERROR)

    assert restored.revision == full.revision == 2
    assert restored.read(COUNTER) == 3
    assert restored.read(PROFILE) == Profile("Ann", ("x", "y"))
    assert restored.read(TOPIC) == "tea"
    assert restored.export_persisted() == full.export_persisted()


def test_only_persistent_keys_with_a_value_are_exported(full: StateStore) -> None:
    """01/S-10: non-persistent and never-written keys are not exported; names are sorted."""
    assert list(full.export_persisted().extensions) == ["counter", "profile", "topic"]
    assert new_store().export_persisted() == PersistedState(revision=0, extensions={})


def test_exports_can_be_split_by_scope(full: StateStore) -> None:
    """01/S-10 (0.6): run and thread scope apart."""
    assert full.export_thread_scoped().extensions == {"topic": "tea"}
    assert full.export_run_scoped().extensions.keys() == {"counter", "profile"}


def test_unknown_names_are_skipped_or_refused(full: StateStore) -> None:
    """01/S-10: `skip` ignores, `error` rejects unknown."""
    state = PersistedState(revision=9, extensions={"counter": 5, "who": 1})

    before = full.snapshot()
    with pytest.raises(UnknownKey) as unknown:
        full.restore_persisted(state, ERROR)
    assert unknown.value.key == "who"
    assert full.snapshot() is before

    full.restore_persisted(state, SKIP)
    assert (full.revision, full.read(COUNTER)) == (9, 5)
    assert full.snapshot().names() == {"counter"}


@pytest.mark.parametrize("restore", ["restore_persisted", "apply_seed"])
def test_a_value_of_the_wrong_shape_is_a_decode_error_and_changes_nothing(
    full: StateStore, restore: str
) -> None:
    """01/S-10: bad shape, decode error; all or nothing."""
    state = PersistedState(revision=9, extensions={"counter": 5, "profile": {"name": 3}})
    before = full.snapshot()

    with pytest.raises(KeyDecode) as broken:
        getattr(full, restore)(state, ERROR)

    assert broken.value.key == "profile"
    assert full.snapshot() is before


def test_a_value_that_is_not_json_cannot_be_exported(full: StateStore) -> None:
    """01 §2.4: encode failure, `KeyEncode`."""
    full.update(ANYTHING, object())

    with pytest.raises(KeyEncode) as broken:
        full.export_persisted()
    assert broken.value.key == "anything"


class Place(msgspec.Struct, frozen=True):
    """Where something is."""

    name: str = ""
    height: float = 0.0


@pytest.mark.parametrize(
    ("initial", "value", "told"),
    [
        (float, math.nan, "Expected `float`, got `null`"),
        (int, True, "Expected `int`, got `bool`"),
        (Place, Place(name=7), r"Expected `str`, got `int` - at `\$.name`"),  # type: ignore[arg-type]
        (Place, Place(height=math.inf), r"Expected `float`, got `null` - at `\$.height`"),
        (TokenUsage, TokenUsage(prompt_tokens=1.5), r"Expected `int \| null`, got `float`"),  # type: ignore[arg-type]
    ],
)
def test_a_value_that_could_not_be_read_back_is_not_saved(
    initial: Any, value: Any, told: str
) -> None:
    """No run could begin with it: a thread would refuse every further run."""
    key: StateKey[Any, Any] = StateKey("spoiled", initial=initial)
    store = StateStore()
    store.register_keys([KeyRegistration.of(key)])
    with pytest.raises(KeyEncode, match=f"'spoiled': it could not be read back: {told}"):
        store.check(MutationBatch().update(key, value))

    store.update(key, value)
    with pytest.raises(KeyEncode, match="could not be read back"):
        store.take_unsaved()
    assert take_saved(store) == ({}, {})


def test_restoring_replaces_everything(full: StateStore) -> None:
    """01 §2.4: what the stored state does not hold is gone."""
    full.restore_persisted(PersistedState(revision=9, extensions={"counter": 5}), ERROR)

    assert full.snapshot().names() == {"counter"}


@pytest.mark.parametrize("restore", ["restore_thread_scoped", "apply_seed"])
def test_a_merged_value_counts_as_changed(full: StateStore, restore: str) -> None:
    """D-7: merging moves the revision too, for the keys it names and no others."""
    getattr(full, restore)(PersistedState(extensions={"topic": "coffee"}), ERROR)

    full.commit(MutationBatch(base_revision=2).update(PROFILE, Profile("Bob")))
    with pytest.raises(RevisionConflict):
        full.commit(MutationBatch(base_revision=2).update(TOPIC, "late"))


def test_a_restored_value_counts_as_changed() -> None:
    """D-7: restoring always moves the revision, so stale bases do not pass."""
    store = new_store()
    state = PersistedState(revision=0, extensions={"profile": {"name": "Ann"}})

    store.restore_persisted(state, ERROR)

    assert store.revision == 1
    with pytest.raises(RevisionConflict):
        store.commit(MutationBatch(base_revision=0).update(PROFILE, Profile("Bob")))


def test_the_revision_never_goes_back(full: StateStore) -> None:
    """D-7: even when an older state is restored, or everything was cleared before."""
    full.update(PROFILE, Profile("Bob"))
    full.clear_run_scoped()
    high = full.revision

    full.restore_persisted(PersistedState(revision=1, extensions={"counter": 1}), ERROR)

    assert full.revision > high
    with pytest.raises(RevisionConflict):
        full.commit(MutationBatch(base_revision=2).update(PROFILE, Profile("late")))


def test_a_change_from_before_a_clear_and_a_restore_is_stale() -> None:
    """D-7: also for an exclusive key that neither of the two states holds."""
    store = new_store()
    store.update(COUNTER, 1)
    store.update(PROFILE, Profile("Ann"))
    store.clear_run_scoped()
    store.restore_persisted(PersistedState(), ERROR)

    with pytest.raises(RevisionConflict):
        store.commit(MutationBatch(base_revision=1).update(PROFILE, Profile("late")))


def test_keys_may_bring_their_own_encoding() -> None:
    key: StateKey[set[int], int] = StateKey(
        "set",
        initial=set,
        apply=lambda value, item: value | {item},
        encode=sorted,
        decode=lambda json: set(json),
    )
    store, other = StateStore(), StateStore()
    for each in (store, other):
        each.register_keys([KeyRegistration.of(key)])
    store.commit(MutationBatch().update(key, 3).update(key, 1))

    exported = store.export_persisted()
    other.restore_persisted(exported, ERROR)

    assert exported.extensions == {"set": [1, 3]}
    assert other.read(key) == {1, 3}


def test_a_key_that_names_no_type_is_read_as_plain_json() -> None:
    store = new_store()

    store.restore_persisted(PersistedState(extensions={"anything": {"a": [1]}}), ERROR)

    assert store.read(ANYTHING) == {"a": [1]}


# -- scopes -----------------------------------------------------------------------------------


def test_thread_keys_survive_a_run_boundary_and_run_keys_do_not(full: StateStore) -> None:
    """01/S-11: a new run restores the thread's keys only."""
    next_run = new_store()

    next_run.restore_thread_scoped(full.export_persisted(), SKIP)

    assert next_run.read(TOPIC) == "tea"
    assert next_run.snapshot().names() == {"topic"}


def test_clearing_the_run_keeps_thread_keys(full: StateStore) -> None:
    """01/S-11: `clear_run_scoped` keeps thread keys. (D-7: it moves the revision.)"""
    full.clear_run_scoped()

    assert full.snapshot().names() == {"topic"}
    assert full.revision == 3


def test_clearing_nothing_is_no_change() -> None:
    """01/S-11: and no new revision."""
    store = new_store()
    store.update(TOPIC, "tea")

    store.clear_run_scoped()

    assert (store.revision, store.read(TOPIC)) == (1, "tea")


def test_restoring_the_thread_merges_into_what_is_there(full: StateStore) -> None:
    """01/S-11: run keys of the stored state are ignored, current ones stay; no hook is called."""
    events: list[CommitEvent] = []
    full.add_commit_hook(events.append)

    full.restore_thread_scoped(
        PersistedState(revision=99, extensions={"topic": "coffee", "counter": 50}), ERROR
    )

    assert (full.read(TOPIC), full.read(COUNTER)) == ("coffee", 3)
    assert full.revision == 3
    assert events == []


def test_restoring_the_thread_is_all_or_nothing(full: StateStore) -> None:
    """D-7: thread restore is atomic."""
    other: StateKey[int, int] = StateKey("other", initial=int, scope=Scope.THREAD)
    full.register_keys([KeyRegistration.of(other)])
    before = full.snapshot()

    with pytest.raises(KeyDecode):
        full.restore_thread_scoped(
            PersistedState(extensions={"topic": "coffee", "other": "x"}), ERROR
        )

    assert full.snapshot() is before


def test_a_seed_merges_all_keys(full: StateStore) -> None:
    """01 §2.4 (0.6): `apply_seed` merges every given key. (D-7: it moves the revision.)"""
    full.apply_seed(PersistedState(revision=99, extensions={"counter": 50, "topic": "milk"}), ERROR)

    assert (full.read(COUNTER), full.read(TOPIC)) == (50, "milk")
    assert full.read(PROFILE) == Profile("Ann", ("x", "y"))
    assert full.revision == 3


def test_a_seed_of_nothing_is_no_change(full: StateStore) -> None:
    before = full.snapshot()

    full.apply_seed(PersistedState(revision=5, extensions={"who": 1}), SKIP)

    assert full.snapshot() is before


# -- what is unsaved --------------------------------------------------------------------------


def take_saved(store: StateStore) -> tuple[dict[str, Json], dict[str, Json]]:
    run, thread = store.take_unsaved()
    return (
        {name: loads(json) for name, json in run.items()},
        {name: loads(json) for name, json in thread.items()},
    )


def test_changed_keys_are_handed_out_once_by_scope(full: StateStore) -> None:
    profile = {"name": "Ann", "tags": ["x", "y"]}

    assert take_saved(full) == ({"counter": 3, "profile": profile}, {"topic": "tea"})
    assert take_saved(full) == ({}, {})
    full.update(COUNTER, 1)
    assert take_saved(full) == ({"counter": 4}, {})


def test_the_order_of_unsaved_keys_is_fixed(full: StateStore) -> None:
    """D-30: exports do not vary from process to process."""
    run, _ = full.take_unsaved()

    assert list(run) == sorted(run)


def test_a_refused_batch_leaves_nothing_to_save() -> None:
    store = new_store()
    stranger: StateKey[int, int] = StateKey("stranger", initial=int)

    with pytest.raises(UnknownKey):
        store.commit(MutationBatch().update(COUNTER, 1).update(stranger, 1))

    assert take_saved(store) == ({}, {})


def test_restored_keys_are_already_saved_and_seeded_ones_are_not(full: StateStore) -> None:
    """A seed comes from another thread's state: without saving it, a crash would lose it."""
    exported = full.export_persisted()
    restored, continued, seeded = new_store(), new_store(), new_store()

    restored.update(COUNTER, 1)
    restored.restore_persisted(exported, ERROR)
    continued.restore_thread_scoped(exported, ERROR)
    seeded.apply_seed(exported, ERROR)

    assert take_saved(restored) == ({}, {})
    assert take_saved(continued) == ({}, {})
    assert take_saved(seeded) == (
        {"counter": 3, "profile": {"name": "Ann", "tags": ["x", "y"]}},
        {"topic": "tea"},
    )


def test_a_cleared_key_is_not_saved(full: StateStore) -> None:
    full.clear_run_scoped()

    assert take_saved(full) == ({}, {"topic": "tea"})


def test_a_value_that_cannot_be_saved_is_given_up_and_the_others_are_not(
    full: StateStore,
) -> None:
    full.update(ANYTHING, object())

    with pytest.raises(KeyEncode):
        full.take_unsaved()

    run, thread = take_saved(full)
    assert run.keys() == {"counter", "profile"}
    assert thread.keys() == {"topic"}
    full.update(ANYTHING, [1])
    assert take_saved(full) == ({"anything": [1]}, {})


def test_a_change_made_while_saving_is_saved_the_next_time() -> None:
    """Commits may come from any thread: each change is handed out now or the next time."""
    writers: list[Thread] = []

    def encode(value: int) -> int:
        if not writers:
            writers.append(Thread(target=store.update, args=(key, 10)))
            writers[0].start()
            writers[0].join(timeout=0.05)  # it may have to wait for the saving to end
        return value

    key: StateKey[int, int] = StateKey("k", initial=int, apply=operator.add, encode=encode)
    store = StateStore()
    store.register_keys([KeyRegistration.of(key)])
    store.update(key, 1)

    first, _ = take_saved(store)
    writers[0].join()
    second, _ = take_saved(store)

    assert (first, second) == ({"k": 1}, {"k": 11})
