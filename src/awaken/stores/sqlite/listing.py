"""Lists in pages. A cursor holds the sort key of the last row, and is valid for one query only."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any

from awaken.core.run import RunKind, RunRecord
from awaken.core.store.threads import Page, RunQuery, ThreadQuery, TicketQuery
from awaken.core.suspension import Ticket, TicketStatus
from awaken.core.thread import Thread, label_filter
from awaken.core.unreadable import RowKind
from awaken.stores.sql.cursors import Query, UnreadableRows, parse_cursor
from awaken.stores.sql.listing import Where, build_page, build_ticket_page, prefix_end
from awaken.stores.sql.queries import (
    BENEATH,
    COUNT_BETWEEN,
    COUNT_ENDED_AFTER,
    COUNT_OF_AGENT,
    NOT_ASKED_ABOVE,
    OF_USER,
    RUN_COLUMNS,
    SCOPES_OF_THREADS,
    SCOPES_OF_TICKETS,
    THREAD_COLUMNS,
    WITH_LABEL,
    WITH_LATEST_RUN,
    WITH_OPEN_RUN,
    WITH_RUN_OF_AGENT,
    WRITTEN_AFTER,
)
from awaken.stores.sqlite.owners import Owners
from awaken.stores.sqlite.rows import RunRow, ThreadRow

_MAX_SORTED_ROWS = 1000
"""A page sorts up to so many threads or runs; with more, it walks the list's own index instead."""


def list_threads(
    db: sqlite3.Connection, owners: Owners, unreadable: UnreadableRows, query: ThreadQuery
) -> Page[Thread]:
    where = Where("active_at IS NOT NULL")
    where.equals("parent", query.parent_thread_id)
    if query.root:
        where.add("parent IS NULL")
    if query.ancestor_thread_id is not None:
        where.add(f"pk IN ({BENEATH})", query.ancestor_thread_id)
    if query.prefix:
        where.add("id >= ? AND id < ?", *_prefix_range(query.prefix))
    if query.since is not None:
        where.add("active_at >= ?", query.since)
    _add_metadata(where, query)
    index = _index_of_few(db, query)
    if index is None and query.agent is not None and _has_few_runs(db, query.agent):
        where.add(WITH_RUN_OF_AGENT, query.agent)
        index = "NOT INDEXED"
    if index is not None:
        where.equals("scope", query.scope)
        parts = [where]
    else:
        index = "INDEXED BY threads_by_activity"
        parts = [
            where.and_("scope = ? AND (parent IS NULL) = ?", scope, is_root)
            for scope in _scopes(db, SCOPES_OF_THREADS, query)
            for is_root in ((1,) if query.root else (0, 1))
        ]
    if (last := parse_cursor(query, int, str)) is not None:
        # Two ranges of the index: other threads with the same `active_at`, and earlier ones.
        parts = [
            part.and_(range, *values)
            for part in parts
            for range, *values in (("active_at = ? AND id > ?", *last), ("active_at < ?", last[0]))
        ]
    columns, order = f"{THREAD_COLUMNS} FROM threads {index}", "active_at DESC, id"
    rows = _merge_parts(db, parts, columns, order, query, _by_activity)
    heads = [ThreadRow._make(row) for row in rows[: query.limit]]
    items = ((head.id, partial(head.thread, owners)) for head in heads)
    end = (heads[-1].active_at or 0, heads[-1].id) if heads else ()
    return build_page(query, unreadable, RowKind.THREAD, rows, items, end)


def _add_metadata(where: Where, query: ThreadQuery) -> None:
    """Add the conditions on what is said about a thread, and on its latest run."""
    if query.user is not None:
        where.add(OF_USER, query.user)
    if query.label is not None:
        name, value = label_filter(query.label)
        where.add(WITH_LABEL, name, value, value)
    if _is_open(query):
        where.add(WITH_OPEN_RUN)
    if (query.status, query.agent) != (None, None):
        status = query.status.value if query.status is not None else None
        where.add(WITH_LATEST_RUN, status, status, query.agent, query.agent)


def _is_open(query: ThreadQuery | RunQuery) -> bool:
    return query.status is not None and not query.status.is_terminal


def _by_activity(row: tuple[Any, ...]) -> tuple[int, str]:
    """The sort key of a thread in a list; the first thread has the lowest."""
    head = ThreadRow._make(row)
    return -(head.active_at or 0), head.id


def _index_of_few(db: sqlite3.Connection, query: ThreadQuery) -> str | None:
    """The index that finds the threads of a list if they are few; they are sorted afterwards.

    Returns `None` if they may be many: then the list is read from the index in its order.
    """
    if query.parent_thread_id is not None:
        return "INDEXED BY children_by_activity"
    is_picked = query.user is not None or query.label is not None or _is_open(query)
    if query.ancestor_thread_id is not None or is_picked:
        return "NOT INDEXED"
    if query.prefix:
        named = (*_prefix_range(query.prefix), _MAX_SORTED_ROWS)
        (found,) = db.execute(COUNT_BETWEEN, named).fetchone()
        if found < _MAX_SORTED_ROWS:
            return "INDEXED BY sqlite_autoindex_threads_1"  # that of `id UNIQUE`
    return None


def _has_few_runs(db: sqlite3.Connection, agent_id: str) -> bool:
    (found,) = db.execute(COUNT_OF_AGENT, (agent_id, _MAX_SORTED_ROWS)).fetchone()
    return bool(found < _MAX_SORTED_ROWS)


def _scopes(db: sqlite3.Connection, text: str, query: ThreadQuery | TicketQuery) -> list[str]:
    """The scopes of a list: the one that the query names, else all there are."""
    return [scope for (scope,) in db.execute(text)] if query.scope is None else [query.scope]


def _prefix_range(prefix: str) -> tuple[str, str | bytes]:
    """The range of ids with a prefix: its first value, and the first value after it.

    In SQLite, blobs sort after all texts.
    """
    behind = prefix_end(prefix)
    return prefix, b"" if behind is None else behind


def list_runs(
    db: sqlite3.Connection, unreadable: UnreadableRows, query: RunQuery
) -> Page[RunRecord]:
    where, index, order = Where(), "", "pk DESC"
    where.equals("id", query.run_id)
    if query.thread_id is not None:
        where.add("thread = (SELECT pk FROM threads WHERE id = ?)", query.thread_id)
    # A plus keeps SQLite from using an index of that column.
    by_scope = _is_found_by_scope(query)
    where.equals("scope" if by_scope else "+scope", query.scope)
    if by_scope and query.agent_id is not None:
        where.add("scope <> ''")  # as in the index of tenants' runs
    where.equals("agent", query.agent_id)
    where.equals("parent", query.parent_run_id)
    where.equals("user_id", query.user)
    if query.updated_after_ms is not None:
        if _is_narrow(query) or not _has_few_ended(db, query.updated_after_ms):
            where.add("updated_at_ms > ?", query.updated_after_ms)
        else:
            where.add(WRITTEN_AFTER, query.updated_after_ms, query.updated_after_ms)
            index, order = "NOT INDEXED", "+pk DESC"
    if query.ancestor_thread_id is not None:
        where.add(f"thread IN ({BENEATH})", query.ancestor_thread_id)
        order = "+pk DESC"
    if query.status is not None:
        where.equals("status", query.status.value)
        if not query.status.is_terminal:
            where.add("status <> 'done'")  # as in the index of open runs
            order = "+pk DESC"
    if query.kind is RunKind.TASK and _is_wide(query) and not by_scope:
        where.add("kind = 'task'")  # as in the index of tasks, which is in the order of the list
    elif query.kind is not None:
        where.equals("+kind", query.kind.value)
    if (last := parse_cursor(query, int)) is not None:
        where.add("pk < ?", *last)
    rows = db.execute(*where.select(f"{RUN_COLUMNS} FROM runs {index}", order, query)).fetchall()
    heads = [RunRow._make(row) for row in rows[: query.limit]]
    items = ((head.id, head.record) for head in heads)
    end = (heads[-1].pk,) if heads else ()
    return build_page(query, unreadable, RowKind.RUN, rows, items, end)


def _has_few_ended(db: sqlite3.Connection, after_ms: int) -> bool:
    (found,) = db.execute(COUNT_ENDED_AFTER, (after_ms, _MAX_SORTED_ROWS)).fetchone()
    return bool(found < _MAX_SORTED_ROWS)


def _is_narrow(query: RunQuery) -> bool:
    """Whether the query names a run, a thread, a tree, a parent or a user, or asks for open runs:
    few runs."""
    of_one = (query.run_id, query.thread_id, query.parent_run_id, query.user)
    narrowed = (*of_one, query.ancestor_thread_id)
    return _is_open(query) or any(name is not None for name in narrowed)


def _is_found_by_scope(query: RunQuery) -> bool:
    """Whether to look for the runs of a scope. In the default scope, the indexes of agents and of
    tasks leave fewer runs."""
    if _is_narrow(query):
        return False
    return bool(query.scope) or (query.agent_id is None and query.kind is not RunKind.TASK)


def _is_wide(query: RunQuery) -> bool:
    """Whether nothing else in the query leaves few runs to look through."""
    return query.agent_id is None and not _is_narrow(query)


def list_tickets(
    db: sqlite3.Connection, unreadable: UnreadableRows, query: TicketQuery
) -> Page[Ticket]:
    where = Where()
    if query.thread_id is not None:
        where.add("thread = (SELECT pk FROM threads WHERE id = ?)", query.thread_id)
    where.equals("run_id", query.run_id)
    where.equals("key", query.key)
    is_wide = query.thread_id is None and query.run_id is None
    if is_wide:
        where.add(NOT_ASKED_ABOVE)
    asked = "asked_at"
    if query.key is not None:
        asked, is_wide = "+asked_at", False  # one ticket, found by the index of keys
    if query.status is TicketStatus.OPEN:
        where.add("status = 'open'")  # as with runs
        asked, is_wide = "+asked_at", False
    elif query.status is not None:
        where.equals("status", query.status.value)
    if (last := parse_cursor(query, int, int)) is not None:
        where.add(f"({asked} > ? OR ({asked} = ? AND pk > ?))", last[0], *last)
    parts = [where]
    if is_wide:
        scopes = _scopes(db, SCOPES_OF_TICKETS, query)
        parts = [where.and_("scope = ?", scope) for scope in scopes]
    else:
        where.equals("+scope", query.scope)
    columns = "asked_at, pk, key, status, record FROM tickets"
    rows = _merge_parts(db, parts, columns, f"{asked}, pk", query, itemgetter(0, 1))
    return build_ticket_page(query, unreadable, rows)


def _merge_parts(
    db: sqlite3.Connection,
    parts: Sequence[Where],
    columns: str,
    order: str,
    query: Query,
    sort_key: Callable[[tuple[Any, ...]], Any],
) -> list[tuple[Any, ...]]:
    """The rows of a page that is made of several parts, each in the order of `sort_key`, and one
    more row if there is one. Of a part only the rows that the page shows are read."""
    cursors = [db.execute(*part.select(columns, order, query)) for part in parts]
    try:
        return list(islice(merge(*cursors, key=sort_key), query.limit + 1))
    finally:
        for cursor in cursors:
            cursor.close()
