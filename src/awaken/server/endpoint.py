"""From a request to its handler: permission, query, body, in this order."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from awaken.domain.principal import Principal
from awaken.front.runtime import Runtime
from awaken.server.bodies import read_body, read_query
from awaken.server.call import Call
from awaken.server.errors import Refused
from awaken.server.table import Role, Route


class Endpoint:
    """Answers the requests to one route."""

    def __init__(self, route: Route, runtime: Runtime) -> None:
        self._route, self._runtime = route, runtime

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._route
        principal: Principal = scope["principal"]
        _check_role(principal, route.needs)
        if route.submits and self._runtime.is_draining:
            raise Refused(503, "draining", "this server is about to end: try again in a second")
        request = Request(scope, receive)
        query: Any = read_query(request, route.query)
        body: Any = await read_body(request, route.body, route.body_limit)
        call = Call(request, self._runtime, principal, query, body)
        answer = await route.handle(call)
        await answer(scope, receive, send)


def _check_role(principal: Principal, needed: tuple[Role, ...]) -> None:
    if needed and not set(needed) & set(principal.roles):
        names = " or ".join(sorted(needed))
        raise Refused(403, "missing_role", f"this needs the role {names}")
