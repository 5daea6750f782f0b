"""Hosts and origins: which names the server answers to, and which pages may use it."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response

from awaken.server.edge import EdgeRequest
from awaken.server.errors import RequestRefused

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""The names of one's own machine. A page of a foreign site can have its own name lead to it, but
cannot have the browser send one of these as `Host`."""

ANY = "*"
_LINK = ("navigate", "document")
_METHODS = "GET, POST, PATCH, DELETE"
_EXPOSED = "etag, retry-after, x-awaken-error, x-request-id, location"


class Hosts:
    """Refuses requests to names that are not the server's. An address is no name: a page has one of
    its own as `Host` only if it comes from there."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(name.lower() for name in names)

    async def check(self, request: EdgeRequest) -> None:
        host = request.headers.get("host", "")
        name = _name_of(host)
        if ANY not in self._names and name not in self._names and not _is_address(name):
            raise RequestRefused(
                403,
                "foreign_host",
                f"this server does not answer to the host {host[:100]!r}",
                hint="name the host with --allow-host, or use keys",
            )


class Origins:
    """Refuses pages of origins that are not listed, and tells browsers which are."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self._allowed = frozenset(origin.rstrip("/").lower() for origin in allowed)

    async def check(self, request: EdgeRequest) -> None:
        asked = request.headers
        origin = asked.get("origin")
        if origin is None:
            self._check_site(asked)
            return
        is_listed = ANY in self._allowed or origin.lower() in self._allowed
        if not is_listed and not _is_own(origin, asked.get("host", "")):
            raise RequestRefused(
                403,
                "foreign_origin",
                f"pages of {origin[:200]!r} may not use this server",
                hint="name the origin with --cors-origin",
            )
        if is_listed:
            request.answer_headers |= {
                "access-control-allow-origin": origin,
                "access-control-expose-headers": _EXPOSED,
                "vary": "Origin",
            }
        if request.scope["method"] == "OPTIONS" and "access-control-request-method" in asked:
            request.answer = Response(
                status_code=204,
                headers={
                    "access-control-allow-methods": _METHODS,
                    "access-control-allow-headers": asked.get("access-control-request-headers", ""),
                    "access-control-max-age": "600",
                },
            )

    def _check_site(self, asked: Headers) -> None:
        """Browsers send no `Origin` for some requests of other pages, but say that they are. A link
        that leads here is no such request."""
        is_foreign = asked.get("sec-fetch-site") in ("cross-site", "same-site")
        is_link = (asked.get("sec-fetch-mode"), asked.get("sec-fetch-dest")) == _LINK
        if is_foreign and not is_link and ANY not in self._allowed:
            raise RequestRefused(
                403,
                "foreign_origin",
                "pages of other sites may not use this server",
                hint="name the origin with --cors-origin",
            )


def _name_of(host: str) -> str:
    """The name in a `Host` header, without the port."""
    if host.startswith("["):
        return host.partition("]")[0].lower() + "]"
    return host.partition(":")[0].lower()


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _is_own(origin: str, host: str) -> bool:
    """Whether the page comes from this server. The scheme is not compared: a proxy may have taken
    the TLS off."""
    try:
        return bool(host) and urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False
