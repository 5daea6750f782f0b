"""State that outlives threads: per agent, per thread family, or global in a tenant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from awaken.codec import Json, from_json, to_json
from awaken.core.value import Value
from awaken.errors import KeyDecode, KeyEncode, NotFound, VersionConflict

V = TypeVar("V")


class ProfileOwner(Value, frozen=True, kw_only=True):
    """The owner of profile entries: an agent, or the system, of one tenant.

    Prints `agent:<name>` or `system`, after the scope and a slash unless the scope is the default
    one.
    """

    agent: str | None = None
    scope: str = ""

    def __str__(self) -> str:
        name = "system" if self.agent is None else f"agent:{self.agent}"
        return f"{self.scope}/{name}" if self.scope else name


class ProfileEntry(Value, frozen=True, kw_only=True):
    """A stored value; `version` counts its writes."""

    key: str
    value: Json
    version: int
    updated_at: int


class ProfileStore(Protocol):
    """Entries by owner and key."""

    async def get(self, owner: ProfileOwner, key: str) -> ProfileEntry | None: ...

    async def set(
        self, owner: ProfileOwner, key: str, value: Json, *, expected_version: int | None = None
    ) -> ProfileEntry:
        """Write an entry. With `expected_version`, only if that is still its version (0: no entry).

        Raises:
            VersionConflict: the entry has another version by now.
        """
        ...

    async def delete(self, owner: ProfileOwner, key: str) -> None: ...

    async def list(self, owner: ProfileOwner) -> list[ProfileEntry]: ...

    async def clear_owner(self, owner: ProfileOwner) -> None: ...

    async def clear_scope(self, scope: str) -> int:
        """Delete the entries of all owners in a tenant, which has a name; returns how many."""
        ...


def profiles_of(store: ProfileStore | None, scope: str) -> ProfileStore | None:
    """The profiles of one tenant: whatever owner is named, only that owner's entries in `scope`."""
    return store if store is None or not scope else _ScopedProfiles(store, scope)


class _ScopedProfiles:
    def __init__(self, store: ProfileStore, scope: str) -> None:
        self._store = store
        self._scope = scope

    def _inside(self, owner: ProfileOwner) -> ProfileOwner:
        return ProfileOwner(agent=owner.agent, scope=self._scope)

    async def get(self, owner: ProfileOwner, key: str) -> ProfileEntry | None:
        return await self._store.get(self._inside(owner), key)

    async def set(
        self, owner: ProfileOwner, key: str, value: Json, *, expected_version: int | None = None
    ) -> ProfileEntry:
        inside = self._inside(owner)
        return await self._store.set(inside, key, value, expected_version=expected_version)

    async def delete(self, owner: ProfileOwner, key: str) -> None:
        await self._store.delete(self._inside(owner), key)

    async def list(self, owner: ProfileOwner) -> list[ProfileEntry]:
        return await self._store.list(self._inside(owner))

    async def clear_owner(self, owner: ProfileOwner) -> None:
        await self._store.clear_owner(self._inside(owner))

    async def clear_scope(self, scope: str) -> int:
        return await self._store.clear_scope(self._scope)


class ProfileKey(Generic[V]):
    """A namespace whose entries share one type and one default value."""

    def __init__(self, namespace: str, *, initial: Callable[[], V], type: Any = None) -> None:
        self.namespace = namespace
        self.initial = initial
        self.type = type or (initial if isinstance(initial, _CLASS) else Any)


_CLASS = type


class StateScope:
    """The instance names of an entry, by how widely it is shared."""

    GLOBAL = "global"

    @staticmethod
    def parent_thread(id: str) -> str:
        return f"parent_thread::{id}"

    @staticmethod
    def agent_type(name: str) -> str:
        return f"agent_type::{name}"

    @staticmethod
    def thread(id: str) -> str:
        return f"thread::{id}"


class ProfileAccess:
    """Typed access to the namespaces an agent's plugins registered."""

    __slots__ = ("_namespaces", "_store")

    def __init__(self, store: ProfileStore, namespaces: frozenset[str]) -> None:
        self._store = store
        self._namespaces = namespaces

    def _address(self, key: ProfileKey[Any], instance: str) -> tuple[ProfileOwner, str]:
        if key.namespace not in self._namespaces:
            raise NotFound("profile namespace", key.namespace)
        # The namespace's slashes are escaped, so that ("a", "b/c") and ("a/b", "c") differ.
        namespace = key.namespace.replace("~", "~0").replace("/", "~1")
        return ProfileOwner(), f"{namespace}/{instance}"

    async def read(self, key: ProfileKey[V], instance: str = StateScope.GLOBAL) -> V:
        """The entry's value, or the key's default if there is no entry."""
        return (await self._load(key, instance))[0]

    async def _load(self, key: ProfileKey[V], instance: str) -> tuple[V, int]:
        entry = await self._store.get(*self._address(key, instance))
        if entry is None:
            return key.initial(), 0
        try:
            value: V = from_json(entry.value, key.type)
        except msgspec.ValidationError as error:
            raise KeyDecode(key.namespace, error) from error
        return value, entry.version

    async def write(self, key: ProfileKey[V], value: V, instance: str = StateScope.GLOBAL) -> None:
        """Set the entry, whatever its value was.

        Raises:
            KeyEncode: the value is not JSON-able, or could not be read back.
        """
        owner, name = self._address(key, instance)
        await self._store.set(owner, name, _encode(key, value))

    async def update(
        self,
        key: ProfileKey[V],
        change: Callable[[V], V],
        instance: str = StateScope.GLOBAL,
        *,
        attempts: int = 8,
    ) -> V:
        """Change the entry by a function of its value, and return the new value.

        Concurrent changes are not lost: `change` is called again if another writer came first.

        Raises:
            VersionConflict: other writers came first `attempts` times.
            KeyEncode: the new value is not JSON-able, or could not be read back.
        """
        owner, name = self._address(key, instance)
        for attempt in range(attempts):
            value, version = await self._load(key, instance)
            changed = change(value)
            try:
                await self._store.set(owner, name, _encode(key, changed), expected_version=version)
            except VersionConflict:
                if attempt == attempts - 1:
                    raise
            else:
                return changed
        raise AssertionError("unreachable")

    async def delete(self, key: ProfileKey[Any], instance: str = StateScope.GLOBAL) -> None:
        await self._store.delete(*self._address(key, instance))


def _encode(key: ProfileKey[V], value: V) -> Json:
    """
    Raises:
        KeyEncode: the value is not JSON-able, or could not be read back.
    """
    try:
        json = to_json(value)
    except Exception as error:
        raise KeyEncode(key.namespace, error) from error
    try:
        from_json(json, key.type)
    except msgspec.ValidationError as error:
        raise KeyEncode(key.namespace, f"it could not be read back: {error}") from error
    return json
