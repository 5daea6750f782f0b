"""Reading queries and bodies, within their limits."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request

from awaken.server.errors import Refused

MAX_DEPTH = 64


def read_query(request: Request, type_: type[msgspec.Struct] | None) -> Any:
    """The query as `type_`.

    Raises:
        Refused: a value does not fit its type.
    """
    if type_ is None:
        return None
    try:
        return msgspec.convert(dict(request.query_params), type_, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(400, "bad_query", str(error)) from None


async def read_body(request: Request, type_: Any, limit: int) -> Any:
    """The body as `type_`, or its bytes.

    Raises:
        Refused: the body is longer than `limit`, or does not fit its type.
    """
    if type_ is None:
        return None
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > limit:
            raise Refused(413, "body_too_large", f"the body has more than {limit} bytes")
    if type_ is bytes:
        return bytes(body)
    try:
        return msgspec.json.decode(body, type=type_)
    except msgspec.DecodeError as error:
        raise Refused(400, "bad_body", str(error)) from None
