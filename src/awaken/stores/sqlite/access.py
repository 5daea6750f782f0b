"""Keys, sessions and the audit in the SQLite store."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence

from awaken.codec import dumps, loads
from awaken.domain.access import Deed, KeyEntry, Session
from awaken.errors import AlreadyExists
from awaken.stores.sql import queries
from awaken.stores.sql.delta import writable
from awaken.stores.sqlite.engine import Engine

DEEDS_AT_ONCE = 1_000
_SIGNING = "signing"
_NEWEST = 2**63 - 1


class SqliteAccess:
    """Keys and sessions by id, and deeds by number, in the file of the store."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        self._engine = engine

    async def add_key(self, id: str, entry: KeyEntry) -> None:
        with writable(f"key {id!r}"):
            row = (id, entry.scope, dumps(entry))
        added = await self._engine().write(
            lambda db: db.execute(queries.ADD_ACCESS_KEY, row).rowcount
        )
        if not added:
            raise AlreadyExists("key", id)

    async def find_key(self, id: str) -> KeyEntry | None:
        row = await self._engine().read(lambda db: db.execute(queries.ACCESS_KEY, (id,)).fetchone())
        return loads(row[0], KeyEntry) if row else None

    async def list_keys(self) -> Mapping[str, KeyEntry]:
        rows = await self._engine().read(lambda db: db.execute(queries.ACCESS_KEYS).fetchall())
        return {id: loads(record, KeyEntry) for id, record in rows}

    async def revoke_key(self, id: str) -> bool:
        return await self._engine().write(
            lambda db: db.execute(queries.REVOKE_ACCESS_KEY, (id,)).rowcount > 0
        )

    async def signing_secret(self) -> str:
        made = await self._engine().read(_secret)
        return made if made is not None else await self._engine().write(_make_secret)

    async def begin_session(self, session: Session, *, now_ms: int) -> None:
        with writable(f"session {session.id!r}"):
            record = dumps(session)
        row = (session.id, session.principal.scope, session.expires_at_ms, record)

        def write(db: sqlite3.Connection) -> None:
            db.execute(queries.DELETE_OLD_SESSIONS, (now_ms,))
            db.execute(queries.SET_SESSION, row)

        await self._engine().write(write)

    async def find_session(self, id: str) -> Session | None:
        row = await self._engine().read(lambda db: db.execute(queries.SESSION, (id,)).fetchone())
        return loads(row[0], Session) if row else None

    async def end_session(self, id: str) -> Session | None:
        row = await self._engine().write(
            lambda db: db.execute(queries.DELETE_SESSION, (id,)).fetchone()
        )
        return loads(row[0], Session) if row else None

    async def note_deed(self, deed: Deed) -> None:
        with writable("a deed"):
            row = (deed.scope, deed.at, dumps(deed))
        await self._engine().write(lambda db: db.execute(queries.ADD_DEED, row).rowcount)

    async def list_deeds(
        self, scope: str, *, limit: int, before: int | None = None
    ) -> Sequence[tuple[int, Deed]]:
        asked = (scope, _NEWEST if before is None else before, limit)
        rows = await self._engine().read(lambda db: db.execute(queries.DEEDS, asked).fetchall())
        return [(number, loads(record, Deed)) for number, record in rows]

    async def delete_deeds(self, *, before_ms: int) -> int:
        return await self._delete_deeds(queries.DELETE_OLD_DEEDS, before_ms)

    async def clear_scope(self, scope: str) -> int:
        def write(db: sqlite3.Connection) -> int:
            keys = db.execute(queries.DELETE_KEYS_OF_SCOPE, (scope,)).rowcount
            return keys + db.execute(queries.DELETE_SESSIONS_OF_SCOPE, (scope,)).rowcount

        count = await self._engine().write(write)
        return count + await self._delete_deeds(queries.DELETE_DEEDS_OF_SCOPE, scope)

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
    row = db.execute(queries.SECRET, (_SIGNING,)).fetchone()
    return str(row[0]) if row else None


def _make_secret(db: sqlite3.Connection) -> str:
    # Of several nodes that start at once, the first one's counts.
    db.execute(queries.ADD_SECRET, (_SIGNING, os.urandom(32).hex()))
    made = _secret(db)
    assert made is not None, "it was written just now"
    return made
