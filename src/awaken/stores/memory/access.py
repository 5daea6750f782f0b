"""Keys, sessions and the audit in the memory store."""

from __future__ import annotations

import os
from itertools import islice

from awaken.core.access import Deed, KeyEntry, Session
from awaken.core.store.threads import Page
from awaken.errors import AlreadyExists

MAX_DEEDS = 10_000
"""The audit of a memory store has its newest entries only."""


class MemoryAccess:
    """Keys and sessions by id, and deeds by number."""

    def __init__(self) -> None:
        self._keys: dict[str, KeyEntry] = {}
        self._sessions: dict[str, Session] = {}
        self._deeds: dict[int, Deed] = {}
        self._numbers = 0
        self._secret = os.urandom(32).hex()

    async def add_key(self, id: str, entry: KeyEntry) -> None:
        if id in self._keys:
            raise AlreadyExists("key", id)
        self._keys[id] = entry

    async def find_key(self, id: str) -> KeyEntry | None:
        return self._keys.get(id)

    async def list_keys(self) -> Page[tuple[str, KeyEntry]]:
        return Page(items=tuple(sorted(self._keys.items())))

    async def revoke_key(self, id: str) -> bool:
        return self._keys.pop(id, None) is not None

    async def signing_secret(self) -> str:
        return self._secret

    async def begin_session(self, session: Session, *, now_ms: int) -> None:
        for id in [id for id, one in self._sessions.items() if one.expires_at_ms <= now_ms]:
            del self._sessions[id]
        self._sessions[session.id] = session

    async def find_session(self, id: str) -> Session | None:
        return self._sessions.get(id)

    async def end_session(self, id: str) -> Session | None:
        return self._sessions.pop(id, None)

    async def note_deed(self, deed: Deed) -> None:
        self._numbers += 1
        self._deeds[self._numbers] = deed
        if len(self._deeds) > MAX_DEEDS:
            del self._deeds[next(iter(self._deeds))]

    async def list_deeds(
        self, scope: str, *, limit: int, before: int | None = None
    ) -> Page[tuple[int, Deed]]:
        newest = reversed(self._deeds.items())
        found = (
            (number, deed)
            for number, deed in newest
            if deed.scope == scope and (before is None or number < before)
        )
        rows = list(islice(found, limit + 1))
        shown = rows[:limit]
        cursor = str(shown[-1][0]) if len(rows) > len(shown) else None
        return Page(items=tuple(shown), cursor=cursor)

    async def delete_deeds(self, *, before_ms: int) -> int:
        old = [number for number, deed in self._deeds.items() if deed.at < before_ms]
        for number in old:
            del self._deeds[number]
        return len(old)

    async def clear_scope(self, scope: str) -> int:
        keys = [id for id, key in self._keys.items() if key.scope == scope]
        sessions = [id for id, one in self._sessions.items() if one.principal.scope == scope]
        deeds = [number for number, deed in self._deeds.items() if deed.scope == scope]
        for id in keys:
            del self._keys[id]
        for id in sessions:
            del self._sessions[id]
        for number in deeds:
            del self._deeds[number]
        return len(keys) + len(sessions) + len(deeds)
