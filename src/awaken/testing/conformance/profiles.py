"""Checks of profiles: entries by owner and key, kept longer than threads (01 §2.6)."""

from __future__ import annotations

from awaken.core.profile import ProfileOwner
from awaken.core.store.store import Store
from awaken.errors import VersionConflict
from awaken.testing.conformance.helpers import StoreCheck, Suite, expect_error

check = Suite[StoreCheck]()

SYSTEM = ProfileOwner()
PLANNER = ProfileOwner(agent="planner")


@check
async def an_entry_is_written_and_read_back(store: Store) -> None:
    """01 §2.6: `set` is an upsert that counts versions."""
    assert await store.profiles.get(PLANNER, "taste") is None

    first = await store.profiles.set(PLANNER, "taste", {"likes": ["tea", 1.5, None]})
    second = await store.profiles.set(PLANNER, "taste", {"likes": ["jazz"]})

    assert (first.key, first.version, first.value) == ("taste", 1, {"likes": ["tea", 1.5, None]})
    assert (second.version, second.value) == (2, {"likes": ["jazz"]})
    assert first.updated_at <= second.updated_at
    assert await store.profiles.get(PLANNER, "taste") == second


@check
async def owners_are_apart(store: Store) -> None:
    """01 §2.6: an agent called "system" is not the system."""
    owners = (SYSTEM, PLANNER, ProfileOwner(agent="system"))
    for value, owner in enumerate(owners):
        await store.profiles.set(owner, "k", value)

    found = [await store.profiles.get(owner, "k") for owner in owners]

    assert [entry.value for entry in found if entry] == [0, 1, 2]
    assert await store.profiles.get(ProfileOwner(agent="other"), "k") is None


@check
async def deleting_an_entry_may_be_repeated(store: Store) -> None:
    """01 §2.6: and a new entry starts over."""
    await store.profiles.set(SYSTEM, "k", 1)

    await store.profiles.delete(SYSTEM, "k")
    await store.profiles.delete(SYSTEM, "k")

    assert await store.profiles.get(SYSTEM, "k") is None
    assert (await store.profiles.set(SYSTEM, "k", 2, expected_version=0)).version == 1


@check
async def entries_are_listed_by_key(store: Store) -> None:
    """01 §2.6: sorted, one owner's only."""
    for key in ("b", "a", "B", "ä", "a/b", "a%"):
        await store.profiles.set(SYSTEM, key, key)
    await store.profiles.set(PLANNER, "z", 1)

    assert [entry.key for entry in await store.profiles.list(SYSTEM)] == [
        "B", "a", "a%", "a/b", "b", "ä",
    ]  # fmt: skip
    assert list(await store.profiles.list(ProfileOwner(agent="nobody"))) == []


@check
async def clearing_an_owner_leaves_the_others(store: Store) -> None:
    """01 §2.6: `clear_owner`."""
    await store.profiles.set(SYSTEM, "k", 1)
    await store.profiles.set(PLANNER, "k", 2)

    await store.profiles.clear_owner(PLANNER)
    await store.profiles.clear_owner(PLANNER)

    assert list(await store.profiles.list(PLANNER)) == []
    assert len(await store.profiles.list(SYSTEM)) == 1


@check
async def an_entry_is_compared_and_set(store: Store) -> None:
    """01/D-26: version 0 means that there must be no entry; a refusal changes nothing."""
    for written in range(3):
        before = await store.profiles.get(SYSTEM, "k")
        for expected in {0, 1, 2, 3} - {written}:
            lost = await expect_error(
                VersionConflict,
                store.profiles.set(SYSTEM, "k", "mine", expected_version=expected),
            )
            assert (lost.expected, lost.actual) == (expected, written)
            assert await store.profiles.get(SYSTEM, "k") == before
        entry = await store.profiles.set(SYSTEM, "k", written, expected_version=written)
        assert (entry.version, entry.value) == (written + 1, written)


@check
async def profiles_outlive_threads(store: Store) -> None:
    await store.profiles.set(SYSTEM, "k", {"kept": True})
    await store.prune(before_ms=10**15)

    entry = await store.profiles.get(SYSTEM, "k")
    assert entry is not None
    assert entry.value == {"kept": True}
