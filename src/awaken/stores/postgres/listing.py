"""Lists in pages. A cursor holds the sort key of the last row, and is valid for one query only."""

from __future__ import annotations

from typing import Any

from awaken.core.run import RunRecord
from awaken.core.store.threads import Page, RunQuery, ThreadQuery, TicketQuery
from awaken.core.suspension import Ticket
from awaken.core.thread import Thread, label_filter
from awaken.core.unreadable import RowKind
from awaken.stores.postgres.connections import Db
from awaken.stores.postgres.rows import (
    RUN_COLUMNS,
    THREAD_COLUMNS,
    RunRow,
    ThreadRow,
    label_bytes,
    user_bytes,
)
from awaken.stores.sql.cursors import Query, UnreadableRows, parse_cursor
from awaken.stores.sql.listing import Where, build_page, build_ticket_page, prefix_end

_BENEATH = """
WITH RECURSIVE beneath(pk, id) AS (
    SELECT pk, id FROM @threads WHERE parent = ?
    UNION SELECT c.pk, c.id FROM beneath AS b JOIN @threads AS c ON c.parent = b.id
)
SELECT pk FROM beneath
"""
_LABELLED = "t.pk IN (SELECT m.thread FROM @thread_metadata AS m WHERE ? = ANY (m.labels))"
_LATEST = """
EXISTS (SELECT 1 FROM @runs AS r WHERE r.id = t.latest_run
        AND (?::text IS NULL OR r.status = ?) AND (?::text IS NULL OR r.agent = ?))
"""
# The run above a delegate asks its question too, unless that run is a task.
_NOT_ASKED_ABOVE = """
NOT EXISTS (SELECT 1 FROM @runs AS r JOIN @runs AS p ON p.id = r.parent
            WHERE r.id = k.run_id AND p.kind <> 'task' AND r.delegated)
"""


async def list_threads(db: Db, unreadable: UnreadableRows, query: ThreadQuery) -> Page[Thread]:
    where = Where("t.active_at IS NOT NULL")
    where.equals("t.scope", query.scope)
    where.equals("t.parent", query.parent_thread_id)
    if query.root:
        where.add("t.parent IS NULL")
    if query.ancestor_thread_id is not None:
        where.add(f"t.pk IN ({_BENEATH})", query.ancestor_thread_id)
    if query.prefix:
        where.add("t.id >= ?", query.prefix)
        if (behind := prefix_end(query.prefix)) is not None:
            where.add("t.id < ?", behind)
    if query.since is not None:
        where.add("t.active_at >= ?", query.since)
    _add_metadata(where, query)
    if (last := parse_cursor(query, int, str)) is not None:
        where.add("(t.active_at < ? OR (t.active_at = ? AND t.id > ?))", last[0], *last)
    order = "t.active_at DESC, t.id"
    rows = await _read(db, where, f"{THREAD_COLUMNS} FROM @threads AS t", order, query)
    heads = [ThreadRow(*row) for row in rows[: query.limit]]
    items = ((head.id, head.thread) for head in heads)
    end = (heads[-1].active_at or 0, heads[-1].id) if heads else ()
    return build_page(query, unreadable, RowKind.THREAD, rows, items, end)


def _add_metadata(where: Where, query: ThreadQuery) -> None:
    """Add the conditions on what is said about a thread, and on its latest run."""
    if query.user is not None:
        user = user_bytes(query.user)
        where.add("t.pk IN (SELECT m.thread FROM @thread_metadata AS m WHERE m.user_id = ?)", user)
    if query.label is not None:
        name, value = label_filter(query.label)
        by_name, by_value = label_bytes(name, value or "")
        where.add(_LABELLED, by_name if value is None else by_value)
    if query.status is not None and not query.status.is_terminal:
        where.add("t.pk IN (SELECT thread FROM @runs WHERE status <> 'done')")
    if (query.status, query.agent) != (None, None):
        status = query.status.value if query.status is not None else None
        where.add(_LATEST, status, status, query.agent, query.agent)


async def list_runs(db: Db, unreadable: UnreadableRows, query: RunQuery) -> Page[RunRecord]:
    where = Where()
    if query.thread_id is not None:
        where.add("r.thread = (SELECT pk FROM @threads WHERE id = ?)", query.thread_id)
    if query.ancestor_thread_id is not None:
        where.add(f"r.thread IN ({_BENEATH})", query.ancestor_thread_id)
    where.equals("r.id", query.run_id)
    where.equals("r.scope", query.scope)
    where.equals("r.agent", query.agent_id)
    where.equals("r.parent", query.parent_run_id)
    where.equals("r.user_id", user_bytes(query.user))
    where.equals("r.kind", query.kind.value if query.kind is not None else None)
    if query.status is not None:
        where.equals("r.status", query.status.value)
    if (after := query.updated_after_ms) is not None:
        # `changed_at` of a run that is done is its `updated_at_ms`, and is in an index.
        where.add(
            "((r.status <> 'done' AND r.updated_at_ms > ?) "
            "OR (r.status = 'done' AND r.changed_at > ?))",
            *(after, after),
        )
    if (last := parse_cursor(query, int)) is not None:
        where.add("r.pk < ?", *last)
    rows = await _read(db, where, f"{RUN_COLUMNS} FROM @runs AS r", "r.pk DESC", query)
    heads = [RunRow(*row) for row in rows[: query.limit]]
    items = ((head.id, head.record) for head in heads)
    end = (heads[-1].pk,) if heads else ()
    return build_page(query, unreadable, RowKind.RUN, rows, items, end)


async def list_tickets(db: Db, unreadable: UnreadableRows, query: TicketQuery) -> Page[Ticket]:
    where = Where()
    where.equals("k.scope", query.scope)
    if query.thread_id is not None:
        where.add("k.thread = (SELECT pk FROM @threads WHERE id = ?)", query.thread_id)
    where.equals("k.run_id", query.run_id)
    where.equals("k.key", query.key)
    if query.thread_id is None and query.run_id is None:
        where.add(_NOT_ASKED_ABOVE)
    where.equals("k.status", query.status.value if query.status is not None else None)
    if (last := parse_cursor(query, int, int)) is not None:
        where.add("(k.asked_at > ? OR (k.asked_at = ? AND k.pk > ?))", last[0], *last)
    columns = "k.asked_at, k.pk, k.key, k.status, k.record FROM @tickets AS k"
    rows = await _read(db, where, columns, "k.asked_at, k.pk", query)
    return build_ticket_page(query, unreadable, rows)


async def _read(db: Db, where: Where, columns: str, order: str, query: Query) -> list[Any]:
    """The rows of a page, and one more if there is one."""
    text, values = where.select(columns, order, query)
    return await db.rows(text, *values)
