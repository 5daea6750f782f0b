"""Profile entries in the Postgres store."""

from __future__ import annotations

from awaken.clock import Clock
from awaken.codec import Json, dumps_state, loads
from awaken.core.profile import ProfileEntry, ProfileOwner
from awaken.errors import VersionConflict
from awaken.stores.postgres.engine import EngineOpener
from awaken.stores.sql.delta import writable

_ONE = "SELECT key, value, version, updated_at FROM @profiles WHERE owner = ? AND key = ?"
_ALL = "SELECT key, value, version, updated_at FROM @profiles WHERE owner = ? ORDER BY key"
# A write that expects a version is one statement, so that of two writers one comes first.
_SET = """
INSERT INTO @profiles AS p (owner, key, value, version, updated_at)
SELECT $1::text, $2::text, $3::bytea, 1, $4::bigint
WHERE $5::int IS NULL OR $5 = 0
   OR EXISTS (SELECT 1 FROM @profiles WHERE owner = $1 AND key = $2)
ON CONFLICT (owner, key) DO UPDATE
SET value = excluded.value, version = p.version + 1, updated_at = excluded.updated_at
WHERE $5 IS NULL OR p.version = $5
RETURNING version
"""
_VERSION = "SELECT version FROM @profiles WHERE owner = ? AND key = ?"
_DELETE = "DELETE FROM @profiles WHERE owner = ? AND key = ?"
_CLEAR = "DELETE FROM @profiles WHERE owner = ?"
# The owners of a scope are those that begin with its name and a slash; `0` comes after the slash.
_CLEAR_SCOPE = "DELETE FROM @profiles WHERE owner >= $1 || '/' AND owner < $1 || '0'"


class PostgresProfiles:
    """Profile entries by owner and key, in the database of the store."""

    def __init__(self, opener: EngineOpener, clock: Clock) -> None:
        self._opener = opener
        self._clock = clock

    async def get(self, owner: ProfileOwner, key: str) -> ProfileEntry | None:
        engine = await self._opener.engine()
        row = await engine.read(lambda db: db.row(_ONE, str(owner), key))
        return _entry(*row) if row else None

    async def set(
        self, owner: ProfileOwner, key: str, value: Json, *, expected_version: int | None = None
    ) -> ProfileEntry:
        with writable(f"profile entry {key!r}"):
            text = dumps_state(value)
        now = self._clock.now_ms()
        engine = await self._opener.engine()
        version = await engine.read(
            lambda db: db.value(_SET, str(owner), key, text, now, expected_version)
        )
        if version is None:
            actual = await engine.read(lambda db: db.value(_VERSION, str(owner), key)) or 0
            raise VersionConflict(key, expected=expected_version or 0, actual=actual)
        return _entry(key, text, version, now)

    async def delete(self, owner: ProfileOwner, key: str) -> None:
        engine = await self._opener.engine()
        await engine.read(lambda db: db.run(_DELETE, str(owner), key))

    async def list(self, owner: ProfileOwner) -> list[ProfileEntry]:
        engine = await self._opener.engine()
        rows = await engine.read(lambda db: db.rows(_ALL, str(owner)))
        return [_entry(*row) for row in rows]

    async def clear_owner(self, owner: ProfileOwner) -> None:
        engine = await self._opener.engine()
        await engine.read(lambda db: db.run(_CLEAR, str(owner)))

    async def clear_scope(self, scope: str) -> int:
        engine = await self._opener.engine()
        return await engine.read(lambda db: db.run(_CLEAR_SCOPE, scope))


def _entry(key: str, value: bytes, version: int, updated_at: int) -> ProfileEntry:
    return ProfileEntry(key=key, value=loads(value), version=version, updated_at=updated_at)
