"""The edge: what a request passes before it is routed, one small step after the other.

The step here, `RepeatedHeaders`, refuses requests whose head can be read in two ways.
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
from awaken.server.errors import RequestRefused, to_error_response, to_plain_text

log = logging.getLogger("awaken.server")

CLIENT_LEFT = 499
"""What logs and figures have for the status of a request whose client left before any answer."""
_PLAIN_TEXT_PATH = "/v1/ai-sdk/"
"""The AI SDK's client shows the text of an error's answer to people."""

LINGER_SECONDS = 2.0
LINGER_BYTES = 16 * 1024 * 1024
"""How long, and how much, a client whose body was refused may go on to send."""


class Edge:
    """Passes requests through its steps, and answers those that fail, there or further on."""

    def __init__(self, app: ASGIApp, steps: Sequence[EdgeStep]) -> None:
        self._app, self._steps = app, steps

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = EdgeRequest(scope)
        has_begun = False

        async def send_on(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
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
                if has_begun:
                    # The connection is cut, which tells the client that there would be more.
                    log.exception("an answer broke off")
                    return
                known = request.principal
                ids = ClientIds(known.scope) if known is not None else None
                told = to_error_response(error, ids)
                answer = to_plain_text(told) if _PLAIN_TEXT_PATH in scope["path"] else told
                if answer.headers.get("connection") == "close":
                    await _answer_last(answer, receive, send_on)
                else:
                    await answer(scope, receive, send_on)


async def _answer_last(answer: Response, receive: Receive, send: Send) -> None:
    """Answer, and close the connection a moment later. What the client still sends until then is
    read and dropped: a connection that is closed while its client sends would lose the answer."""
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
            Refused: the request goes no further.
        """
        ...


class EdgeRequest:
    """The head of a request on its way through the edge, and what the steps make of it.

    - `answer` ends the request if a step sets it: it is a preflight.
    - `answer_headers` go out with the answer, whatever that is.
    - `cleanup` is given back when the answer is over.
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
        """Who makes the request, once that is known."""
        principal: Principal | None = self.scope.get("principal")
        return principal


_UNIQUE_HEADERS = frozenset({b"host", b"origin", b"last-event-id", b"idempotency-key", b"if-match"})
"""Headers that decide something. Given twice, a proxy and this server could each go by another."""


class RepeatedHeaders:
    """Refuses requests that give a header twice which they may give once."""

    async def check(self, request: EdgeRequest) -> None:
        seen = set[bytes]()
        for name, _ in request.scope["headers"]:
            if name in _UNIQUE_HEADERS:
                if name in seen:
                    raise RequestRefused(400, "bad_header", f"{name.decode()!r} is given twice")
                seen.add(name)


def own_path(scope: Scope) -> str:
    """The path of a request, wherever the application is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))
