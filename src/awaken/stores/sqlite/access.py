"""Keys, sessions and the audit in the SQLite store."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from functools import partial

from awaken.codec import loads
from awaken.core.access import Deed, KeyEntry, Session
from awaken.core.store.threads import Page
from awaken.core.unreadable import RowKind
from awaken.errors import AlreadyExists
from awaken.stores.sql.delta import encode_row
from awaken.stores.sqlite.engine import Engine

DEEDS_AT_ONCE = 1_000
_SIGNING = "signing"
_NEWEST = 2**63 - 1
_ADD_ACCESS_KEY = "INSERT OR IGNORE INTO keys (id, scope, record) VALUES (?, ?, ?)"
_ACCESS_KEY = "SELECT record FROM keys WHERE id = ?"
_ACCESS_KEYS = "SELECT id, record FROM keys ORDER BY id"
_REVOKE_ACCESS_KEY = "DELETE FROM keys WHERE id = ?"
_ADD_SECRET = "INSERT OR IGNORE INTO secrets (name, value) VALUES (?, ?)"
_SECRET = "SELECT value FROM secrets WHERE name = ?"
_DELETE_OLD_SESSIONS = "DELETE FROM sessions WHERE expires_at <= ?"
_SET_SESSION = "INSERT OR REPLACE INTO sessions (id, scope, expires_at, record) VALUES (?, ?, ?, ?)"
_SESSION = "SELECT record FROM sessions WHERE id = ?"
_DELETE_SESSION = "DELETE FROM sessions WHERE id = ? RETURNING record"
_ADD_DEED = "INSERT INTO audit (scope, at_ms, record) VALUES (?, ?, ?)"
_DEEDS = """
SELECT number, record FROM audit WHERE scope = ? AND number < ? ORDER BY number DESC LIMIT ?
"""
_DELETE_OLD_DEEDS = """
DELETE FROM audit WHERE number IN (SELECT number FROM audit WHERE at_ms < ? LIMIT ?)
"""
_DELETE_DEEDS_OF_SCOPE = """
DELETE FROM audit WHERE number IN (SELECT number FROM audit WHERE scope = ? LIMIT ?)
"""
_DELETE_KEYS_OF_SCOPE = "DELETE FROM keys WHERE scope = ?"
_DELETE_SESSIONS_OF_SCOPE = "DELETE FROM sessions WHERE scope = ?"


class SqliteAccess:
    """Keys and sessions by id, and deeds by number, in the file of the store."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine

    async def add_key(self, id: str, entry: KeyEntry) -> None:
        row = (id, entry.scope, encode_row(entry, f"key {id!r}"))
        added = await self._engine().write(lambda db: db.execute(_ADD_ACCESS_KEY, row).rowcount)
        if not added:
            raise AlreadyExists("key", id)

    async def find_key(self, id: str) -> KeyEntry | None:
        row = await self._engine().read(lambda db: db.execute(_ACCESS_KEY, (id,)).fetchone())
        read = self._engine().unreadable.read
        return read(RowKind.KEY, id, row[0], KeyEntry) if row else None

    async def list_keys(self) -> Page[tuple[str, KeyEntry]]:
        rows = await self._engine().read(lambda db: db.execute(_ACCESS_KEYS).fetchall())
        items, left_out = self._engine().unreadable.collect(
            RowKind.KEY, ((id, partial(_key, id, record)) for id, record in rows)
        )
        return Page(items=items, unreadable=left_out)

    async def revoke_key(self, id: str) -> bool:
        return await self._engine().write(
            lambda db: db.execute(_REVOKE_ACCESS_KEY, (id,)).rowcount > 0
        )

    async def signing_secret(self) -> str:
        made = await self._engine().read(_secret)
        return made if made is not None else await self._engine().write(_make_secret)

    async def begin_session(self, session: Session, *, now_ms: int) -> None:
        record = encode_row(session, f"session {session.id!r}")
        row = (session.id, session.principal.scope, session.expires_at_ms, record)

        def write(db: sqlite3.Connection) -> None:
            db.execute(_DELETE_OLD_SESSIONS, (now_ms,))
            db.execute(_SET_SESSION, row)

        await self._engine().write(write)

    async def find_session(self, id: str) -> Session | None:
        row = await self._engine().read(lambda db: db.execute(_SESSION, (id,)).fetchone())
        return self._session(id, row[0]) if row else None

    async def end_session(self, id: str) -> Session | None:
        row = await self._engine().write(lambda db: db.execute(_DELETE_SESSION, (id,)).fetchone())
        return self._session(id, row[0]) if row else None

    def _session(self, id: str, record: bytes) -> Session | None:
        # The id is a digest of what its owner shows, and is not for the log.
        return self._engine().unreadable.read(RowKind.SESSION, id[:8], record, Session)

    async def note_deed(self, deed: Deed) -> None:
        row = (deed.scope, deed.at, encode_row(deed, "a deed"))
        await self._engine().write(lambda db: db.execute(_ADD_DEED, row).rowcount)

    async def list_deeds(
        self, scope: str, *, limit: int, before: int | None = None
    ) -> Page[tuple[int, Deed]]:
        # One more than is shown: is there another page?
        asked = (scope, _NEWEST if before is None else before, limit + 1)
        rows = await self._engine().read(lambda db: db.execute(_DEEDS, asked).fetchall())
        shown = rows[:limit]
        items, left_out = self._engine().unreadable.collect(
            RowKind.DEED, ((str(row[0]), partial(_decode_deed, *row)) for row in shown)
        )
        cursor = str(shown[-1][0]) if len(rows) > len(shown) else None
        return Page(items=items, cursor=cursor, unreadable=left_out)

    async def delete_deeds(self, *, before_ms: int) -> int:
        return await self._delete_deeds(_DELETE_OLD_DEEDS, before_ms)

    async def clear_scope(self, scope: str) -> int:
        def write(db: sqlite3.Connection) -> int:
            keys = db.execute(_DELETE_KEYS_OF_SCOPE, (scope,)).rowcount
            return keys + db.execute(_DELETE_SESSIONS_OF_SCOPE, (scope,)).rowcount

        count = await self._engine().write(write)
        return count + await self._delete_deeds(_DELETE_DEEDS_OF_SCOPE, scope)

    async def _delete_deeds(self, statement: str, by: int | str) -> int:
        """In batches: there may be very many, and other writers come in between."""
        count, last = 0, DEEDS_AT_ONCE
        while last == DEEDS_AT_ONCE:
            last = await self._engine().write(
                lambda db: db.execute(statement, (by, DEEDS_AT_ONCE)).rowcount
            )
            count += last
        return count


def _secret(db: sqlite3.Connection) -> str | None:
    row = db.execute(_SECRET, (_SIGNING,)).fetchone()
    return str(row[0]) if row else None


def _make_secret(db: sqlite3.Connection) -> str:
    # Of several nodes that start at once, the first one's counts.
    db.execute(_ADD_SECRET, (_SIGNING, os.urandom(32).hex()))
    made = _secret(db)
    assert made is not None, "it was written just now"
    return made


def _key(id: str, record: bytes) -> tuple[str, KeyEntry]:
    return id, loads(record, KeyEntry)


def _decode_deed(number: int, record: bytes) -> tuple[int, Deed]:
    return number, loads(record, Deed)
