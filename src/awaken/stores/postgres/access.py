"""Keys, sessions and the audit in the Postgres store."""

from __future__ import annotations

import os
from functools import partial

from awaken.codec import loads
from awaken.core.access import Deed, KeyEntry, Session
from awaken.core.store.threads import Page
from awaken.core.unreadable import RowKind
from awaken.errors import AlreadyExists
from awaken.stores.postgres.connections import Db
from awaken.stores.postgres.engine import Engine, EngineOpener
from awaken.stores.sql.delta import encode_row

DEEDS_AT_ONCE = 1_000
_SIGNING = "signing"
_ADD_KEY = """
INSERT INTO @keys (id, scope, record) VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING id
"""
_KEY = "SELECT record FROM @keys WHERE id = ?"
_KEYS = "SELECT id, record FROM @keys ORDER BY id"
_REVOKE_KEY = "DELETE FROM @keys WHERE id = ?"
_ADD_SECRET = "INSERT INTO @secrets (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING"
_SECRET = "SELECT value FROM @secrets WHERE name = ?"
_DELETE_OLD_SESSIONS = "DELETE FROM @sessions WHERE expires_at <= ?"
_SET_SESSION = """
INSERT INTO @sessions (id, scope, expires_at, record) VALUES (?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE
SET scope = excluded.scope, expires_at = excluded.expires_at, record = excluded.record
"""
_SESSION = "SELECT record FROM @sessions WHERE id = ?"
_DELETE_SESSION = "DELETE FROM @sessions WHERE id = ? RETURNING record"
_ADD_DEED = "INSERT INTO @audit (scope, at_ms, record) VALUES (?, ?, ?)"
_DEEDS = """
SELECT number, record FROM @audit WHERE scope = $1 AND ($2::bigint IS NULL OR number < $2)
ORDER BY number DESC LIMIT $3
"""
_DELETE_OLD_DEEDS = """
DELETE FROM @audit WHERE number IN (SELECT number FROM @audit WHERE at_ms < ? LIMIT ?)
"""
_DELETE_DEEDS_OF_SCOPE = """
DELETE FROM @audit WHERE number IN (SELECT number FROM @audit WHERE scope = ? LIMIT ?)
"""
_DELETE_KEYS_OF_SCOPE = "DELETE FROM @keys WHERE scope = ?"
_DELETE_SESSIONS_OF_SCOPE = "DELETE FROM @sessions WHERE scope = ?"


class PostgresAccess:
    """Keys and sessions by id, and deeds by number, in the database of the store."""

    def __init__(self, opener: EngineOpener) -> None:
        self._opener = opener

    async def add_key(self, id: str, entry: KeyEntry) -> None:
        record = encode_row(entry, f"key {id!r}")
        engine = await self._opener.engine()
        added = await engine.write(lambda db: db.value(_ADD_KEY, id, entry.scope, record))
        if added is None:
            raise AlreadyExists("key", id)

    async def find_key(self, id: str) -> KeyEntry | None:
        engine = await self._opener.engine()
        record: bytes | None = await engine.read(lambda db: db.value(_KEY, id))
        if record is None:
            return None
        return engine.unreadable.read(RowKind.KEY, id, record, KeyEntry)

    async def list_keys(self) -> Page[tuple[str, KeyEntry]]:
        engine = await self._opener.engine()
        rows = await engine.read(lambda db: db.rows(_KEYS))
        items, left_out = engine.unreadable.collect(
            RowKind.KEY, ((id, partial(_key, id, record)) for id, record in rows)
        )
        return Page(items=items, unreadable=left_out)

    async def revoke_key(self, id: str) -> bool:
        engine = await self._opener.engine()
        return await engine.write(lambda db: db.run(_REVOKE_KEY, id)) > 0

    async def signing_secret(self) -> str:
        engine = await self._opener.engine()
        found = await engine.read(lambda db: db.value(_SECRET, _SIGNING))
        if found is None:
            # Of several nodes that start at once, the first one's counts.
            made = os.urandom(32).hex()
            await engine.write(lambda db: db.run(_ADD_SECRET, _SIGNING, made))
            found = await engine.read(lambda db: db.value(_SECRET, _SIGNING))
        return str(found)

    async def begin_session(self, session: Session, *, now_ms: int) -> None:
        record = encode_row(session, f"session {session.id!r}")
        row = (session.id, session.principal.scope, session.expires_at_ms, record)

        async def write(db: Db) -> None:
            await db.run(_DELETE_OLD_SESSIONS, now_ms)
            await db.run(_SET_SESSION, *row)

        await (await self._opener.engine()).write(write)

    async def find_session(self, id: str) -> Session | None:
        engine = await self._opener.engine()
        record = await engine.read(lambda db: db.value(_SESSION, id))
        return _session(engine, id, record) if record is not None else None

    async def end_session(self, id: str) -> Session | None:
        engine = await self._opener.engine()
        record = await engine.write(lambda db: db.value(_DELETE_SESSION, id))
        return _session(engine, id, record) if record is not None else None

    async def note_deed(self, deed: Deed) -> None:
        record = encode_row(deed, "a deed")
        engine = await self._opener.engine()
        await engine.write(lambda db: db.run(_ADD_DEED, deed.scope, deed.at, record))

    async def list_deeds(
        self, scope: str, *, limit: int, before: int | None = None
    ) -> Page[tuple[int, Deed]]:
        engine = await self._opener.engine()
        # One more than is shown: is there another page?
        rows = await engine.read(lambda db: db.rows(_DEEDS, scope, before, limit + 1))
        shown = rows[:limit]
        items, left_out = engine.unreadable.collect(
            RowKind.DEED, ((str(row[0]), partial(_decode_deed, *row)) for row in shown)
        )
        cursor = str(shown[-1][0]) if len(rows) > len(shown) else None
        return Page(items=items, cursor=cursor, unreadable=left_out)

    async def delete_deeds(self, *, before_ms: int) -> int:
        return await self._delete_deeds(_DELETE_OLD_DEEDS, before_ms)

    async def clear_scope(self, scope: str) -> int:
        async def write(db: Db) -> int:
            keys = await db.run(_DELETE_KEYS_OF_SCOPE, scope)
            return keys + await db.run(_DELETE_SESSIONS_OF_SCOPE, scope)

        count = await (await self._opener.engine()).write(write)
        return count + await self._delete_deeds(_DELETE_DEEDS_OF_SCOPE, scope)

    async def _delete_deeds(self, statement: str, by: int | str) -> int:
        """In batches: there may be very many, and other writers come in between."""
        engine = await self._opener.engine()
        count, last = 0, DEEDS_AT_ONCE
        while last == DEEDS_AT_ONCE:
            last = await engine.write(lambda db: db.run(statement, by, DEEDS_AT_ONCE))
            count += last
        return count


def _key(id: str, record: bytes) -> tuple[str, KeyEntry]:
    return id, loads(record, KeyEntry)


def _decode_deed(number: int, record: bytes) -> tuple[int, Deed]:
    return number, loads(record, Deed)


def _session(engine: Engine, id: str, record: bytes) -> Session | None:
    # The id is a digest of what its owner shows, and is not for the log.
    return engine.unreadable.read(RowKind.SESSION, id[:8], record, Session)
