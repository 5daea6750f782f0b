"""The process's one listener for commands: it reads them from the store for its subscribers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Never

from awaken.contract.commands import ThreadCommand
from awaken.contract.store import Store
from awaken.control.tasks import OwnedTasks, or_log

LISTEN_AFTER = 0.05
"""Seconds between the first subscription and the first read: most short runs have ended by then."""
RETRY_LISTENING = 1.0
_FAILED = "commands from other processes cannot be read; the next attempt follows"
log = logging.getLogger("awaken.runtime")

Hear = Callable[[ThreadCommand], Awaitable[object]]
"""Called with each command. Its errors are logged, except if the store is unavailable: then the
listener starts again and reads every command that still waits."""


class CommandListener:
    """Reads commands from the store while it has subscribers, and calls each subscriber with
    them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tasks = OwnedTasks(log)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begin: asyncio.TimerHandle | None = None
        self._reading: asyncio.Task[Never] | None = None
        self._subscribers: dict[Hear, None] = {}

    def subscribe(self, hear: Hear) -> None:
        """Call `hear` with every command that is sent from now on, until `unsubscribe`.

        It may also be called with some older commands that still wait; a subscriber that needs all
        of those reads them from the store. Subscribing again has no effect.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # The old subscribers belong to an event loop that is closed.
            self._loop, self._begin, self._reading = loop, None, None
            self._subscribers.clear()
        self._subscribers[hear] = None
        if self._begin is None:
            self._begin = loop.call_later(LISTEN_AFTER, self._start)

    def unsubscribe(self, hear: Hear) -> None:
        """Stop calling `hear`. The store is not read while there are no subscribers."""
        self._subscribers.pop(hear, None)
        if not self._subscribers and self._begin is not None:
            self._begin.cancel()
            if self._reading is not None:
                self._reading.cancel()
            self._begin = self._reading = None

    def _start(self) -> None:
        self._reading = self._tasks.start_repeating(self._pass_on, RETRY_LISTENING, _FAILED)

    async def _pass_on(self) -> None:
        """Call the subscribers with every waiting command, then with each new one."""
        after = 0
        while True:
            commands = await self._store.next_commands(after)
            for command in commands:
                failed = f"cannot notify thread {command.thread_id} of a command"
                for hear in tuple(self._subscribers):
                    await or_log(hear(command), failed, log)
            after = commands[-1].id
