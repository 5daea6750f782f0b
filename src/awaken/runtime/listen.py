"""Hearing what other processes ask of runs that are live here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from awaken.contract.commands import ThreadCommand
from awaken.contract.store import Store
from awaken.control.tasks import alone, keep_on, start_logged

LISTEN_AFTER = 0.05
RETRY_LISTENING = 1.0
_FAILED = "commands from other processes cannot be read, and are tried again"
log = logging.getLogger("awaken.runtime")

Hear = Callable[[ThreadCommand], Awaitable[object]]
"""Lets the run of a command's thread know of it, if one is live here."""


class Listener:
    """Passes commands on to live runs, as long as there are any."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop: asyncio.AbstractEventLoop | None = None
        self._soon: asyncio.TimerHandle | None = None
        self._listening: asyncio.Task[None] | None = None

    def start(self, hear: Hear) -> None:
        """Listen from soon on; most runs of a test are over by then."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # What listened in an event loop that is over has ended with it.
            self._loop, self._soon, self._listening = loop, None, None
        if self._soon is None:
            self._soon = loop.call_later(LISTEN_AFTER, self._listen, hear)

    def _listen(self, hear: Hear) -> None:
        listening = keep_on(lambda: self._pass_on(hear), RETRY_LISTENING, _FAILED, log)
        self._listening = start_logged(listening, _FAILED, log)

    def stop(self) -> None:
        """No run is live, so no command is for this process."""
        if self._soon is not None:
            self._soon.cancel()
        if self._listening is not None:
            self._listening.cancel()
        self._soon = self._listening = None

    async def _pass_on(self, hear: Hear) -> None:
        """Tell live runs of every command that waits, and of those that come."""
        after = 0
        while True:
            commands = await self._store.next_commands(after)
            for command in commands:
                thread_id = command.thread_id
                await alone(hear(command), f"thread {thread_id} cannot be told of a command", log)
            after = commands[-1].id
