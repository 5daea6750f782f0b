"""Calls the handler of a routed request, after the checks of permission, query and body, in this
order."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from awaken.core.identity import Principal
from awaken.runtime.runtime import Runtime
from awaken.server.call import ApiCall
from awaken.server.errors import HttpRefusal, authentication_error
from awaken.server.limits import Limits, StreamLimit
from awaken.server.parsing import read_body, read_query
from awaken.server.route import KeyRole, Route

ANONYMOUS = Principal(id="")
"""The principal of requests without a key, to routes that need none."""


class Endpoint:
    """Answers the requests to one route."""

    def __init__(
        self, route: Route, runtime: Runtime, limits: Limits, streams: StreamLimit
    ) -> None:
        self._route, self._runtime = route, runtime
        self._limits, self._streams = limits, streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._route
        scope["is_audited"] = route.has_audit
        principal = authorize(route, scope)
        if self._runtime.is_draining:
            if not _is_served_while_draining(route):
                raise HttpRefusal(
                    503,
                    "draining",
                    "this server is about to end: try again in a second",
                    headers={"retry-after": "1", "connection": "close"},
                )
            send = _close_after_answer(send)
        request = Request(scope, receive)
        query = read_query(request, route.query)
        body = await read_body(request, route.body, route.body_limit, self._limits.body_seconds)
        answer = await route.handle(ApiCall(request, self._runtime, principal, query, body))
        if isinstance(answer, Response):
            await answer(scope, receive, send)
            return
        with self._streams.count(principal.scope):
            await answer(scope, receive, send)


def _is_served_while_draining(route: Route) -> bool:
    """Whether a draining server still answers requests to a route.

    Runs are refused, and so are streams of protocols whose clients would have to ask again. Streams
    of `/v1` are opened, though they may end at once: an `EventSource` reconnects after a stream
    that ends, and never after a refusal.
    """
    return not (route.submits or (route.streams and route.protocol is not None))


def _close_after_answer(send: Send) -> Send:
    """Close the connection after the answer: the client opens a new one for its next request, which
    goes to a server that is not draining."""

    async def send_on(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)["connection"] = "close"
        await send(message)

    return send_on


def authorize(route: Route, scope: Scope) -> Principal:
    """The principal of a request, if it may use the route.

    Raises:
        HttpRefusal: the route needs a key, another role, or does not take stream tokens.
    """
    principal: Principal | None = scope.get("principal")
    if not route.needs:
        return principal or ANONYMOUS
    if principal is None:
        raise authentication_error("this needs a key")
    if KeyRole.ADMIN not in principal.roles and not set(route.needs) & set(principal.roles):
        names = " or ".join(sorted(route.needs))
        raise HttpRefusal(403, "missing_role", f"this needs the role {names}")
    if scope.get("token_thread") is not None and not route.takes_tokens:
        raise HttpRefusal(403, "not_with_a_token", "a stream token is good for its thread only")
    return principal


class Resource:
    """Answers the requests to one path, by their method."""

    def __init__(self, methods: Mapping[str, Endpoint]) -> None:
        self._methods = dict(methods)
        self._allowed = ", ".join(sorted(self._methods))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        endpoint = self._methods.get(method)
        if endpoint is None:
            raise HttpRefusal(
                405,
                "method_not_allowed",
                f"this path takes {self._allowed}",
                headers={"allow": self._allowed},
            )
        await endpoint(scope, receive, send)
