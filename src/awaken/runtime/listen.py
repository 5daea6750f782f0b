"""Hearing what other processes ask of runs that are live here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from awaken.contract.commands import ThreadCommand
from awaken.contract.store import Store
from awaken.errors import StoreError

LISTEN_AFTER = 0.05
RETRY_LISTENING = 1.0
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
        self._listening = asyncio.ensure_future(self._pass_on(hear))

    def stop(self) -> None:
        """Nothing is live, so nobody can be meant."""
        if self._soon is not None:
            self._soon.cancel()
        if self._listening is not None:
            self._listening.cancel()
        self._soon = self._listening = None

    async def _pass_on(self, hear: Hear) -> None:
        after = 0
        while True:
            try:
                commands = await self._store.next_commands(after)
                for command in commands:
                    await hear(command)
            except StoreError:
                log.exception("commands from other processes cannot be read; trying again")
                await asyncio.sleep(RETRY_LISTENING)
                continue
            after = commands[-1].id
