"""The audit: a record of what people and programs did through the server, with principal, time and
address.

It has the requests that change something, sign-ins among them, whether they were allowed or not,
and reads that need a special role.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from ipaddress import ip_address

import msgspec
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.access import Deed, Session
from awaken.core.access_store import Access
from awaken.core.identity import Principal
from awaken.errors import AwakenError
from awaken.server.edge import CLIENT_LEFT, own_path
from awaken.server.route import Route

NOTE_SECONDS = 1.0
"""Seconds for which an answer waits until its deed is stored."""
MAX_ANONYMOUS_DEEDS = 60
"""The most deeds without a principal that are stored in a minute."""
SESSION_ID_CHARACTERS = 16
"""The characters of a session's id that a deed has: enough to tell sessions apart."""
MAX_CHARACTERS = 200
"""The most characters of a path and of an id that are stored: clients choose them."""
log = logging.getLogger("awaken.server.audit")


class Audit:
    """Stores deeds, for all nodes, and logs each by the logger `awaken.server.audit`.

    Deeds without a principal are stored as well, but only some each minute: strangers must not be
    able to fill the store. All of them are logged.
    """

    def __init__(self, access: Access, clock: Clock = SYSTEM_CLOCK) -> None:
        self._access, self._clock = access, clock
        self._minute, self._anonymous = 0, 0

    async def note(self, deed: Deed) -> None:
        """Log a deed, and store it. If the store is unavailable or takes too long, the deed may be
        in the log alone."""
        log.info(
            "%s %s %s from %s: %d",
            deed.who or "no one",
            deed.method,
            deed.route,
            deed.address,
            deed.status,
            extra={"facts": msgspec.structs.asdict(deed)},
        )
        if deed.who or self._admit_anonymous():
            try:
                async with asyncio.timeout(NOTE_SECONDS):
                    await self._access.note_deed(deed)
            except TimeoutError:
                log.error("a deed is in the log, and not yet in the store: it takes too long")
            except AwakenError as error:
                log.error("a deed is in the log alone, not in the store: %s", error)

    def _admit_anonymous(self) -> bool:
        """Count a deed without a principal. Returns whether it may be stored in this minute."""
        minute = int(self._clock.monotonic() // 60)
        if minute != self._minute:
            self._minute, self._anonymous = minute, 0
        self._anonymous += 1
        return self._anonymous <= MAX_ANONYMOUS_DEEDS


class AuditMiddleware:
    """Records the requests that pass through it."""

    def __init__(
        self, app: ASGIApp, audit: Audit, routes: Sequence[Route], clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._app, self._audit, self._clock = app, audit, clock
        self._routes = [(route, compile_path(route.path)[0]) for route in routes]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not own_path(scope).startswith("/v1/"):
            await self._app(scope, receive, send)
            return
        is_answered = False

        async def send_on(message: Message) -> None:
            nonlocal is_answered
            if message["type"] == "http.response.start":
                is_answered = True
                # Before the answer is sent: a request whose client got an answer is recorded.
                if self._is_audited(scope):
                    await self._audit.note(self._build_deed(scope, message["status"]))
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        finally:
            if not is_answered and self._is_audited(scope):
                await self._audit.note(self._build_deed(scope, CLIENT_LEFT))

    def _is_audited(self, scope: Scope) -> bool:
        """Whether a request is recorded: as its route says, also if it was refused before."""
        is_audited: bool | None = scope.get("is_audited")
        if is_audited is not None:
            return is_audited
        path = own_path(scope)
        for route, pattern in self._routes:
            if route.method == scope["method"] and pattern.match(path):
                return route.has_audit
        return scope["method"] not in ("GET", "HEAD", "OPTIONS")

    def _build_deed(self, scope: Scope, status: int) -> Deed:
        principal: Principal | None = scope.get("principal")
        session: Session | None = scope.get("session")
        client = scope.get("client")
        return Deed(
            at=self._clock.now_ms(),
            who=principal.id if principal is not None else "",
            scope=principal.scope if principal is not None else "",
            method=scope["method"],
            route=str(getattr(scope.get("route"), "path", scope["path"]))[:MAX_CHARACTERS],
            on=_on(scope),
            status=status,
            address=_address(client),
            session=session.id[:SESSION_ID_CHARACTERS] if session is not None else None,
            request_id=scope.get("request_id"),
        )


def _address(client: tuple[str, int] | None) -> str:
    """The address of a client. A proxy may have passed on what the client wrote, so other texts are
    dropped."""
    try:
        return str(ip_address(client[0].partition("%")[0])) if client else ""
    except ValueError:
        return ""


def _on(scope: Scope) -> dict[str, str]:
    """The ids in the path, and the id of the run that was submitted."""
    params = scope.get("path_params", {}).items()
    on = {name: str(value)[:MAX_CHARACTERS] for name, value in params}
    return {**on, "run": scope["submitted_run"]} if "submitted_run" in scope else on
