"""One request that has passed the edge, as handlers see it."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from awaken.codec import dumps
from awaken.domain.principal import Principal
from awaken.front.runtime import Runtime
from awaken.server.names import Names


class Call:
    """A request, who makes it, and what it may use.

    `query` and `body` have the types that the route names.
    """

    __slots__ = ("body", "names", "principal", "query", "request", "runtime")

    def __init__(
        self, request: Request, runtime: Runtime, principal: Principal, query: Any, body: Any
    ) -> None:
        self.request, self.runtime, self.principal = request, runtime, principal
        self.query, self.body = query, body
        self.names = Names(principal.scope)

    def path(self, name: str) -> str:
        """A part of the path, as the client wrote it."""
        return str(self.request.path_params[name])


class JsonResponse(Response):
    """An answer in JSON."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return dumps(content)
