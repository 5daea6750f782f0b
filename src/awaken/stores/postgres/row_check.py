"""Reading the rows of a Postgres store as they are stored, and changing single ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from awaken.core.unreadable import RowKind
from awaken.stores.postgres.connections import Db
from awaken.stores.postgres.rows import owner_name
from awaken.stores.sql.row_check import RowChange, StoredRow


class _RowTable(NamedTuple):
    """Where the rows of a kind are: the columns of their key with their types, the column of the
    record, an id for people, and the primary key of their thread."""

    name: str
    key: dict[str, str]
    record: str
    id: str
    thread: str = "NULL::bigint"


_BIG, _INT, _TEXT = "bigint", "int", "text"
_IN_THREAD = {"thread": _BIG, "position": _INT}
_TABLES = {
    RowKind.THREAD: _RowTable("thread_metadata", {"thread": _BIG}, "record", "t.id", "x.thread"),
    RowKind.RUN: _RowTable("runs", {"pk": _BIG}, "record", "x.id", "x.thread"),
    RowKind.COMMIT: _RowTable("commits", _IN_THREAD, "delta", "x.position", "x.thread"),
    RowKind.SNAPSHOT: _RowTable("snapshots", _IN_THREAD, "state", "x.position", "x.thread"),
    RowKind.TICKET: _RowTable("tickets", {"pk": _BIG}, "record", "x.key", "x.thread"),
    RowKind.COMMAND: _RowTable("commands", {"id": _BIG}, "body", "x.id", "x.thread"),
    RowKind.STREAM: _RowTable(
        "streams", {"thread": _BIG, "number": _INT}, "piece", "x.number", "x.thread"
    ),
    RowKind.PROFILE: _RowTable(
        "profiles", {"owner": _TEXT, "key": _TEXT}, "value", "x.owner || ' ' || x.key"
    ),
    RowKind.KEY: _RowTable("keys", {"id": _TEXT}, "record", "x.id"),
    RowKind.SESSION: _RowTable("sessions", {"id": _TEXT}, "record", "substr(x.id, 1, 8)"),
    RowKind.DEED: _RowTable("audit", {"number": _BIG}, "record", "x.number"),
}
# Claims and commits lock the thread as well: none comes between this and the end of the
# transaction.
_OWNER = "SELECT owner, @is_alive_v1(owner) FROM @threads WHERE pk = ? FOR UPDATE"


async def load_rows(
    db: Db, kind: RowKind, after: tuple[Any, ...] | None, limit: int
) -> Sequence[StoredRow]:
    """See `HasRows.load_rows`."""
    table = _TABLES[kind]
    key = ", ".join(f"x.{column}" for column in table.key)
    places = ", ".join(f"?::{type}" for type in table.key.values())
    where = f"WHERE ({key}) > ({places})" if after is not None else ""
    rows = await db.rows(
        f"SELECT {table.id}, {table.thread}, t.id, x.{table.record}, {key} "
        f"FROM @{table.name} AS x LEFT JOIN @threads AS t ON t.pk = {table.thread} "
        f"{where} ORDER BY {key} LIMIT ?",
        *(after or ()),
        limit,
    )
    return [
        StoredRow(tuple(values), str(id), thread, thread_id, body)
        for id, thread, thread_id, body, *values in rows
    ]


async def replace_rows(db: Db, changes: Sequence[RowChange]) -> Sequence[str | None]:
    """See `HasRows.replace_rows`."""
    # In one order everywhere, so that two of these do not wait for each other.
    outcomes: dict[int, str | None] = {}
    for place in sorted(range(len(changes)), key=lambda place: changes[place].row.thread or 0):
        outcomes[place] = await _replace_row(db, changes[place])
    return [outcomes[place] for place in range(len(changes))]


async def _replace_row(db: Db, change: RowChange) -> str | None:
    table, row = _TABLES[change.kind], change.row
    owner = await db.row(_OWNER, row.thread) if row.thread is not None else None
    if owner is not None and owner[1]:
        return f"its thread is owned by {owner_name(owner[0])}, which is alive"
    where = " AND ".join(f"{column} = ?" for column in (*table.key, table.record))
    written = await db.run(
        f"UPDATE @{table.name} SET {table.record} = ? WHERE {where}",
        change.body,
        *row.key,
        row.body,
    )
    return None if written else "another process has changed it meanwhile"
