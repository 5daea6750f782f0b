"""Profile entries in the memory store."""

from __future__ import annotations

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import Json, dumps_state, loads
from awaken.core.account import ledger_key
from awaken.core.profile import ProfileEntry, ProfileOwner
from awaken.errors import VersionConflict


class MemoryProfiles:
    """Profile entries by owner and key."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._entries: dict[tuple[str, str], ProfileEntry] = {}

    async def get(self, owner: ProfileOwner, key: str) -> ProfileEntry | None:
        return self._entries.get((str(owner), key))

    async def set(
        self, owner: ProfileOwner, key: str, value: Json, *, expected_version: int | None = None
    ) -> ProfileEntry:
        old = self._entries.get((str(owner), key))
        version = old.version if old else 0
        if expected_version is not None and expected_version != version:
            raise VersionConflict(key, expected=expected_version, actual=version)
        entry = ProfileEntry(
            key=key,
            value=loads(dumps_state(value)),
            version=version + 1,
            updated_at=self._clock.now_ms(),
        )
        self._entries[str(owner), key] = entry
        return entry

    async def delete(self, owner: ProfileOwner, key: str) -> None:
        self._entries.pop((str(owner), key), None)

    async def list(self, owner: ProfileOwner) -> list[ProfileEntry]:
        mine = [entry for (name, _), entry in self._entries.items() if name == str(owner)]
        return sorted(mine, key=lambda entry: entry.key)

    def drop_budgets(self, root: str) -> None:
        """Delete the budgets of a run tree whose root run is deleted."""
        self._entries.pop((str(ProfileOwner()), ledger_key(root)), None)

    async def clear_owner(self, owner: ProfileOwner) -> None:
        for address in [a for a in self._entries if a[0] == str(owner)]:
            del self._entries[address]

    async def clear_scope(self, scope: str) -> int:
        gone = [address for address in self._entries if address[0].startswith(f"{scope}/")]
        for address in gone:
            del self._entries[address]
        return len(gone)
