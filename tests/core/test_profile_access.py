"""State that outlives threads (01 §2.6, D-26)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from awaken.codec import Json, dumps, loads
from awaken.core.profile import (
    ProfileAccess,
    ProfileEntry,
    ProfileKey,
    ProfileOwner,
    StateScope,
)
from awaken.errors import KeyDecode, KeyEncode, NotFound, VersionConflict

pytestmark = pytest.mark.anyio


class Taste(msgspec.Struct, frozen=True):
    likes: tuple[str, ...] = ()


VISITS: ProfileKey[int] = ProfileKey("visits", initial=int)
TASTE: ProfileKey[Taste] = ProfileKey("taste", initial=Taste)


class Profiles:
    """A profile store in a dictionary; `before_set` lets a rival come first."""

    def __init__(self) -> None:
        self.entries: dict[tuple[str, str], ProfileEntry] = {}
        self.before_set: Callable[[], Awaitable[None]] | None = None
        self.writes = 0

    async def get(self, owner: ProfileOwner, key: str) -> ProfileEntry | None:
        return self.entries.get((str(owner), key))

    async def set(
        self, owner: ProfileOwner, key: str, value: Json, *, expected_version: int | None = None
    ) -> ProfileEntry:
        if self.before_set is not None:
            await self.before_set()
        old = self.entries.get((str(owner), key))
        version = old.version if old else 0
        if expected_version is not None and expected_version != version:
            raise VersionConflict(key, expected=expected_version, actual=version)
        self.writes += 1
        entry = ProfileEntry(
            key=key, value=loads(dumps(value)), version=version + 1, updated_at=self.writes
        )
        self.entries[str(owner), key] = entry
        return entry

    async def delete(self, owner: ProfileOwner, key: str) -> None:
        self.entries.pop((str(owner), key), None)

    async def list(self, owner: ProfileOwner) -> list[ProfileEntry]:
        mine = [entry for (who, _), entry in self.entries.items() if who == str(owner)]
        return sorted(mine, key=lambda entry: entry.key)

    async def clear_owner(self, owner: ProfileOwner) -> None:
        self.entries = {at: e for at, e in self.entries.items() if at[0] != str(owner)}

    async def clear_scope(self, scope: str) -> int:
        raise NotImplementedError  # plugins cannot reach it


@pytest.fixture
def store() -> Profiles:
    return Profiles()


@pytest.fixture
def access(store: Profiles) -> ProfileAccess:
    return ProfileAccess(store, frozenset({"visits", "taste"}))


def test_owners_and_instances_print_as_documented() -> None:
    """01 §2.6: `agent:<name>` or `system`; the instance strings."""
    assert str(ProfileOwner()) == "system"
    assert str(ProfileOwner(agent="planner")) == "agent:planner"
    assert StateScope.GLOBAL == "global"
    assert StateScope.parent_thread("t1") == "parent_thread::t1"
    assert StateScope.agent_type("planner") == "agent_type::planner"
    assert StateScope.thread("t1") == "thread::t1"


async def test_a_missing_entry_reads_as_the_default(access: ProfileAccess, store: Profiles) -> None:
    """01 §2.6: and reading writes nothing."""
    assert await access.read(VISITS) == 0
    assert await access.read(TASTE, StateScope.thread("t1")) == Taste()
    assert store.entries == {}


async def test_what_is_written_is_read_back_typed(access: ProfileAccess) -> None:
    await access.write(TASTE, Taste(("tea", "jazz")))

    assert await access.read(TASTE) == Taste(("tea", "jazz"))


async def test_a_value_that_could_not_be_read_back_is_not_written(
    access: ProfileAccess, store: Profiles
) -> None:
    """Every later run that reads the entry would fail."""
    wrong = Taste(likes=(7,))  # type: ignore[arg-type]
    with pytest.raises(KeyEncode, match="could not be read back: Expected `str`, got `int`"):
        await access.write(TASTE, wrong)
    with pytest.raises(KeyEncode, match="'taste'"):
        await access.update(TASTE, lambda _: wrong)
    with pytest.raises(KeyEncode, match="'visits': object cannot be written as JSON"):
        await access.write(VISITS, object())  # type: ignore[misc]
    assert store.entries == {}


async def test_a_key_that_names_no_type_is_read_as_plain_json(store: Profiles) -> None:
    notes: ProfileKey[dict[str, int]] = ProfileKey("notes", initial=lambda: {"start": 1})
    access = ProfileAccess(store, frozenset({"notes"}))

    assert await access.read(notes) == {"start": 1}
    await access.write(notes, {"a": 2})
    assert await access.read(notes) == {"a": 2}


async def test_instances_and_namespaces_are_apart(access: ProfileAccess) -> None:
    await access.write(VISITS, 1)
    await access.write(VISITS, 2, StateScope.thread("t1"))
    await access.write(TASTE, Taste(("tea",)))

    assert await access.read(VISITS) == 1
    assert await access.read(VISITS, StateScope.thread("t1")) == 2
    assert await access.read(VISITS, StateScope.thread("t2")) == 0
    assert await access.read(TASTE) == Taste(("tea",))


async def test_a_slash_in_a_name_does_not_mix_up_namespaces(store: Profiles) -> None:
    """D-26: instances are prefixed by their namespace, unmistakably."""
    outer: ProfileKey[str] = ProfileKey("notes", initial=str)
    inner: ProfileKey[str] = ProfileKey("notes/private", initial=str)
    tilde: ProfileKey[str] = ProfileKey("notes~1private", initial=str)
    access = ProfileAccess(store, frozenset({"notes", "notes/private", "notes~1private"}))

    await access.write(inner, "secret", "ann")

    assert await access.read(outer, "private/ann") == ""
    assert await access.read(tilde, "ann") == ""
    assert await access.read(inner, "ann") == "secret"


async def test_a_deleted_entry_reads_as_the_default_again(access: ProfileAccess) -> None:
    """01 §2.6: deleting is idempotent."""
    await access.write(VISITS, 1)

    await access.delete(VISITS)
    await access.delete(VISITS)

    assert await access.read(VISITS) == 0


async def test_an_unregistered_namespace_is_not_found(store: Profiles) -> None:
    """01 §2.6: the namespace must have been registered by a plugin, else not found."""
    access = ProfileAccess(store, frozenset({"taste"}))

    with pytest.raises(NotFound) as missing:
        await access.read(VISITS)
    with pytest.raises(NotFound):
        await access.write(VISITS, 1)
    with pytest.raises(NotFound):
        await access.update(VISITS, lambda n: n + 1)
    with pytest.raises(NotFound):
        await access.delete(VISITS)

    assert missing.value.name == "visits"
    assert store.entries == {}


async def test_an_entry_that_does_not_fit_its_key_is_a_decode_error(access: ProfileAccess) -> None:
    other: ProfileKey[str] = ProfileKey("visits", initial=str)
    await access.write(other, "many")

    with pytest.raises(KeyDecode) as broken:
        await access.read(VISITS)
    assert broken.value.key == "visits"


async def test_an_update_starts_from_the_default_and_gives_the_new_value(
    access: ProfileAccess,
) -> None:
    """D-26: `update(fn)`."""
    assert await access.update(VISITS, lambda n: n + 1) == 1
    assert await access.update(VISITS, lambda n: n + 1) == 2
    assert await access.read(VISITS) == 2


async def test_an_update_that_loses_the_race_is_made_again(
    access: ProfileAccess, store: Profiles
) -> None:
    """D-26: under a version conflict nothing is lost, neither the rival's change nor ours."""
    rivals = [10, 100]

    async def rival_writes_first() -> None:
        if rivals:
            hook, store.before_set = store.before_set, None
            more = rivals.pop()
            await access.update(VISITS, lambda n: n + more)
            store.before_set = hook

    store.before_set = rival_writes_first
    seen: list[int] = []

    def visit(n: int) -> int:
        seen.append(n)
        return n + 1

    assert await access.update(VISITS, visit) == 111
    assert seen == [0, 100, 110]
    assert await access.read(VISITS) == 111


async def test_concurrent_updates_all_count(access: ProfileAccess, store: Profiles) -> None:
    """D-26: five at once, each reading before any of them has written."""

    async def give_way() -> None:
        await asyncio.sleep(0)

    store.before_set = give_way
    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(access.update(VISITS, lambda n: n + 1))

    assert await access.read(VISITS) == 5


async def test_an_update_that_never_wins_gives_up_with_the_conflict(
    access: ProfileAccess, store: Profiles
) -> None:
    """D-26: and tells, rather than overwriting."""
    rival = 0

    async def rival_writes_first() -> None:
        nonlocal rival
        rival += 1
        hook, store.before_set = store.before_set, None
        await access.write(VISITS, rival * 10)
        store.before_set = hook

    store.before_set = rival_writes_first

    with pytest.raises(VersionConflict):
        await access.update(VISITS, lambda n: n + 1, attempts=3)
    assert rival == 3
    assert await access.read(VISITS) == 30


async def test_a_change_that_raises_writes_nothing(access: ProfileAccess, store: Profiles) -> None:
    def refuse(_: int) -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await access.update(VISITS, refuse)

    assert store.entries == {}
