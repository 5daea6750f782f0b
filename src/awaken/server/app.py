"""Assembles the application."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from awaken.domain.principal import Principal
from awaken.front.runtime import Runtime
from awaken.server.endpoint import Endpoint
from awaken.server.errors import answer_to
from awaken.server.observe import observed
from awaken.server.routes import ROUTES
from awaken.server.table import Role


def app(runtime: Runtime) -> Starlette:
    """An application that serves the agents of a runtime, to run or to mount.

    The caller opens the runtime, and keeps it open for as long as the application is served.
    """
    routes = [
        StarletteRoute(route.path, Endpoint(route, runtime), methods=[route.method])
        for route in ROUTES
    ]
    made = Starlette(routes=routes)
    made.add_middleware(Everyone)
    made.add_middleware(ErrorsAsAnswers)
    return observed(made, runtime)


class Everyone:
    """Lets everyone in, as on one's own machine."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["principal"] = Principal(id="local", roles=tuple(Role))
        await self._app(scope, receive, send)


class ErrorsAsAnswers:
    """Answers requests that fail."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        except Exception as error:
            await answer_to(error)(scope, receive, send)
