"""Reading the rows of an SQLite store as they are stored, and changing single ones."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

from awaken.core.unreadable import RowKind
from awaken.stores.sql.row_check import RowChange, StoredRow
from awaken.stores.sqlite.owners import Owners


class _RowTable(NamedTuple):
    """Where the rows of a kind are: the columns of their key, of the record, an id for people, and
    the primary key of their thread."""

    name: str
    key: tuple[str, ...]
    record: str
    id: str
    thread: str = "NULL"


_TABLES = {
    RowKind.THREAD: _RowTable("thread_metadata", ("thread",), "record", "t.id", "x.thread"),
    RowKind.RUN: _RowTable("runs", ("pk",), "record", "x.id", "x.thread"),
    RowKind.COMMIT: _RowTable("commits", ("id",), "delta", "x.id & 0xffffffff", "x.id >> 32"),
    RowKind.SNAPSHOT: _RowTable("snapshots", ("id",), "state", "x.id & 0xffffffff", "x.id >> 32"),
    RowKind.TICKET: _RowTable("tickets", ("pk",), "record", "x.key", "x.thread"),
    RowKind.COMMAND: _RowTable("commands", ("id",), "body", "x.id", "x.thread"),
    RowKind.STREAM: _RowTable("streams", ("thread", "number"), "piece", "x.number", "x.thread"),
    RowKind.PROFILE: _RowTable("profiles", ("owner", "key"), "value", "x.owner || ' ' || x.key"),
    RowKind.KEY: _RowTable("keys", ("id",), "record", "x.id"),
    RowKind.SESSION: _RowTable("sessions", ("id",), "record", "substr(x.id, 1, 8)"),
    RowKind.DEED: _RowTable("audit", ("number",), "record", "x.number"),
}
_OWNER = "SELECT owner FROM threads WHERE pk = ?"


def load_rows(
    db: sqlite3.Connection, kind: RowKind, after: tuple[Any, ...] | None, limit: int
) -> Sequence[StoredRow]:
    """See `HasRows.load_rows`."""
    table = _TABLES[kind]
    key = ", ".join(f"x.{column}" for column in table.key)
    where = f"WHERE ({key}) > ({', '.join('?' * len(table.key))})" if after is not None else ""
    text = (
        f"SELECT {table.id}, {table.thread}, t.id, x.{table.record}, {key} "
        f"FROM {table.name} AS x LEFT JOIN threads AS t ON t.pk = {table.thread} "
        f"{where} ORDER BY {key} LIMIT ?"
    )
    return [
        StoredRow(tuple(values), str(id), thread, thread_id, body)
        for id, thread, thread_id, body, *values in db.execute(text, (*(after or ()), limit))
    ]


def replace_rows(
    db: sqlite3.Connection, owners: Owners, changes: Sequence[RowChange]
) -> Sequence[str | None]:
    """See `HasRows.replace_rows`."""
    return [_replace_row(db, owners, change) for change in changes]


def _replace_row(db: sqlite3.Connection, owners: Owners, change: RowChange) -> str | None:
    table, row = _TABLES[change.kind], change.row
    owner = db.execute(_OWNER, (row.thread,)).fetchone() if row.thread is not None else None
    if owner is not None and owner[0] is not None and owners.is_alive(owner[0]):
        return f"its thread is owned by {owner[0]}, which is alive"
    where = " AND ".join(f"{column} = ?" for column in (*table.key, table.record))
    written = db.execute(
        f"UPDATE {table.name} SET {table.record} = ? WHERE {where}",
        (change.body, *row.key, row.body),
    )
    return None if written.rowcount else "another process has changed it meanwhile"
