"""Parsing store addresses such as `sqlite:///file.db?synchronous=normal`."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from awaken.core.secret import redact_address
from awaken.errors import ConfigError

MEMORY = ":memory:"
SYNCHRONOUS = ("full", "normal")

_FORMS = (
    "write sqlite:///file.db (in the current directory), sqlite:////var/lib/file.db (an absolute "
    "path) or sqlite:///:memory:"
)


class Address(NamedTuple):
    """The path of the file, and the options it is opened with."""

    path: str
    synchronous: str = "full"
    busy_timeout: float = 5.0


def address_of(path: str, synchronous: str, busy_timeout: object) -> Address:
    """An address with its options checked and converted.

    Raises:
        ConfigError: an option has an invalid value.
    """
    level = synchronous.lower()
    if level not in SYNCHRONOUS:
        raise ConfigError(
            f"synchronous={synchronous!r} is not known: write 'full' (every commit is on disk "
            "before it returns) or 'normal' (a power failure may lose the last commits)"
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
        ConfigError: this is not the address of an SQLite file, or an option is unknown.
    """
    place, _, query = address.partition("?")
    scheme, colon, rest = place.partition(":")
    if scheme != "sqlite" or not colon or not rest.startswith("//"):
        raise ConfigError(f"{redact_address(address)!r} is not an SQLite address: {_FORMS}")
    if rest == "//":
        path = MEMORY
    elif not rest.startswith("///"):
        raise ConfigError(
            f"{redact_address(address)!r} has a host, but SQLite is a local file: {_FORMS}"
        )
    else:
        path = unquote(rest[3:])
    if not path:
        raise ConfigError(f"{redact_address(address)!r} names no file: {_FORMS}")
    options = _options(address, query)
    return address_of(path, options.get("synchronous", "full"), options.get("busy_timeout", 5))


def _options(address: str, query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(set(options) - {"synchronous", "busy_timeout"})
    if unknown:
        raise ConfigError(
            f"option {unknown[0]!r} of {redact_address(address)!r} is not known: "
            "there are synchronous=full|normal and busy_timeout=<seconds>"
        )
    return options
