"""Commands, batches and joining them (01 §2.2)."""

from __future__ import annotations

import itertools
import operator

import msgspec
import pytest

from awaken.core.lifecycle import Phase
from awaken.core.state.command import (
    Command,
    EffectSpec,
    MutationBatch,
    ScheduledActionSpec,
    conflicting_key,
    merge_parallel,
)
from awaken.core.state.key import KeyRegistration, Merge, StateKey
from awaken.core.state.store import StateStore
from awaken.errors import (
    KeyDecode,
    KeyEncode,
    MutationBaseRevisionMismatch,
    ParallelMergeConflict,
)

COUNTER: StateKey[int, int] = StateKey(
    "counter", initial=int, apply=operator.add, merge=Merge.COMMUTATIVE
)
NAME: StateKey[str, str] = StateKey("name", initial=str)
COLOUR: StateKey[str, str] = StateKey("colour", initial=str)
STRANGER: StateKey[int, int] = StateKey(
    "stranger", initial=int, apply=operator.add, merge=Merge.COMMUTATIVE
)


@pytest.fixture
def store() -> StateStore:
    store = StateStore()
    store.register_keys(KeyRegistration.of(key) for key in (COUNTER, NAME, COLOUR))
    return store


def counting(n: int) -> Command:
    return Command().update(COUNTER, n)


# -- joining in parallel ----------------------------------------------------------------------


def test_disjoint_commands_merge(store: StateStore) -> None:
    """01/S-12: disjoint ok."""
    merged = merge_parallel(
        [Command().update(NAME, "x"), Command().update(COLOUR, "red"), counting(1)],
        store.merge_strategy,
    )

    store.commit(merged.batch)
    assert (store.read(NAME), store.read(COLOUR), store.read(COUNTER)) == ("x", "red", 1)
    assert store.revision == 1


def test_commutative_commands_merge_in_any_order(store: StateStore) -> None:
    """01/S-12: commutative ok in any order."""
    for order in itertools.permutations([1, 10, 100]):
        fresh = StateStore()
        fresh.register_keys([KeyRegistration.of(COUNTER)])
        merged = merge_parallel([counting(n) for n in order], fresh.merge_strategy)
        fresh.commit(merged.batch)
        assert fresh.read(COUNTER) == 111


def test_two_writers_of_an_exclusive_key_are_refused(store: StateStore) -> None:
    """01/S-12: exclusive overlap rejected."""
    with pytest.raises(ParallelMergeConflict) as conflict:
        merge_parallel(
            [Command().update(NAME, "x"), Command().update(NAME, "y")], store.merge_strategy
        )

    assert conflict.value.key == "name"


def test_two_writers_of_an_unregistered_key_are_refused(store: StateStore) -> None:
    """01/S-12: unregistered overlap rejected, whatever the key says of itself."""
    with pytest.raises(ParallelMergeConflict) as conflict:
        merge_parallel(
            [Command().update(STRANGER, 1), Command().update(STRANGER, 2)], store.merge_strategy
        )

    assert conflict.value.key == "stranger"


def test_one_exclusive_overlap_blocks_the_whole_merge(store: StateStore) -> None:
    """01/S-12: mixed with one exclusive overlap rejected."""
    left = counting(1).update(NAME, "x")
    right = counting(2).update(COLOUR, "red").update(NAME, "y")

    with pytest.raises(ParallelMergeConflict, match="name"):
        merge_parallel([left, right], store.merge_strategy)


def test_one_command_may_write_its_exclusive_key_twice(store: StateStore) -> None:
    """01/S-12: overlap is between commands, not within one."""
    twice = Command().update(NAME, "x").update(NAME, "y")

    merged = merge_parallel([twice, counting(1)], store.merge_strategy)

    store.commit(merged.batch)
    assert store.read(NAME) == "y"


def test_commands_of_different_bases_do_not_merge(store: StateStore) -> None:
    """01/S-12: base mismatch rejected."""
    left, right = Command(base_revision=1).update(NAME, "x"), Command(base_revision=2)

    with pytest.raises(MutationBaseRevisionMismatch) as mismatch:
        merge_parallel([left, right.update(COLOUR, "red")], store.merge_strategy)

    assert (mismatch.value.left, mismatch.value.right) == (1, 2)


@pytest.mark.parametrize(
    ("left", "right", "base"), [(3, 3, 3), (3, None, 3), (None, 3, 3), (None, None, None)]
)
def test_equal_and_one_sided_bases_merge(
    store: StateStore, left: int | None, right: int | None, base: int | None
) -> None:
    """01/S-12: equal or one-sided is fine."""
    merged = merge_parallel([Command(left), Command(right)], store.merge_strategy)

    assert merged.batch.base_revision == base


@pytest.mark.parametrize("count", [3, 4])
def test_many_commands_merge_like_a_chain_of_two(store: StateStore, count: int) -> None:
    """01/S-12: three- and four-way by chaining; left updates first."""
    commands = [counting(n).update(StateKey(f"k{n}", initial=int), n) for n in range(count)]

    merged = merge_parallel(commands, store.merge_strategy)
    chained = commands[0]
    for command in commands[1:]:
        chained = merge_parallel([chained, command], store.merge_strategy)

    assert merged.batch.touched_keys == chained.batch.touched_keys
    assert [update for _, update in merged.batch.ops] == [n for n in range(count) for _ in (0, 1)]
    with pytest.raises(ParallelMergeConflict, match=f"k{count - 1}"):
        merge_parallel([chained, commands[-1]], store.merge_strategy)


def test_merging_leaves_the_commands_as_they_were(store: StateStore) -> None:
    left, right = counting(1), counting(2)

    merge_parallel([left, right], store.merge_strategy)

    assert [update for _, update in left.batch.ops] == [1]
    assert [update for _, update in right.batch.ops] == [2]


def test_merging_an_empty_command_is_free(store: StateStore) -> None:
    """01/S-12: and merging none at all gives nothing."""
    merged = merge_parallel([counting(1), Command()], store.merge_strategy)

    assert merged.batch.touched_keys == ["counter"]
    assert not merge_parallel([], store.merge_strategy)


def test_the_first_conflicting_key_is_named(store: StateStore) -> None:
    """01/S-12: in the order in which the later command touches them."""
    batches = [
        MutationBatch().update(NAME, "x").update(COLOUR, "red"),
        MutationBatch().update(COUNTER, 1),
        MutationBatch().update(COUNTER, 1).update(COLOUR, "blue").update(NAME, "y"),
    ]

    assert conflicting_key(batches, store.merge_strategy) == "colour"
    assert conflicting_key(batches[:2], store.merge_strategy) is None


# -- joining in sequence ----------------------------------------------------------------------


def test_extending_joins_updates_in_order_whatever_their_keys() -> None:
    batch = MutationBatch()
    assert not batch

    batch.update(NAME, "x").extend(
        MutationBatch(base_revision=3).update(NAME, "y").update(COUNTER, 1)
    ).extend(MutationBatch())

    assert batch
    assert batch.touched_keys == ["name", "name", "counter"]
    assert batch.base_revision == 3


def test_extending_by_another_base_is_refused_and_changes_nothing() -> None:
    batch = MutationBatch(base_revision=1).update(NAME, "x")

    with pytest.raises(MutationBaseRevisionMismatch):
        batch.extend(MutationBatch(base_revision=2).update(NAME, "y"))

    assert (batch.base_revision, batch.touched_keys) == (1, ["name"])


class Note(msgspec.Struct, frozen=True):
    text: str
    pair: tuple[int, int] = (0, 0)


REMIND: ScheduledActionSpec[Note] = ScheduledActionSpec("remind", Phase.STEP_END, Note)
RING: EffectSpec[Note] = EffectSpec("ring", Note)


def test_actions_and_effects_follow_the_updates_left_first(store: StateStore) -> None:
    left = counting(1).schedule_action(REMIND, Note("a")).emit(RING, Note("b"))
    right = counting(2).schedule_action(REMIND, Note("c")).emit(RING, Note("d"))

    merged = merge_parallel([left, right], store.merge_strategy)

    assert [(a.key, a.phase, a.payload["text"]) for a in merged.actions] == [
        ("remind", Phase.STEP_END, "a"),
        ("remind", Phase.STEP_END, "c"),
    ]
    assert [(e.key, e.payload["text"]) for e in merged.effects] == [("ring", "b"), ("ring", "d")]


def test_a_command_is_empty_only_without_updates_actions_and_effects() -> None:
    """01 §2.2: empty only if all three are."""
    assert not Command()
    assert not Command(base_revision=3)
    assert counting(1)
    assert Command().schedule_action(REMIND, Note("a"))
    assert Command().emit(RING, Note("a"))


def test_payloads_are_encoded_at_once_and_decode_to_what_they_were() -> None:
    """01 §2.2: encode at once, as JSON and nothing else."""
    command = Command().schedule_action(REMIND, Note("a", (1, 2)))

    payload = command.actions[0].payload
    assert payload == {"text": "a", "pair": [1, 2]}
    assert REMIND.decode(payload) == Note("a", (1, 2))


def test_a_payload_that_is_not_json_fails_at_the_caller() -> None:
    """01 §2.2: encoding errors surface at the caller, and nothing is added."""
    loose: ScheduledActionSpec[object] = ScheduledActionSpec("loose", Phase.STEP_END)
    command = Command()

    with pytest.raises(KeyEncode) as scheduled:
        command.schedule_action(loose, object())
    with pytest.raises(KeyEncode):
        command.emit(EffectSpec("loud"), object())

    assert scheduled.value.key == "loose"
    assert not command


def test_a_payload_of_the_wrong_shape_is_a_decode_error() -> None:
    with pytest.raises(KeyDecode) as broken:
        REMIND.decode({"text": 3})

    assert broken.value.key == "remind"


def test_a_command_prints_what_it_holds() -> None:
    command = counting(1).schedule_action(REMIND, Note("a")).emit(RING, Note("b"))

    assert repr(command) == "Command(keys=['counter'], actions=['remind'], effects=['ring'])"
    joined = Command().extend(command).extend(counting(2))
    assert joined.batch.touched_keys == ["counter", "counter"]
