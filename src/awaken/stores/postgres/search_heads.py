"""How far the threads of a Postgres store are, for its search index."""

from __future__ import annotations

from collections.abc import Sequence

from awaken.codec import loads
from awaken.core.search.index import ThreadHead
from awaken.core.value import Value
from awaken.stores.postgres.engine import EngineOpener
from awaken.stores.sql.cursors import UNREADABLE


class Revision(Value, frozen=True, kw_only=True):
    """The part of a thread's metadata that says how often it was changed."""

    revision: int = 0


class PostgresHeads:
    """Reads heads; see `Searchable`."""

    def __init__(self, opener: EngineOpener) -> None:
        self._opener = opener

    async def list_heads(self, after: str, limit: int) -> Sequence[ThreadHead]:
        return await self._read(_HEADS, after, limit)

    async def list_active(self, since_ms: int) -> Sequence[ThreadHead]:
        return await self._read(_ACTIVE, since_ms)

    async def _read(self, text: str, *values: object) -> Sequence[ThreadHead]:
        engine = await self._opener.engine()
        rows = await engine.read(lambda db: db.rows(text, *values))
        return [
            ThreadHead(
                thread_id=id,
                created_at=created,
                updated_at=updated,
                commits=position,
                revision=_revision_of(record),
            )
            for id, created, updated, position, record in rows
        ]


_COLUMNS = "SELECT t.id, t.created_at, t.updated_at, t.position, m.record"
_FROM = "FROM @threads AS t LEFT JOIN @thread_metadata AS m ON m.thread = t.pk"
_HEADS = f"{_COLUMNS} {_FROM} WHERE t.id > ? AND t.position > 0 ORDER BY t.id LIMIT ?"
_ACTIVE = f"""
{_COLUMNS} {_FROM} WHERE t.active_at >= ? AND t.active_at IS NOT NULL
UNION
{_COLUMNS} {_FROM}
WHERE t.position > 0 AND t.pk IN (SELECT thread FROM @runs WHERE status = 'running')
"""


def _revision_of(record: bytes | None) -> int:
    """The revision of a thread's metadata; -1 if it cannot be read."""
    if record is None:
        return 0
    try:
        return loads(record, Revision).revision
    except UNREADABLE:
        return -1
