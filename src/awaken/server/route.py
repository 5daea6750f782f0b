"""The route table: what the server answers, as data.

The server checks requests by the table, and makes the OpenAPI document from it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.types import ASGIApp

from awaken.core.access import KeyRole as KeyRole
from awaken.server.call import ApiCall

JSON_LIMIT = 2 * 1024 * 1024
CHAT_LIMIT = 16 * 1024 * 1024

Handler = Callable[[ApiCall], Awaitable[ASGIApp]]
"""Handles a request. Returns an ASGI application that writes the answer, such as a Starlette
`Response`."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path.

    - `name` is the operation's in the OpenAPI document: generated clients name their functions so.
    - `needs` are the roles of which the caller must have one; none: no key is needed.
    - `query` and `body` are the types that the request is read as. A `body` of `bytes` is handed on
      as it came, to be read by a protocol.
    - `answers` are the types of successful answers by status; `None` has no body.
    - `errors` are the statuses of refusals beyond those that every such route has.
    - `media_type` is that of answers.
    - `streams`: the route may answer with a stream of events.
    - `protocol` is where the protocol is described that the route speaks, if that is not our own.
    - `takes_tokens`: a stream token may be used. The handler has to find every thread that it
      touches by `awaken.server.lookup` or `awaken.server.submit`, which hold the token to its
      thread.
    - `submits`: the route submits a run. A draining server answers 503, as it does for streams of a
      `protocol`.
    - `is_audited`: its requests are recorded in the audit. With `None`, they are unless the method
      is `GET`.
    """

    method: str
    path: str
    handle: Handler
    name: str
    summary: str
    needs: tuple[KeyRole, ...] = ()
    query: type[msgspec.Struct] | None = None
    body: Any = None
    body_limit: int = JSON_LIMIT
    answers: dict[int, Any]
    errors: tuple[int, ...] = ()
    media_type: str = "application/json"
    streams: bool = False
    protocol: str | None = None
    takes_tokens: bool = False
    submits: bool = False
    is_audited: bool | None = None

    @property
    def has_audit(self) -> bool:
        """Whether requests to the route are recorded in the audit."""
        return self.method != "GET" if self.is_audited is None else self.is_audited
