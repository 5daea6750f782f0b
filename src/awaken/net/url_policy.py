"""Deciding where a request may go: parsing URLs, refusing addresses, and connecting to those that
were checked.

A name is looked up once, and the connection goes to the address that was checked, so that a DNS
server cannot give the check one address and the connection another. Nothing here does HTTP.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import TypeAlias, TypeVar
from urllib.parse import urljoin, urlsplit

from awaken.core.backend import ExecutionFailed
from awaken.core.value import Value

IpAddress = IPv4Address | IPv6Address
Lookup: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Finds the addresses of a host, for a port.

Raises:
    OSError: the name cannot be looked up.
"""
S = TypeVar("S")

REDIRECTS = frozenset({301, 302, 303, 307, 308})
"""The status codes of answers that lead to another URL."""
_PORTS = {"http": 80, "https": 443}
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")

_MEANT = "if that is meant, list it in the endpoint's option allow_hosts"
_MEANT_LOCAL = f"{_MEANT}, or set allow_private"


class UrlRefused(ExecutionFailed):
    """A URL to which nothing may be sent."""


# -- URLs -------------------------------------------------------------------------------------


class HttpUrl(Value, frozen=True, kw_only=True):
    """A parsed URL; `target` is the path and, after a question mark, the query."""

    scheme: str
    host: str
    port: int
    target: str = "/"

    @property
    def origin(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"

    def __str__(self) -> str:
        return f"{self.origin}{self.target}"


def parse_url(text: str) -> HttpUrl:
    """Parse a URL. The fragment is dropped; errors do not show a password.

    Raises:
        UrlRefused: it is not http(s), has no host, or contains a user name.
    """
    shown = re.sub(r"//[^/?#]*@", "//***@", text)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise UrlRefused(f"{shown!r} is not a URL: {error}") from None
    if parts.scheme not in _PORTS:
        raise UrlRefused(f"{shown!r} is not an http or https URL")
    if _UNSAFE.search(text):
        raise UrlRefused(f"{shown!r} holds blanks, control characters or backslashes")
    if "@" in parts.netloc:
        raise UrlRefused(f"{shown!r} carries a user name: put credentials into the endpoint's auth")
    if port == 0:
        raise UrlRefused(f"{shown!r} has port 0")
    target = parts.path or "/"
    if parts.query:
        target += f"?{parts.query}"
    if not target.isascii():
        raise UrlRefused(f"{shown!r} has a path that is not percent-encoded")
    return HttpUrl(
        scheme=parts.scheme,
        host=_host(parts.hostname or "", shown),
        port=port or _PORTS[parts.scheme],
        target=target,
    )


def parse_redirect(url: HttpUrl, location: str) -> HttpUrl:
    """The URL that an answer from `url` redirects to.

    Raises:
        UrlRefused: it is not a URL that may be asked, or not encrypted where `url` is.
    """
    next_url = parse_url(urljoin(str(url), location))
    if url.scheme == "https" and next_url.scheme == "http":
        raise UrlRefused(f"{url.origin} redirects to {next_url.origin}, which is not encrypted")
    return next_url


def _host(host: str, shown: str) -> str:
    if ":" in host:
        try:
            return IPv6Address(host).compressed
        except ValueError:
            raise UrlRefused(f"{shown!r} has no valid IPv6 address") from None
    try:
        host = host.rstrip(".").encode("idna").decode().lower()
    except UnicodeError:
        host = ""
    if not _NAME.fullmatch(host):
        raise UrlRefused(f"{shown!r} has no valid host")
    return host


# -- addresses --------------------------------------------------------------------------------

LOCAL_KINDS = frozenset({"loopback", "private", "shared", "unique local"})
"""The kinds that `allow_private` allows; other special addresses have to be listed one by one."""

_V4 = [
    (IPv4Network(net), kind)
    for net, kind in (
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "reserved"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmark"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
]
_V6 = [
    (IPv6Network(net), kind)
    for net, kind in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("fc00::/7", "unique local"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
        ("2001::/32", "tunnel"),
        ("2001:2::/48", "benchmark"),
        ("2001:10::/28", "reserved"),
        ("2001:20::/28", "reserved"),
        ("2001:db8::/32", "documentation"),
        ("3fff::/20", "documentation"),
    )
]
_V6_GLOBAL = IPv6Network("2000::/3")
_V6_COMPATIBLE = IPv6Network("::/96")
_V6_TRANSLATED = IPv6Network("64:ff9b::/96")


def kind_of(address: IpAddress) -> str | None:
    """The kind of an address that is not public, else `None`. IPv4 inside IPv6 is judged as
    IPv4."""
    if isinstance(address, IPv4Address):
        return next((kind for net, kind in _V4 if address in net), None)
    kind = next((kind for net, kind in _V6 if address in net), None)
    if kind is not None:
        return kind
    inner = find_embedded(address)
    if inner is not None:
        return kind_of(inner)
    return None if address in _V6_GLOBAL else "reserved"


def find_embedded(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address leads to (mapped, compatible, 6to4 or NAT64), or
    `None`."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _V6_TRANSLATED or address in _V6_COMPATIBLE:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return None


# -- the policy -------------------------------------------------------------------------------


class AddressPolicy(Value, frozen=True, kw_only=True):
    """Allows public addresses, and those that the operator has listed.

    Args:
        allow_private: loopback, private, shared (carrier-grade NAT) and unique local addresses.
        allow_hosts: names (`agents.corp`, `*.svc.cluster.local`), addresses and networks
            (`10.1.0.0/16`) that are always allowed.
    """

    allow_private: bool = False
    allow_hosts: tuple[str, ...] = ()

    def check_url(self, url: HttpUrl) -> None:
        """Refuse what can be refused without a DNS lookup.

        Raises:
            UrlRefused: the host is this machine, or a literal address that is not allowed.
        """
        if self._names(url.host):
            return
        literal = _literal(url.host)
        if literal is not None:
            self._check(url.host, literal)
        elif (url.host == "localhost" or url.host.endswith(".localhost")) and (
            not self.allow_private
        ):
            raise UrlRefused(f"host {url.host!r} is this machine: {_MEANT_LOCAL}")

    async def resolve(self, host: str, port: int, lookup: Lookup | None = None) -> list[str]:
        """The addresses of a host, each of them allowed; by default, those that the system finds.

        Raises:
            UrlRefused: one of them is not.
            OSError: the name cannot be looked up.
        """
        addresses = list(dict.fromkeys(await (lookup or system_lookup)(host, port)))
        if not self._names(host):
            for text in addresses:
                self._check(host, ip_address(text.partition("%")[0]))
        return addresses

    def _names(self, host: str) -> bool:
        for entry in self.allow_hosts:
            name = entry.lower().rstrip(".")
            if name == host or (name.startswith("*.") and host.endswith(name[1:])):
                return True
        return False

    def _check(self, host: str, address: IpAddress) -> None:
        kind = kind_of(address)
        if kind is None or (self.allow_private and kind in LOCAL_KINDS):
            return
        inner = find_embedded(address) if isinstance(address, IPv6Address) else None
        candidates = (address,) if inner is None else (address, inner)
        if any(one in net for net in networks(self.allow_hosts) for one in candidates):
            return
        where = f"host {host!r}" if host == str(address) else f"host {host!r} ({address})"
        raise UrlRefused(
            f"{where} has a {kind} address: {_MEANT_LOCAL if kind in LOCAL_KINDS else _MEANT}"
        )


async def system_lookup(host: str, port: int) -> list[str]:
    """The addresses of a host, as the operating system finds them."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


async def connect_allowed(
    policy: AddressPolicy,
    host: str,
    port: int,
    connect: Callable[[str, float | None], Awaitable[S]],
    failures: tuple[type[Exception], ...],
    *,
    timeout: float | None,
    lookup: Lookup | None = None,
) -> S:
    """Connects to the first address of a host that answers, if all of them are allowed.

    Args:
        connect: connects to an address, within some seconds.
        failures: the errors of `connect` after which the next address is tried.
        timeout: seconds for the lookup and all attempts; each attempt gets an equal share of what
            is left.

    Raises:
        UrlRefused: an address is not allowed.
        OSError: the name cannot be looked up, or not in time; or it has no address.
    """
    loop = asyncio.get_running_loop()
    ends_at = None if timeout is None else loop.time() + timeout
    async with asyncio.timeout_at(ends_at):
        addresses = await policy.resolve(host, port, lookup)
    failure: Exception = OSError(f"{host!r} has no address")
    for tried, address in enumerate(addresses):
        left = None if ends_at is None else max(ends_at - loop.time(), 0.0)
        try:
            return await connect(address, left and left / (len(addresses) - tried))
        except failures as error:
            failure = error
    raise failure


def _literal(host: str) -> IpAddress | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def networks(entries: Sequence[str]) -> list[IPv4Network | IPv6Network]:
    """The entries that are addresses or networks."""
    found: list[IPv4Network | IPv6Network] = []
    for entry in entries:
        try:
            found.append(ip_network(entry, strict=False))
        except ValueError:
            continue
    return found
