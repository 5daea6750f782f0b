"""Wakes the streams of tickets: at once after a change in this process, and at intervals for the
changes of other processes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from awaken.core.run import AgentRunResult
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.runtime.metrics_hooks import RuntimeCallbacks

POLL_SECONDS = 1.0
"""Seconds after which a stream reads the changes of other processes."""
MIN_PAUSE_SECONDS = 0.1
"""The shortest time between two reads of one stream."""


class TicketUpdates:
    """Wakes its listeners when a run of this process has paused with questions, has ended, or has
    received answers."""

    def __init__(self, news: RuntimeCallbacks) -> None:
        self._listeners: set[asyncio.Event] = set()
        news.commands.subscribe(self._take)
        news.ended.subscribe(self._end)

    @contextmanager
    def listener(self) -> Iterator[TicketListener]:
        changed = asyncio.Event()
        self._listeners.add(changed)
        try:
            yield TicketListener(changed)
        finally:
            self._listeners.discard(changed)

    def _take(self, command: ThreadCommand) -> None:
        if command.kind in (CommandKind.DECISIONS, CommandKind.CANCEL):
            self._notify()

    def _end(self, result: AgentRunResult | None) -> None:
        self._notify()

    def _notify(self) -> None:
        for changed in self._listeners:
            changed.set()


class TicketListener:
    """One stream of tickets, which waits for changes."""

    def __init__(self, changed: asyncio.Event) -> None:
        self._changed = changed

    async def wait(self) -> None:
        """Wait until there may be a change, and at least `MIN_PAUSE_SECONDS`."""
        await asyncio.sleep(MIN_PAUSE_SECONDS)
        try:
            async with asyncio.timeout(POLL_SECONDS):
                await self._changed.wait()
        except TimeoutError:
            pass
        self._changed.clear()
