"""`app` builds the application: the edge, the routes and the console."""

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
from awaken.runtime.metrics_hooks import RuntimeCallbacks
from awaken.runtime.runtime import Runtime
from awaken.server.auth import AllowAll, Authentication, Tokens
from awaken.server.console import Audit, AuditMiddleware, Pages, Sessions
from awaken.server.edge import Edge, EdgeStep, RepeatedHeaders
from awaken.server.endpoint import Endpoint, Resource
from awaken.server.errors import not_found_error
from awaken.server.health import WriteProbe
from awaken.server.keys import IN_STORE, Authenticator, KeyFile, Keys, StoreKeys
from awaken.server.limits import ConnectionLimit, Limits, RateLimit, ShareLimit, StreamLimit
from awaken.server.metrics import PATH as METRICS
from awaken.server.observe import add_observer
from awaken.server.origins import ANY, LOOPBACK, Hosts, Origins
from awaken.server.route import Route
from awaken.server.routes import ROUTES
from awaken.server.ticket_updates import TicketUpdates


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
            runtime's store. Without `keys` and `auth`, every client may do everything, and
            only requests to this machine's own names are answered.
        auth: authenticates requests, in place of keys.
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
    key_source, auth_mode = _build_keys(keys, access), AuthMode.OPEN
    if key_source is not None or auth is not None:
        auth_mode = AuthMode.OWN if key_source is None else AuthMode.KEYS
    is_open = auth_mode is AuthMode.OPEN
    origins = tuple(cors_origins)
    if ANY in origins and is_open:
        raise ConfigError("pages of every origin (*) may use a server only if it has keys")
    tokens, sessions = Tokens(_Secret(key_source, access)), Sessions(access, auth_mode, key_source)
    authentication = Authentication(key_source or auth or AllowAll(), tokens, sessions)
    pages, routes = Pages(), [route for route in ROUTES if metrics or route.path != METRICS]
    steps: list[EdgeStep] = [ConnectionLimit(limits.connections), RepeatedHeaders()]
    if hosts is not None or is_open:
        steps.append(Hosts(LOOPBACK if hosts is None else hosts))
    steps += [Origins(origins), authentication]
    if not is_open:
        steps.append(ShareLimit(limits))
    steps.append(RateLimit(limits))
    application = Starlette(
        routes=[*_build_routes(routes, runtime, limits), *pages.routes()],
        middleware=[Middleware(Edge, steps)],
    )
    application.router.redirect_slashes = False
    application.router.default = _raise_not_found
    state = application.state
    state.tokens, state.limits, state.routes = tokens, limits, routes
    state.keys, state.ticket_updates = key_source, TicketUpdates(RuntimeCallbacks(runtime))
    state.sessions, state.pages = sessions, pages
    state.write_probe = WriteProbe(runtime.engine.clock)
    application.add_middleware(AuditMiddleware, Audit(access), routes)
    return add_observer(application, runtime, authentication.is_valid)


def _build_keys(source: str | os.PathLike[str] | KeyFile | None, access: Access) -> Keys | None:
    if source == IN_STORE:
        return StoreKeys(access)
    return KeyFile(source) if isinstance(source, str | os.PathLike) else source


class _Secret:
    """Loads the secret that signs stream tokens: that of the key file if it has one, else that of
    the store."""

    def __init__(self, keys: Keys | None, access: Access) -> None:
        self._keys, self._access = keys, access
        self._stored_secret: str | None = None

    async def __call__(self) -> str:
        of_keys = await self._keys.token_secret() if self._keys is not None else None
        if of_keys is not None:
            return of_keys
        if self._stored_secret is None:
            self._stored_secret = await self._access.signing_secret()
        return self._stored_secret


def _build_routes(
    routes: Sequence[Route], runtime: Runtime, limits: Limits
) -> list[StarletteRoute]:
    streams = StreamLimit(limits.streams)
    paths: dict[str, dict[str, Endpoint]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method] = Endpoint(route, runtime, limits, streams)
    return [StarletteRoute(path, Resource(methods)) for path, methods in paths.items()]


async def _raise_not_found(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close"})
        return
    raise not_found_error("path")
