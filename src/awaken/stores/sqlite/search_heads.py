"""How far the threads of a SQLite store are, for its search index."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial

from awaken.codec import loads
from awaken.core.search.index import ThreadHead
from awaken.core.value import Value
from awaken.stores.sql.cursors import UNREADABLE
from awaken.stores.sql.queries import SCOPES_OF_THREADS
from awaken.stores.sqlite.engine import Engine


class Revision(Value, frozen=True, kw_only=True):
    """The part of a thread's metadata that says how often it was changed."""

    revision: int = 0


class SqliteHeads:
    """Reads heads; see `Searchable`."""

    def __init__(self, ready: Callable[[], Engine]) -> None:
        self._ready = ready

    async def list_heads(self, after: str, limit: int) -> Sequence[ThreadHead]:
        return await self._ready().read(partial(_read, _HEADS, (after, limit)))

    async def list_active(self, since_ms: int) -> Sequence[ThreadHead]:
        return await self._ready().read(partial(_read, _ACTIVE, (since_ms,)))


_COLUMNS = "SELECT t.id, t.created_at, t.updated_at, t.position, m.record"
_METADATA = "LEFT JOIN thread_metadata AS m ON m.thread = t.pk"
_HEADS = f"""
{_COLUMNS} FROM threads AS t {_METADATA} WHERE t.id > ? AND t.position > 0 ORDER BY t.id LIMIT ?
"""
# The index of lists is by scope, and within it roots are apart from others.
_ACTIVE = f"""
{_COLUMNS} FROM ({SCOPES_OF_THREADS}) AS s
CROSS JOIN (SELECT 0 AS is_root UNION ALL SELECT 1) AS r
CROSS JOIN threads AS t INDEXED BY threads_by_activity
  ON t.scope = s.scope AND (t.parent IS NULL) = r.is_root AND t.active_at >= ?
{_METADATA}
UNION
{_COLUMNS} FROM threads AS t {_METADATA}
WHERE t.position > 0 AND t.pk IN (SELECT thread FROM runs WHERE status = 'running')
"""


def _read(text: str, values: Sequence[object], db: sqlite3.Connection) -> list[ThreadHead]:
    return [
        ThreadHead(
            thread_id=id,
            created_at=created,
            updated_at=updated,
            commits=position,
            revision=_revision_of(record),
        )
        for id, created, updated, position, record in db.execute(text, values)
    ]


def _revision_of(record: bytes | None) -> int:
    """The revision of a thread's metadata; -1 if it cannot be read."""
    if record is None:
        return 0
    try:
        return loads(record, Revision).revision
    except UNREADABLE:
        return -1
