"""The edge: the checks that each request passes before it is routed.

`Edge` runs them in order, and turns errors into answers. One check is here: `RepeatedHeaders`
refuses requests whose headers can be read in two ways. The others are in `limits`, `origins` and
`auth`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Protocol

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from awaken.core.identity import Principal
from awaken.server.client_ids import ClientIds
from awaken.server.errors import HttpRefusal, to_error_response, to_plain_text

log = logging.getLogger("awaken.server")

CLIENT_LEFT = 499
"""The status, in logs and metrics, of a request whose client left before any answer."""
_PLAIN_TEXT_PATH = "/v1/ai-sdk/"
"""Errors below this path are answered with plain text: the AI SDK's client shows the text to
people."""

LINGER_SECONDS = 2.0
LINGER_BYTES = 16 * 1024 * 1024
"""How many seconds, and how many bytes, a client may go on sending after its body was refused."""


class Edge:
    """Runs each request through the steps, and answers requests that fail in a step or in the
    application."""

    def __init__(self, app: ASGIApp, steps: Sequence[EdgeStep]) -> None:
        self._app, self._steps = app, steps

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = EdgeRequest(scope)
        has_started = False

        async def send_on(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                MutableHeaders(scope=message).update(request.answer_headers)
            await send(message)

        with request.cleanup:
            try:
                for step in self._steps:
                    await step.check(request)
                    if request.answer is not None:
                        break
                await (request.answer or self._app)(scope, receive, send_on)
            except ClientDisconnect:
                pass
            except Exception as error:
                if has_started:
                    # The connection is closed: the client sees that the answer is not complete.
                    log.exception("an answer broke off")
                    return
                principal = request.principal
                ids = ClientIds(principal.scope) if principal is not None else None
                response = to_error_response(error, ids)
                answer = to_plain_text(response) if _PLAIN_TEXT_PATH in scope["path"] else response
                if answer.headers.get("connection") == "close":
                    await _answer_last(answer, receive, send_on)
                else:
                    await answer(scope, receive, send_on)


async def _answer_last(answer: Response, receive: Receive, send: Send) -> None:
    """Send an answer, and close the connection a moment later. Bytes that the client sends until
    then are dropped: if a connection is closed while its client sends, the client loses the answer.
    """
    start = {"status": answer.status_code, "headers": answer.raw_headers}
    await send({"type": "http.response.start", **start})
    await send({"type": "http.response.body", "body": answer.body, "more_body": True})
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            left = LINGER_BYTES
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body"):
                    break
    await send({"type": "http.response.body", "body": b"", "more_body": False})


class EdgeStep(Protocol):
    """One check of the edge."""

    async def check(self, request: EdgeRequest) -> None:
        """
        Raises:
            HttpRefusal: the request goes no further.
        """
        ...


class EdgeRequest:
    """The head of a request, and what the steps of the edge have set.

    - `answer`: a step sets it to answer the request itself, such as a preflight.
    - `answer_headers` are added to the answer, whatever it is.
    - `cleanup` has the callbacks that run when the answer is over.
    """

    __slots__ = ("answer", "answer_headers", "cleanup", "headers", "scope")

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.headers = Headers(scope=scope)
        self.answer: Response | None = None
        self.answer_headers: dict[str, str] = {"x-content-type-options": "nosniff"}
        self.cleanup = ExitStack()

    @property
    def principal(self) -> Principal | None:
        """The principal that makes the request; `None` before it is authenticated, or without a
        key."""
        principal: Principal | None = self.scope.get("principal")
        return principal


_UNIQUE_HEADERS = frozenset({b"host", b"origin", b"last-event-id", b"idempotency-key", b"if-match"})
"""Headers that may occur once. If one occurred twice, a proxy and this server could each obey
another of the two."""


class RepeatedHeaders:
    """Refuses requests that repeat one of `_UNIQUE_HEADERS`."""

    async def check(self, request: EdgeRequest) -> None:
        seen = set[bytes]()
        for name, _ in request.scope["headers"]:
            if name in _UNIQUE_HEADERS:
                if name in seen:
                    raise HttpRefusal(400, "bad_header", f"{name.decode()!r} is given twice")
                seen.add(name)


def own_path(scope: Scope) -> str:
    """The path of a request, without the prefix under which the application is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))
