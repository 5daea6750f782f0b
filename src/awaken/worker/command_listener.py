"""The process's one listener for commands: it calls its subscribers with the ids of threads that
have some."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Never

from awaken.core.aio.owned_tasks import OwnedTasks, log_errors
from awaken.core.store.store import Store

LISTEN_AFTER = 0.05
"""Seconds between the first subscription and the first read: most short runs have ended by then."""
RETRY_LISTENING = 1.0
_FAILED = "commands from other processes cannot be read; the next attempt follows"
log = logging.getLogger("awaken.runtime")

OnCommand = Callable[[str], Awaitable[object]]
"""Called with each thread in which commands wait. Its errors are logged, except if the store is
unavailable: then the listener starts again, with every thread in which some still wait."""


async def list_waiting_threads(store: Store) -> set[str]:
    """The threads in which commands wait now for this process, or for any."""
    async with aclosing(store.watch_commands()) as ready:
        return await anext(ready)


class CommandListener:
    """While it has subscribers, calls each of them with the threads that the store names."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tasks = OwnedTasks(log)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begin: asyncio.TimerHandle | None = None
        self._reading: asyncio.Task[Never] | None = None
        self._subscribers: dict[OnCommand, None] = {}

    def subscribe(self, callback: OnCommand) -> None:
        """Call `callback` with the thread of every command that is sent from now on, until
        `unsubscribe`.

        It is also called with threads in which older commands still wait, though perhaps not at
        once; a subscriber that cannot wait calls `list_waiting_threads`. Subscribing again has
        no effect.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # The old subscribers belong to an event loop that is closed.
            self._loop, self._begin, self._reading = loop, None, None
            self._subscribers.clear()
        self._subscribers[callback] = None
        if self._begin is None:
            self._begin = loop.call_later(LISTEN_AFTER, self._start)

    def unsubscribe(self, callback: OnCommand) -> None:
        """Stop calling `callback`. The store is not read while there are no subscribers."""
        self._subscribers.pop(callback, None)
        if not self._subscribers and self._begin is not None:
            self._begin.cancel()
            if self._reading is not None:
                self._reading.cancel()
            self._begin = self._reading = None

    def _start(self) -> None:
        self._reading = self._tasks.start_repeating(
            self._notify_subscribers, RETRY_LISTENING, _FAILED
        )

    async def _notify_subscribers(self) -> None:
        """Call the subscribers with every thread in which commands wait, as the store names it."""
        async with aclosing(self._store.watch_commands()) as ready:
            async for threads in ready:
                for thread_id in threads:
                    failed = f"cannot notify thread {thread_id} of a command"
                    for callback in tuple(self._subscribers):
                        await log_errors(callback(thread_id), failed, log)
