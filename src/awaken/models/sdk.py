"""Shared code for the providers' official SDKs: importing them, their keys and their clients."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from awaken.core.secret import RedactedString
from awaken.errors import ConfigError

PROVIDER_TIMEOUT = 120.0
"""The most seconds to open a stream, and between two pieces of it."""

NO_KEY = "no-key"
"""The key for a server that needs none. The SDKs insist on a key, and would otherwise send the
environment's key, which is for their own provider, to any server."""

_NO_KEY_HAS = re.compile(r"[^!#-&(-~]")
"""Characters that cannot be part of a key; quotes were left in by a shell or a program."""

T = TypeVar("T")


def sdk(module: str, *, extra: str, provider: str) -> Any:
    """An SDK's module, imported when it is first needed.

    Raises:
        ConfigError: the SDK is not installed; the text says what to install.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ConfigError(
            f"{provider} needs the extra {extra!r}: pip install 'awaken[{extra}]'"
        ) from error


def secret(
    given: str | RedactedString | None, names: Sequence[str], *, provider: str
) -> RedactedString:
    """A required key; see `find_key`.

    Raises:
        ConfigError: there is none (the text says where to put it), or it cannot be a key.
    """
    key = find_key(given, names, provider=provider)
    if key is None:
        export = f"export {' or '.join(names)}, or " if names else ""
        raise ConfigError(f"{provider} needs a key: {export}give it as api_key")
    return key


def find_key(
    given: str | RedactedString | None,
    names: Sequence[str] = (),
    *,
    provider: str,
    argument: str = "api_key",
) -> RedactedString | None:
    """The given key, else that of the first of these environment variables that is set, else
    `None`.

    White space around it is removed.

    Raises:
        ConfigError: it has a character that no key has; the text says where, without showing the
            key.
    """
    text = given.expose_secret() if isinstance(given, RedactedString) else given
    for place, value in ((argument, text), *((name, os.environ.get(name)) for name in names)):
        key = (value or "").strip()
        if wrong := _NO_KEY_HAS.search(key):
            raise ConfigError(
                f"{provider}: {place} has {wrong.group()!r} in it, which no key has: copy it "
                "again, the whole key and nothing else"
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
            self._drop_ended()
            client = self._clients[loop] = self._make()
        return client

    def _drop_ended(self) -> None:
        # An open connection knows its loop: the client of a loop that has ended would keep both.
        for ended in [loop for loop in tuple(self._clients) if loop.is_closed()]:
            self._clients.pop(ended, None)

    async def aclose(self) -> None:
        """Close the client of this loop; the next `get` makes a new one."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await self._close(client)
