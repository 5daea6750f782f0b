"""Parsing store addresses such as `postgresql://user@host/database?schema=awaken`."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from awaken.core.address import split_address
from awaken.core.secret import redact_address
from awaken.errors import ConfigError

_SCHEMES = ("postgresql", "postgres")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_FORM = "write postgresql://user:password@host:5432/database"


class Address(NamedTuple):
    """Where a database is, and how it is used.

    `dsn` is the address for asyncpg. `direct` is the one for connections that need a session of
    their own, which is another one if `dsn` leads to a pooler. `lease` is how many seconds a node
    is taken to be alive after its last sign of life; `pool` is the most connections that read.
    """

    dsn: str
    direct: str
    schema: str = "awaken"
    pool: int = 8
    lease: float = 3.0
    is_pooled: bool = False

    def has_session(self, *, direct: bool) -> bool:
        """Whether a connection keeps its session: one through a pooler does not."""
        return not self.is_pooled or (direct and self.direct != self.dsn)

    def hosts(self, *, direct: bool) -> tuple[str, ...]:
        """An address for asyncpg for each host that `dsn`, or `direct`, names."""
        dsn = self.direct if direct else self.dsn
        parts = split_address(dsn)
        if "," not in parts.netloc:
            return (dsn,)
        user, at, names = parts.netloc.rpartition("@")
        return tuple(
            urlunsplit(parts._replace(netloc=f"{user}{at}{name}")) for name in names.split(",")
        )

    @property
    def display(self) -> str:
        """The address without its password, for error texts."""
        return redact_address(self.dsn)


def parse_address(address: str) -> Address:
    """
    Raises:
        ConfigError: this is not the address of a Postgres database, or an option is wrong.
    """
    display = redact_address(address)
    parts = split_address(address)
    if parts.scheme not in _SCHEMES or not parts.path.strip("/"):
        raise ConfigError(f"{display!r} is not an address of a Postgres database: {_FORM}")
    for host in parts.netloc.rpartition("@")[2].split(","):
        try:
            _ = urlsplit(f"//{host}").port
        except ValueError as error:
            raise ConfigError(f"{display!r}: {host!r} is no host: {error}") from None
    # Options that are not ours (sslmode, application_name) are those of asyncpg.
    theirs = parse_qsl(parts.query, keep_blank_values=True)
    ours = {name: value for name, value in theirs if name in _READERS}
    others = [(name, value) for name, value in theirs if name not in _READERS]
    dsn = urlunsplit(parts._replace(query=urlencode(others)))
    read: dict[str, Any] = {name: _READERS[name](display, value) for name, value in ours.items()}
    return Address(
        dsn=dsn,
        direct=str(read.get("direct", dsn)),
        schema=str(read.get("schema", "awaken")),
        pool=int(read.get("pool", 8)),
        lease=float(read.get("lease", 3.0)),
        is_pooled=bool(read.get("pooler", False)),
    )


def _schema(display: str, value: str) -> str:
    if not _SCHEMA.fullmatch(value):
        raise ConfigError(
            f"schema={value!r} of {display!r} is not a name: use a-z, 0-9 and _, at most 63, and "
            "begin with a letter"
        )
    return value


def _pool(display: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= 1000:
        raise ConfigError(f"pool={value!r} of {display!r} is not a number of connections: write 8")
    return int(value)


def _lease(display: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise ConfigError(f"lease={value!r} of {display!r} is not a number of seconds: write 3")
    return seconds


def _pooler(display: str, value: str) -> bool:
    if value != "transaction":
        raise ConfigError(
            f"pooler={value!r} of {display!r} is not known: write "
            "pooler=transaction, or leave it out"
        )
    return True


def _direct(display: str, value: str) -> str:
    if split_address(value).scheme not in _SCHEMES:
        raise ConfigError(f"direct={redact_address(value)!r} of {display!r} is no address: {_FORM}")
    return value


_READERS = {
    "schema": _schema,
    "pool": _pool,
    "lease": _lease,
    "pooler": _pooler,
    "direct": _direct,
}
