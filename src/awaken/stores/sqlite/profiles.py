"""Profile entries in the SQLite store."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from awaken.clock import Clock
from awaken.codec import Json, dumps_state, loads
from awaken.core.profile import ProfileEntry, ProfileOwner
from awaken.errors import VersionConflict
from awaken.stores.sql import queries
from awaken.stores.sql.delta import writable
from awaken.stores.sqlite.engine import Engine


class SqliteProfiles:
    """Profile entries by owner and key, in the file of the store."""

    def __init__(self, engine: Callable[[], Engine], clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    async def get(self, owner: ProfileOwner, key: str) -> ProfileEntry | None:
        return await self._engine().read(lambda db: _find(db, owner, key))

    async def set(
        self, owner: ProfileOwner, key: str, value: Json, *, expected_version: int | None = None
    ) -> ProfileEntry:
        with writable(f"profile entry {key!r}"):
            text = dumps_state(value)
        now = self._clock.now_ms()

        def write(db: sqlite3.Connection) -> ProfileEntry:
            old = _find(db, owner, key)
            version = old.version if old else 0
            if expected_version is not None and expected_version != version:
                raise VersionConflict(key, expected=expected_version, actual=version)
            db.execute(queries.SET_PROFILE, (str(owner), key, text, version + 1, now))
            return _entry(key, text, version + 1, now)

        return await self._engine().write(write)

    async def delete(self, owner: ProfileOwner, key: str) -> None:
        await self._engine().write(
            lambda db: _discard_result(db.execute(queries.DELETE_PROFILE, (str(owner), key)))
        )

    async def list(self, owner: ProfileOwner) -> list[ProfileEntry]:
        return await self._engine().read(
            lambda db: [_entry(*row) for row in db.execute(queries.PROFILES, (str(owner),))]
        )

    async def clear_owner(self, owner: ProfileOwner) -> None:
        await self._engine().write(
            lambda db: _discard_result(db.execute(queries.CLEAR_PROFILES, (str(owner),)))
        )

    async def clear_scope(self, scope: str) -> int:
        return await self._engine().write(
            lambda db: db.execute(queries.CLEAR_PROFILES_OF_SCOPE, (scope, scope)).rowcount
        )


def _find(db: sqlite3.Connection, owner: ProfileOwner, key: str) -> ProfileEntry | None:
    row = db.execute(queries.PROFILE, (str(owner), key)).fetchone()
    return _entry(*row) if row else None


def _entry(key: str, value: bytes, version: int, updated_at: int) -> ProfileEntry:
    return ProfileEntry(key=key, value=loads(value), version=version, updated_at=updated_at)


def _discard_result(_: Any) -> None:
    """Return no cursor: cursors must stay on the thread that made them."""
