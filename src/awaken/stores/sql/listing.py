"""Lists in pages: the conditions of a query, and the pages of its rows. No database."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Self, TypeVar

from awaken.core.store.threads import Page, TicketQuery
from awaken.core.suspension import Ticket
from awaken.core.unreadable import RowKind
from awaken.errors import InvalidRecord
from awaken.stores.sql.cursors import Query, UnreadableRows, cursor_after, load_ticket

T = TypeVar("T")


class Where:
    """Conditions and their parameters; few combinations, so few statements to prepare."""

    def __init__(self, *conditions: str) -> None:
        self._conditions = list(conditions)
        self._values: list[Any] = []

    def and_(self, condition: str, *values: Any) -> Self:
        """A copy with one more condition."""
        more = type(self)(*self._conditions, condition)
        more._values = [*self._values, *values]
        return more

    def add(self, condition: str, *values: Any) -> None:
        self._conditions.append(condition)
        self._values.extend(values)

    def equals(self, column: str, value: str | bytes | None) -> None:
        if value is not None:
            self.add(f"{column} = ?", value)

    def select(self, columns: str, order: str, query: Query) -> tuple[str, tuple[Any, ...]]:
        """The statement that reads the rows of a page, and one more if there is one; and its
        parameters."""
        if query.limit < 1:
            raise InvalidRecord(f"a page limit of {query.limit} is too small: give 1 or more")
        where = f"WHERE {' AND '.join(self._conditions)}" if self._conditions else ""
        text = f"SELECT {columns} {where} ORDER BY {order} LIMIT ?"
        return text, (*self._values, query.limit + 1)


def build_page(
    query: Query,
    unreadable: UnreadableRows,
    kind: RowKind,
    rows: Sequence[Any],
    items: Iterable[tuple[str, Callable[[], T]]],
    sort_key: tuple[int | str, ...],
) -> Page[T]:
    """The page of a query. `items` decode the rows it shows, by their ids; `sort_key` is that of
    the last of these rows, and empty if there is none."""
    found, left_out = unreadable.collect(kind, items)
    return Page(
        items=found,
        cursor=cursor_after(query, rows, *sort_key) if sort_key else None,
        unreadable=left_out,
    )


def build_ticket_page(
    query: TicketQuery, unreadable: UnreadableRows, rows: Sequence[Any]
) -> Page[Ticket]:
    """A page of rows with a ticket's time, primary key, key, status and record."""
    shown = rows[: query.limit]
    items = ((row[2], partial(load_ticket, *row[2:])) for row in shown)
    end = tuple(shown[-1][:2]) if shown else ()
    return build_page(query, unreadable, RowKind.TICKET, rows, items, end)


def prefix_end(prefix: str) -> str | None:
    """The first text after all that begin with the prefix, in the order of code points, which is
    that of UTF-8; `None` if there is none."""
    start = prefix.rstrip(chr(sys.maxunicode))
    if not start:
        return None
    after = ord(start[-1]) + 1
    if after == 0xD800:
        after = 0xE000  # the code points between are surrogates, which no text has
    return start[:-1] + chr(after)
