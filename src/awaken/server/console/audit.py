"""The audit: what people and programs did through the server, with who, when, and from where.

Written down are requests that change something, sign-ins among them, whether they were allowed or
not, and reads of what only some may see.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import dumps, loads
from awaken.domain.principal import Principal
from awaken.server.edge import CLIENT_LEFT

KEPT = 1_000
_READS = ("/request", "/state", "/export")
"""The ends of paths whose reads are written down as well."""
_CHANGES_NOTHING = ("/v1/tokens", "/arguments")
log = logging.getLogger("awaken.server.audit")


class Deed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request: when (in milliseconds), who made it, from which address and session, what it
    asked for (`method` and the `route`, with the ids of its path in `on`), and its status."""

    at: int
    who: str
    scope: str
    method: str
    route: str
    on: dict[str, str]
    status: int
    address: str
    session: str | None = None
    request_id: str | None = None


class Audit:
    """Keeps the last thousand deeds, and appends all of them to a file if it is given one.

    Each deed is logged, too, by the logger `awaken.server.audit`.
    """

    def __init__(self, file: str | os.PathLike[str] | None = None) -> None:
        self._file = Path(file) if file is not None else None
        self._deeds: deque[Deed] = deque(self._read(), maxlen=KEPT)

    def _read(self) -> Iterator[Deed]:
        if self._file is None or not self._file.exists():
            return
        with self._file.open("rb") as lines:
            for line in deque(lines, maxlen=KEPT):
                yield loads(line, Deed)

    def note(self, deed: Deed) -> None:
        """Write a deed down."""
        self._deeds.append(deed)
        log.info(
            "%s %s %s from %s: %d",
            deed.who or "no one",
            deed.method,
            deed.route,
            deed.address,
            deed.status,
            extra={"facts": msgspec.structs.asdict(deed)},
        )
        if self._file is not None:
            fd = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(fd, dumps(deed) + b"\n")
            finally:
                os.close(fd)

    def newest(self, scope: str, limit: int) -> list[Deed]:
        """The last deeds in a scope, newest first."""
        found = (deed for deed in reversed(self._deeds) if deed.scope == scope)
        return [deed for deed, _ in zip(found, range(limit), strict=False)]


class Audited:
    """Notes the requests that pass through it."""

    def __init__(self, app: ASGIApp, audit: Audit, clock: Clock = SYSTEM_CLOCK) -> None:
        self._app, self._audit, self._clock = app, audit, clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not _is_noted(scope):
            await self._app(scope, receive, send)
            return
        status = CLIENT_LEFT

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        finally:
            self._audit.note(self._deed(scope, status))

    def _deed(self, scope: Scope, status: int) -> Deed:
        principal: Principal | None = scope.get("principal")
        session = scope.get("session")
        client = scope.get("client")
        return Deed(
            at=self._clock.now_ms(),
            who=principal.id if principal is not None else "",
            scope=principal.scope if principal is not None else "",
            method=scope["method"],
            route=str(getattr(scope.get("route"), "path", scope["path"])),
            on={name: str(value) for name, value in scope.get("path_params", {}).items()},
            status=status,
            address=client[0] if client else "",
            session=session.session if session is not None else None,
            request_id=scope.get("request_id"),
        )


def _is_noted(scope: Scope) -> bool:
    if scope["type"] != "http" or not scope["path"].startswith("/v1/"):
        return False
    if scope["method"] in ("GET", "HEAD", "OPTIONS"):
        return str(scope["path"]).endswith(_READS)
    # A page makes a token for every stream; it allows no more than its maker may do anyway.
    return not str(scope["path"]).endswith(_CHANGES_NOTHING)
