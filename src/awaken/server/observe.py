"""What is known about the requests of an application while it is served."""

from __future__ import annotations

import re
from typing import Any

from starlette.applications import Starlette
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from awaken.clock import SYSTEM_CLOCK
from awaken.core.principal import Principal
from awaken.ids import UUID7
from awaken.runtime.runtime import Runtime
from awaken.server.edge import CLIENT_LEFT
from awaken.server.logs import requests
from awaken.server.metrics import Metrics
from awaken.server.open_streams import IsGood, OpenStreams

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:@=+/-]{1,128}")
_UNKNOWN = "unknown"


class Observer:
    """Counts requests and streams of one application, and logs each request when it is over."""

    def __init__(self, runtime: Runtime, is_good: IsGood) -> None:
        self.streams = OpenStreams(is_good)
        self.metrics = Metrics(runtime, self.streams)

    def note(self, scope: Scope, status: int, seconds: float) -> None:
        """A request is over."""
        route: str = getattr(scope.get("route"), "path", _UNKNOWN)
        method: str = scope["method"]
        self.metrics.request(route, method, status, seconds)
        principal: Principal | None = scope.get("principal")
        facts: dict[str, Any] = {
            "request_id": scope["request_id"],
            "method": method,
            "path": scope["path"],
            "route": route,
            "status": status,
            "seconds": round(seconds, 6),
            "scope": principal.scope if principal else None,
            "principal": principal.id if principal else None,
            "run": scope.get("submitted_run") or scope.get("path_params", {}).get("run"),
        }
        requests.info(
            "%s %s %d %.0f ms",
            method,
            scope["path"],
            status,
            seconds * 1000,
            extra={"facts": facts},
        )


class Observed:
    """Gives each request its id, and tells the observer how it went."""

    def __init__(self, app: ASGIApp, observer: Observer) -> None:
        self._app, self._observer = app, observer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["streams"] = self._observer.streams
        scope["request_id"] = request_id = _request_id(scope)
        began, status = SYSTEM_CLOCK.monotonic(), CLIENT_LEFT

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-request-id", request_id.encode()),
                ]
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        finally:
            self._observer.note(scope, status, SYSTEM_CLOCK.monotonic() - began)


def _request_id(scope: Scope) -> str:
    """The id that the client has given to the request, else a new one."""
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    text: str = given.decode("latin-1")
    return text if _REQUEST_ID.fullmatch(text) else UUID7.new()


def observed(application: Starlette, runtime: Runtime, is_good: IsGood) -> Starlette:
    """The application, with an observer in its `state.observer`. `is_good` says whether the pass of
    an open stream is still good."""
    application.state.observer = observer = Observer(runtime, is_good)
    application.add_middleware(Observed, observer)
    return application
