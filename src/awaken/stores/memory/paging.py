"""Lists in pages, and a sorted list in which adding and removing cost the same at any length.

A cursor holds the sort key of a page's last item, and is valid for one list only.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Generic, TypeVar

import msgspec

from awaken.codec import digest, dumps, loads
from awaken.core.store.threads import Page, RunQuery, ThreadQuery, TicketQuery
from awaken.errors import InvalidRecord

R = TypeVar("R")
T = TypeVar("T")
Query = RunQuery | ThreadQuery | TicketQuery
SortKey = tuple[int, str, str]
"""The sort key of an item in its list; the first item has the lowest."""


def cut_page(rows: Iterable[tuple[SortKey, R]], query: Query, show: Callable[[R], T]) -> Page[T]:
    """The page that `query` asks for, from all rows that match its filter, in any order."""
    start = parse_cursor(query)
    rest = sorted((row for row in rows if start is None or row[0] > start), key=itemgetter(0))
    return first_page(rest, query, show)


def first_page(rows: Iterable[tuple[SortKey, R]], query: Query, show: Callable[[R], T]) -> Page[T]:
    """A page of rows that are in order and start after the query's cursor."""
    if query.limit < 1:
        raise InvalidRecord(f"a page limit of {query.limit} is too small: give 1 or more")
    some = list(islice(rows, query.limit + 1))
    is_last = len(some) <= query.limit
    del some[query.limit :]
    return Page(
        items=tuple(show(row) for _, row in some),
        cursor=None if is_last else _write(query, some[-1][0]),
    )


def parse_cursor(query: Query) -> SortKey | None:
    """The sort key of the last item of the previous page, or `None` without a cursor.

    Raises:
        InvalidRecord: the cursor does not belong to this query.
    """
    return _read(query) if query.cursor is not None else None


def _write(query: Query, sort_key: SortKey) -> str:
    """A cursor that is valid only for this list; the size of the pages may change."""
    every = msgspec.structs.replace(query, cursor=None, limit=0)
    seal = digest((type(query).__name__, every, sort_key))
    return urlsafe_b64encode(dumps((seal, sort_key))).decode()


def _read(query: Query) -> SortKey:
    try:
        _, sort_key = loads(urlsafe_b64decode(query.cursor or ""), tuple[str, SortKey])
    except (ValueError, msgspec.DecodeError):
        sort_key = None
    if sort_key is None or query.cursor != _write(query, sort_key):
        raise InvalidRecord(
            f"cursor {query.cursor!r} does not belong to this list: start without one"
        )
    return sort_key


Sortable = TypeVar("Sortable", str, tuple[int, str])

_MAX_CHUNK = 1000


class Ordered(Generic[Sortable]):
    """A sorted list split into chunks: a change moves the rest of its chunk only."""

    def __init__(self) -> None:
        self._chunks: list[list[Sortable]] = [[]]
        self._firsts: list[Sortable] = []
        """The first value of each chunk but the first; finds the chunk of a value."""

    def add(self, value: Sortable) -> None:
        at = bisect_right(self._firsts, value)
        chunk = self._chunks[at]
        insort(chunk, value)
        if len(chunk) > _MAX_CHUNK:
            half = chunk[_MAX_CHUNK // 2 :]
            del chunk[_MAX_CHUNK // 2 :]
            self._chunks.insert(at + 1, half)
            self._firsts.insert(at, half[0])

    def remove(self, value: Sortable) -> None:
        at = bisect_right(self._firsts, value)
        chunk = self._chunks[at]
        del chunk[bisect_left(chunk, value)]
        if not chunk and self._firsts:
            del self._chunks[at]
            del self._firsts[max(at - 1, 0)]

    def after(self, value: Sortable | None) -> Iterator[Sortable]:
        """The values greater than `value`, in order; all values if it is `None`."""
        if value is None:
            at = start = 0
        else:
            at = bisect_right(self._firsts, value)
            start = bisect_right(self._chunks[at], value)
        yield from islice(self._chunks[at], start, None)
        for chunk in islice(self._chunks, at + 1, None):
            yield from chunk
