"""Entries that outlive threads, on the store in memory (01 §2.6)."""

from __future__ import annotations

import pytest

from awaken.contract.profile import ProfileOwner, ProfileStore
from awaken.errors import VersionConflict
from awaken.stores.memory import MemoryProfiles
from awaken.testing import FakeClock

pytestmark = pytest.mark.anyio

SYSTEM = ProfileOwner()
PLANNER = ProfileOwner(agent="planner")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(start_ms=1000)


@pytest.fixture
def store(clock: FakeClock) -> ProfileStore:
    return MemoryProfiles(clock)


async def test_an_entry_is_written_and_read_back(store: ProfileStore, clock: FakeClock) -> None:
    """01 §2.6: `set` is an upsert that stamps `updated_at` and counts versions."""
    first = await store.set(PLANNER, "taste", {"likes": ["tea"]})
    clock.advance(1)
    second = await store.set(PLANNER, "taste", {"likes": ["jazz"]})

    assert (first.version, first.updated_at) == (1, 1000)
    assert (second.version, second.updated_at) == (2, 2000)
    assert await store.get(PLANNER, "taste") == second
    assert second.value == {"likes": ["jazz"]}


async def test_owners_are_apart(store: ProfileStore) -> None:
    """01 §2.6: addressed by owner and key; an agent called "system" is not the system."""
    await store.set(SYSTEM, "k", 1)
    await store.set(PLANNER, "k", 2)
    await store.set(ProfileOwner(agent="system"), "k", 3)

    found = [
        await store.get(owner, "k") for owner in (SYSTEM, PLANNER, ProfileOwner(agent="system"))
    ]

    assert [entry.value for entry in found if entry] == [1, 2, 3]
    assert await store.get(ProfileOwner(agent="other"), "k") is None


async def test_deleting_is_idempotent(store: ProfileStore) -> None:
    """01 §2.6: and a new entry starts over."""
    await store.set(SYSTEM, "k", 1)

    await store.delete(SYSTEM, "k")
    await store.delete(SYSTEM, "k")

    assert await store.get(SYSTEM, "k") is None
    assert (await store.set(SYSTEM, "k", 2, expected_version=0)).version == 1


async def test_entries_list_by_key(store: ProfileStore) -> None:
    """01 §2.6: sorted, one owner's only."""
    for key in ("b", "a", "c"):
        await store.set(SYSTEM, key, key)
    await store.set(PLANNER, "z", 1)

    assert [entry.key for entry in await store.list(SYSTEM)] == ["a", "b", "c"]
    assert await store.list(ProfileOwner(agent="nobody")) == []


async def test_clearing_an_owner_leaves_the_others(store: ProfileStore) -> None:
    """01 §2.6: `clear_owner`."""
    await store.set(SYSTEM, "k", 1)
    await store.set(PLANNER, "k", 2)

    await store.clear_owner(PLANNER)
    await store.clear_owner(PLANNER)

    assert await store.list(PLANNER) == []
    assert len(await store.list(SYSTEM)) == 1


@pytest.mark.parametrize(("written", "expected"), [(0, 1), (1, 0), (1, 2), (2, 1)])
async def test_a_write_that_expects_another_version_is_refused(
    written: int, expected: int, store: ProfileStore
) -> None:
    """D-26: compare and set; 0 means the entry must be new, and a refusal changes nothing."""
    for number in range(written):
        await store.set(SYSTEM, "k", number)
    before = await store.get(SYSTEM, "k")

    with pytest.raises(
        VersionConflict, match=f"version conflict: expected {expected}, actual {written}"
    ):
        await store.set(SYSTEM, "k", "mine", expected_version=expected)
    assert await store.get(SYSTEM, "k") == before


@pytest.mark.parametrize("written", [0, 1, 2])
async def test_a_write_that_expects_the_right_version_is_made(
    written: int, store: ProfileStore
) -> None:
    """D-26."""
    for number in range(written):
        await store.set(SYSTEM, "k", number)

    entry = await store.set(SYSTEM, "k", "mine", expected_version=written)

    assert (entry.version, entry.value) == (written + 1, "mine")
