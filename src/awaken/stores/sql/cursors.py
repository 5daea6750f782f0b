"""The cursors of lists: each holds the place of a page's last row, and is valid for one query."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import msgspec

from awaken.codec import digest, dumps, loads, to_json
from awaken.core.store.threads import RunQuery, ThreadQuery, TicketQuery
from awaken.errors import InvalidRecord

_replace = msgspec.structs.replace
Query = RunQuery | ThreadQuery | TicketQuery


def cursor_after(query: Query, rows: Sequence[Any], *place: int | str) -> str | None:
    """The cursor of a page that ends at `place`, or `None` if `rows` has no row behind the page."""
    if len(rows) <= query.limit:
        return None
    return base64.urlsafe_b64encode(dumps([_name(query), *place])).decode()


def place_of_cursor(query: Query, *types: type) -> list[Any] | None:
    """The place where the previous page ended, or `None` without a cursor.

    Raises:
        InvalidRecord: the cursor does not belong to this query.
    """
    if query.cursor is None:
        return None
    try:
        text = base64.b64decode(query.cursor, b"-_", validate=True)
        name, *place = loads(text, list[int | str])
    except (ValueError, msgspec.DecodeError) as error:
        raise InvalidRecord(f"{query.cursor!r} is not a cursor: use the one a page gave") from error
    if (
        name != _name(query)
        or [type(value) for value in place] != list(types)
        or not all(abs(value) < 2**63 for value in place if isinstance(value, int))
    ):
        raise InvalidRecord(
            f"cursor {query.cursor!r} belongs to another list: use it with the query that gave it"
        )
    return list(place)


def _name(query: Query) -> str:
    """A digest of the query without cursor and limit: the size of the pages may change."""
    asked = to_json(_replace(query, limit=1, cursor=None))
    return digest([type(query).__name__, asked])
