"""What the providers' official SDKs have in common: they are found, given a key, kept, closed."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from awaken.domain.secret import RedactedString
from awaken.errors import ConfigError

PROVIDER_TIMEOUT = 120.0
"""Seconds to open a stream in, and between two pieces of it."""

NO_KEY = "no-key"
"""For a server that needs none: the SDKs insist on a key, and would take one of the environment,
which is for their own provider, to whatever server."""

_NO_KEY_HAS = re.compile(r"[^!#-&(-~]")
"""What cannot be sent as a key, and quotes, which belong to the shell or the program."""

T = TypeVar("T")


def sdk(module: str, *, extra: str, whose: str) -> Any:
    """An SDK's module, imported when it is first needed.

    Raises:
        ConfigError: it is not installed; says what to install.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ConfigError(
            f"{whose} needs the extra {extra!r}: pip install 'awaken[{extra}]'"
        ) from error


def secret(
    given: str | RedactedString | None, names: Sequence[str], *, whose: str
) -> RedactedString:
    """A key that there must be; see `find_key`.

    Raises:
        ConfigError: there is none, and the text says where it is looked for; or it cannot be one.
    """
    key = find_key(given, names, whose=whose)
    if key is None:
        export = f"export {' or '.join(names)}, or " if names else ""
        raise ConfigError(f"{whose} needs a key: {export}give it as api_key")
    return key


def find_key(
    given: str | RedactedString | None,
    names: Sequence[str] = (),
    *,
    whose: str,
    argument: str = "api_key",
) -> RedactedString | None:
    """A key: the one given, or what the first of these environment variables holds, if any.

    White space around it is no part of it.

    Raises:
        ConfigError: it has a character that no key has; the text names its place and not the key.
    """
    text = given.expose_secret() if isinstance(given, RedactedString) else given
    for place, value in ((argument, text), *((name, os.environ.get(name)) for name in names)):
        key = (value or "").strip()
        if wrong := _NO_KEY_HAS.search(key):
            raise ConfigError(
                f"{whose}: {place} has {wrong.group()!r} in it, which no key has: copy it again, "
                "the whole key and nothing else"
            )
        if key:
            return RedactedString(key)
    return None


class PerLoop(Generic[T]):
    """One client for each event loop that asks: their connections cannot change loops."""

    def __init__(self, make: Callable[[], T], close: Callable[[T], Awaitable[None]]) -> None:
        self._make, self._close = make, close
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, T] = WeakKeyDictionary()

    def get(self) -> T:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = self._make()
        return client

    async def aclose(self) -> None:
        """Close the client of this loop; it is made again if it is asked for once more."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await self._close(client)
