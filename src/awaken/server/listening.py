"""The socket that the server listens on."""

from __future__ import annotations

import errno
import ipaddress
import socket
from contextlib import suppress

from awaken.errors import ConfigError

SENT_AHEAD = 128 * 1024
"""Bytes that the kernel may keep for a client that does not read; Linux doubles the number. More
would only be old when the client reads it."""
_NEXT = 20
"""How many ports are tried."""
_WAITING = 128
"""How many clients may wait for a server that starts."""


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bind(host: str, port: int) -> socket.socket:
    """A socket that is bound and does not listen yet: clients are refused until the server starts.

    Raises:
        ConfigError: the address cannot be used; the text says why and what to do.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise ConfigError(
            f"host {host!r} is no address of this machine: {error.strerror}"
        ) from None
    family, kind, protocol, _, address = found[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENT_AHEAD)
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise ConfigError(why_not(host, port, error)) from None
    return listening


def bind_free(host: str, port: int) -> socket.socket:
    """A socket that listens on a port, or on the next one that is free; on any port if none of the
    next few is. Clients wait until the server starts.

    Raises:
        ConfigError: the address cannot be used; the text says why and what to do.
    """
    for one in range(port, min(port + _NEXT, 65_536)) if port else ():
        with suppress(ConfigError):
            return _listening(host, one)
    return _listening(host, 0)


def _listening(host: str, port: int) -> socket.socket:
    listening = bind(host, port)
    try:
        listening.listen(_WAITING)
    except OSError as error:  # another program was bound to it as well, and was quicker
        listening.close()
        raise ConfigError(why_not(host, port, error)) from None
    return listening


def why_not(host: str, port: int, error: OSError) -> str:
    """Why an address cannot be listened on, and what to do."""
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} of {host} is taken: another program listens there. Stop it, or give "
            "another port, as in --port 8701 (0 picks a free one)"
        )
    if error.errno == errno.EACCES:
        return f"port {port} may not be used by this user: give one above 1023, as in --port 8700"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"host {host!r} is no address of this machine: give 127.0.0.1, or 0.0.0.0 for all"
    return f"cannot listen on {host}:{port}: {error.strerror}"


def address_of(listening: socket.socket, host: str) -> str:
    """The address to give to clients on this machine, such as `http://127.0.0.1:8700`."""
    port = listening.getsockname()[1]
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"
