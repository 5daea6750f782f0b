"""`sqlite:///file.db?option=value` taken apart."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from awaken.domain.secret import shown_address
from awaken.errors import ConfigError

MEMORY = ":memory:"
SYNCHRONOUS = ("full", "normal")

_FORMS = (
    "write sqlite:///file.db (beside you), sqlite:////var/lib/file.db (from the root) "
    "or sqlite:///:memory:"
)


class Address(NamedTuple):
    """Where the file is, and how it is to be used."""

    path: str
    synchronous: str = "full"
    busy_timeout: float = 5.0


def address_of(path: str, synchronous: str, busy_timeout: object) -> Address:
    """The options as the values they stand for.

    Raises:
        ConfigError: a value is not one of those an option takes.
    """
    level = synchronous.lower()
    if level not in SYNCHRONOUS:
        raise ConfigError(
            f"synchronous={synchronous!r} is not known: write 'full' (every commit is on disk "
            "before it is answered) or 'normal' (a power failure may lose the last ones)"
        )
    try:
        seconds = float(str(busy_timeout))
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 2**31 / 1000:
        raise ConfigError(
            f"busy_timeout={busy_timeout!r} is not a number of seconds: write 5 or 0.5"
        )
    return Address(path, level, seconds)


def parse_address(address: str) -> Address:
    """
    Raises:
        ConfigError: it is no address of an SQLite file, or has an option nobody knows.
    """
    place, _, query = address.partition("?")
    scheme, colon, rest = place.partition(":")
    if scheme != "sqlite" or not colon or not rest.startswith("//"):
        raise ConfigError(f"{shown_address(address)!r} is not an SQLite address: {_FORMS}")
    if rest == "//":
        path = MEMORY
    elif not rest.startswith("///"):
        raise ConfigError(f"{shown_address(address)!r} has a host, and SQLite is a file: {_FORMS}")
    else:
        path = unquote(rest[3:])
    if not path:
        raise ConfigError(f"{shown_address(address)!r} names no file: {_FORMS}")
    options = _options(address, query)
    return address_of(path, options.get("synchronous", "full"), options.get("busy_timeout", 5))


def _options(address: str, query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(set(options) - {"synchronous", "busy_timeout"})
    if unknown:
        raise ConfigError(
            f"option {unknown[0]!r} of {shown_address(address)!r} is not known: "
            "there are synchronous=full|normal and busy_timeout=<seconds>"
        )
    return options
