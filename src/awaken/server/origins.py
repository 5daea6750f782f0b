"""Hosts and origins: which names the server answers to, and which pages may use it."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response

from awaken.server.edge import EdgeRequest
from awaken.server.errors import HttpRefusal

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""The names of this machine. A foreign site can make its own name point to this machine, but its
pages cannot make a browser send one of these names as `Host`."""

ANY = "*"
_LINK = ("navigate", "document")
_METHODS = "GET, POST, PATCH, DELETE"
_EXPOSED = "etag, retry-after, x-awaken-error, x-request-id, location"


class Hosts:
    """Refuses requests to host names that are not the server's. Addresses are allowed: a browser
    sends an address as `Host` only for pages that come from there."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(name.lower() for name in names)

    async def check(self, request: EdgeRequest) -> None:
        host = request.headers.get("host", "")
        name = _name_of(host)
        if ANY not in self._names and name not in self._names and not _is_address(name):
            raise HttpRefusal(
                403,
                "foreign_host",
                f"this server does not answer to the host {host[:100]!r}",
                hint="name the host with --allow-host, or use keys",
            )


class Origins:
    """Refuses requests of pages whose origin is not listed, and answers those of listed origins
    with the CORS headers."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self._allowed = frozenset(origin.rstrip("/").lower() for origin in allowed)

    async def check(self, request: EdgeRequest) -> None:
        headers = request.headers
        origin = headers.get("origin")
        if origin is None:
            self._check_site(headers)
            return
        is_listed = ANY in self._allowed or origin.lower() in self._allowed
        if not is_listed and not _is_own(origin, headers.get("host", "")):
            raise HttpRefusal(
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
        if request.scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            request.answer = Response(
                status_code=204,
                headers={
                    "access-control-allow-methods": _METHODS,
                    "access-control-allow-headers": headers.get(
                        "access-control-request-headers", ""
                    ),
                    "access-control-max-age": "600",
                },
            )

    def _check_site(self, headers: Headers) -> None:
        """Refuse requests of other sites' pages for which browsers send no `Origin`, but say the
        site. Following a link to this server is allowed."""
        is_foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site")
        is_link = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest")) == _LINK
        if is_foreign and not is_link and ANY not in self._allowed:
            raise HttpRefusal(
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
    """Whether the page comes from this server. The scheme is not compared: a proxy may have ended
    the TLS connection."""
    try:
        return bool(host) and urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False
