"""Reads queries and bodies, within their limits."""

from __future__ import annotations

import asyncio
import re
from itertools import accumulate
from typing import Any

import msgspec
from starlette.requests import Request

from awaken.core.storable import explain_json
from awaken.server.errors import HttpRefusal

MAX_DEPTH = 64
BYTES_A_SECOND = 16 * 1024
"""The bytes of a body that have to arrive each second in the long run."""
_TOKEN = "token"
"""The parameter of a query that the edge reads: a stream token."""

_FORMER_FIELDS = {
    "unknown field `overrides`": "write settings: the parameters of the model for this run",
}
"""Hints for fields that a request had in an earlier version."""
_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_STRUCTURE = b'[]{}"'
_OTHERS = bytes(set(range(256)) - set(_STRUCTURE))
_STEP = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


def read_query(request: Request, type_: type[msgspec.Struct] | None) -> Any:
    """The query as `type_`.

    Raises:
        HttpRefusal: a value does not fit its type.
    """
    if type_ is None:
        return None
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise HttpRefusal(400, "bad_query", f"{name!r} is given twice")
        if name != _TOKEN:
            given[name] = value
    try:
        query = msgspec.convert(given, type_, strict=False)
    except msgspec.ValidationError as error:
        raise HttpRefusal(400, "bad_query", str(error)) from None
    for name in given:
        if getattr(query, name) is None:
            raise HttpRefusal(400, "bad_query", f"{name!r} may be left out, but is never null")
    return query


async def read_body(request: Request, type_: Any, limit: int, seconds: float) -> Any:
    """The body as `type_`, or its bytes.

    Reading stops at the limit, or where the JSON is nested too deeply. A body has to arrive within
    `seconds`, and one more for each 16 KiB of it; a piece has `seconds`.

    Raises:
        HttpRefusal: the body is longer than `limit`, is nested too deeply, comes too slowly, or
            does not fit its type.
    """
    if type_ is None:
        return None
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limit:
        raise _too_large(limit)
    body, depth, loop = bytearray(), Depth(), asyncio.get_running_loop()
    began = loop.time()
    try:
        async with asyncio.timeout(seconds) as deadline:
            async for part in request.stream():
                body += part
                if len(body) > limit:
                    raise _too_large(limit)
                depth.add(part)
                whole = began + seconds + len(body) / BYTES_A_SECOND
                deadline.reschedule(min(whole, loop.time() + seconds))
    except TimeoutError:
        raise HttpRefusal(
            408,
            "body_too_slow",
            f"the body did not come within {seconds:g} s, and one more for each 16 KiB of it",
            headers=_CLOSED,
        ) from None
    if type_ is bytes:
        return bytes(body)
    try:
        return msgspec.json.decode(body, type=type_)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        hint = next((hint for name, hint in _FORMER_FIELDS.items() if name in str(error)), None)
        raise HttpRefusal(400, "bad_body", explain_json(body, error), hint=hint) from None


# The connection of a refused body is closed, so that the rest of the body is not read.
_CLOSED = {"connection": "close"}


def _too_large(limit: int) -> HttpRefusal:
    return HttpRefusal(
        413,
        "body_too_large",
        f"the body has more than {limit} bytes",
        hint="send less at once: the page of a chat can send its last message alone",
        headers=_CLOSED,
    )


class Depth:
    """Counts how deeply JSON text is nested, part by part, without parsing it."""

    def __init__(self) -> None:
        self._now = 0
        self._in_text = self._is_escaped = False

    def add(self, part: bytes) -> None:
        """
        Raises:
            HttpRefusal: it is nested too deeply.
        """
        if self._is_escaped:
            part, self._is_escaped = part[1:], not part
        part = _ESCAPED.sub(b"", part)
        if part.endswith(b"\\"):
            self._is_escaped = True
        marks = part.translate(None, _OTHERS)
        for number, between in enumerate(marks.split(b'"')):
            if number:
                self._in_text = not self._in_text
            if self._in_text or not between:
                continue
            depths = list(accumulate(map(_STEP.__getitem__, between), initial=self._now))
            self._now = depths[-1]
            if max(depths) > MAX_DEPTH:
                raise HttpRefusal(
                    400,
                    "nested_too_deeply",
                    f"the body is nested more than {MAX_DEPTH} deep",
                    headers=_CLOSED,
                )
