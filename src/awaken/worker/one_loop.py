"""Binding a runtime to one event loop."""

from __future__ import annotations

import asyncio
import threading

from awaken.errors import ConfigError


class OneLoop:
    """Binds a runtime to the first event loop that uses it, until that loop is closed.

    The locks, events and tasks of a runtime belong to one event loop: a run in a second loop would
    wait for ever, or fail after its work was done.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def bind(self) -> None:
        """Bind the runtime to the running event loop.

        Raises:
            ConfigError: it is bound to another event loop that is still open.
        """
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        with self._lock:
            if self.find() is not None:
                raise ConfigError(
                    "the runtime belongs to another event loop, which is still open: use one "
                    "Runtime for each event loop, or call run_sync, which works from any thread"
                )
            self._loop = loop

    def find(self) -> asyncio.AbstractEventLoop | None:
        """The loop the runtime is bound to. Returns `None` if there is none or it was closed."""
        loop = self._loop
        return None if loop is None or loop.is_closed() else loop
