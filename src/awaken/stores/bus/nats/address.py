"""The address of a NATS bus: `nats://user:password@host:4222,other:4222/deployment`."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from awaken.core.address import split_address
from awaken.core.secret import RedactedString, redact_address
from awaken.errors import ConfigError

DEFAULT_PORT = 4222
_EXAMPLE = "'nats://host:4222', or 'nats://user:password@one:4222,two:4222/deployment'"


class NatsAddress(msgspec.Struct, frozen=True, kw_only=True):
    """What an address says.

    - `servers` are the servers to try, without credentials; `display` is the address for people.
    - `secret` is the password of the `user`, or, without a user, a token.
    - `deployment` keeps apart what shares a NATS server: processes hear each other if theirs is the
      same.
    - `is_tls`: a server that does not offer TLS is refused. `ca` is the file with the certificates
      to trust; if not given, the system's are used.
    """

    servers: tuple[str, ...]
    display: str
    user: str | None = None
    secret: RedactedString | None = None
    deployment: str = ""
    is_tls: bool = False
    ca: str | None = None


def read_address(address: str) -> NatsAddress:
    """
    Raises:
        ConfigError: the address is malformed; the text says where, without the credentials.
    """
    display = redact_address(address)
    try:
        parts = split_address(address)
        options = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise ConfigError(f"bus {display!r} is malformed; write {_EXAMPLE}") from error
    if parts.scheme not in ("nats", "tls"):
        raise ConfigError(f"bus {display!r}: scheme {parts.scheme!r} is unknown; write {_EXAMPLE}")
    if unknown := sorted(set(options) - {"ca"}):
        raise ConfigError(f"bus {display!r}: option {unknown[0]!r} is unknown; known: ca")
    login, _, hosts = parts.netloc.rpartition("@")
    first, colon, password = login.partition(":")
    return NatsAddress(
        servers=tuple(_server(host, display) for host in hosts.split(",")),
        display=display,
        user=unquote(first) if colon else None,
        secret=RedactedString(unquote(password if colon else login)) if login else None,
        deployment=unquote(parts.path.strip("/")),
        is_tls=parts.scheme == "tls",
        ca=options["ca"][-1] if "ca" in options else None,
    )


def _server(host: str, display: str) -> str:
    """One server as NATS clients write it, with its port."""
    try:
        parts = urlsplit(f"nats://{host}")
    except ValueError as error:
        raise ConfigError(f"bus {display!r} is malformed; write {_EXAMPLE}") from error
    try:
        name, port = parts.hostname, parts.port or DEFAULT_PORT
    except ValueError as error:
        raise ConfigError(f"bus {display!r}: the port is not a number from 1 to 65535") from error
    if not name or any(c.isspace() for c in name):
        raise ConfigError(f"bus {display!r} names no host; write {_EXAMPLE}")
    return f"nats://[{name}]:{port}" if ":" in name else f"nats://{name}:{port}"
