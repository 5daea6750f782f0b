"""Assembles the application."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Route as StarletteRoute
from starlette.types import Receive, Scope, Send

from awaken.core.access import AuthMode
from awaken.core.access_store import Access
from awaken.errors import ConfigError
from awaken.runtime.metrics_hooks import RuntimeNews
from awaken.runtime.runtime import Runtime
from awaken.server.auth import Authentication, Everyone, Tokens
from awaken.server.console import Audit, Audited, Pages, Sessions
from awaken.server.edge import Edge, Heads, Step
from awaken.server.endpoint import Endpoint, Resource
from awaken.server.errors import unknown
from awaken.server.health import WriteProbe
from awaken.server.keys import IN_STORE, Authenticator, KeyFile, Keys, StoreKeys
from awaken.server.limits import Connections, Limits, Rates, Shares, Streams
from awaken.server.metrics import PATH as METRICS
from awaken.server.observe import observed
from awaken.server.origins import ANY, LOOPBACK, Hosts, Origins
from awaken.server.route import Route
from awaken.server.routes import ROUTES
from awaken.server.ticket_updates import TicketNews


def app(
    runtime: Runtime,
    *,
    keys: str | os.PathLike[str] | KeyFile | None = None,
    auth: Authenticator | None = None,
    cors_origins: Iterable[str] = (),
    hosts: Iterable[str] | None = None,
    limits: Limits | None = None,
    metrics: bool = True,
) -> Starlette:
    """An application that serves the agents of a runtime, to run or to mount.

    The caller opens the runtime, and keeps it open for as long as the application is served.

    Args:
        keys: a file of keys, made with `awaken keys add`, or `"store"` for the keys in the
            runtime's store. Without `keys` and `auth`, everyone may do everything, and only
            requests to this machine's own names are answered.
        auth: finds out who makes a request, in place of keys.
        cors_origins: the origins whose pages may use the server, such as `https://example.org`;
            `*` is every origin, and needs `keys` or `auth`.
        hosts: the names (without a port) that the server answers to; `*` is every name.
        limits: how much clients may ask at once.
        metrics: false leaves out `/metrics`, which needs no key; `state.observer.metrics.text()`
            gives the same text.

    Raises:
        ConfigError: the key file cannot be read, or the arguments do not go together.
    """
    if keys is not None and auth is not None:
        raise ConfigError("give either keys or auth: each tells who makes a request")
    limits = limits or Limits()
    access = runtime.store.access
    known, auth_mode = _keys(keys, access), AuthMode.OPEN
    if known is not None or auth is not None:
        auth_mode = AuthMode.OWN if known is None else AuthMode.KEYS
    is_open = auth_mode is AuthMode.OPEN
    origins = tuple(cors_origins)
    if ANY in origins and is_open:
        raise ConfigError("pages of every origin (*) may use a server only if it has keys")
    tokens, sessions = Tokens(_Secret(known, access)), Sessions(access, auth_mode, known)
    authentication = Authentication(known or auth or Everyone(), tokens, sessions)
    pages, routes = Pages(), [route for route in ROUTES if metrics or route.path != METRICS]
    steps: list[Step] = [Connections(limits.connections), Heads()]
    if hosts is not None or is_open:
        steps.append(Hosts(LOOPBACK if hosts is None else hosts))
    steps += [Origins(origins), authentication]
    if not is_open:
        steps.append(Shares(limits))
    steps.append(Rates(limits))
    made = Starlette(
        routes=[*_by_path(routes, runtime, limits), *pages.routes()],
        middleware=[Middleware(Edge, steps)],
    )
    made.router.redirect_slashes = False
    made.router.default = _nothing_there
    made.state.tokens, made.state.limits, made.state.routes = tokens, limits, routes
    made.state.keys, made.state.ticket_news = known, TicketNews(RuntimeNews(runtime))
    made.state.sessions, made.state.pages = sessions, pages
    made.state.write_probe = WriteProbe(runtime.engine.clock)
    made.add_middleware(Audited, Audit(access), routes)
    return observed(made, runtime, authentication.is_good)


def _keys(given: str | os.PathLike[str] | KeyFile | None, access: Access) -> Keys | None:
    if given == IN_STORE:
        return StoreKeys(access)
    return KeyFile(given) if isinstance(given, str | os.PathLike) else given


class _Secret:
    """What signs stream tokens: the secret of a key file, else that of the store."""

    def __init__(self, keys: Keys | None, access: Access) -> None:
        self._keys, self._access = keys, access
        self._of_store: str | None = None

    async def __call__(self) -> str:
        of_keys = await self._keys.token_secret() if self._keys is not None else None
        if of_keys is not None:
            return of_keys
        if self._of_store is None:
            self._of_store = await self._access.signing_secret()
        return self._of_store


def _by_path(routes: Sequence[Route], runtime: Runtime, limits: Limits) -> list[StarletteRoute]:
    streams = Streams(limits.streams)
    paths: dict[str, dict[str, Endpoint]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method] = Endpoint(route, runtime, limits, streams)
    return [StarletteRoute(path, Resource(methods)) for path, methods in paths.items()]


async def _nothing_there(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close"})
        return
    raise unknown("path")
