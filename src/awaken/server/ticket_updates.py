"""Telling the streams of tickets when to look: at once after a change in this process, and now and
then for the changes of others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from awaken.core.run import AgentRunResult
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.runtime.metrics_hooks import RuntimeCallbacks

LOOK_AROUND = 1.0
"""Seconds after which a stream looks for changes that other processes have made."""
PAUSE = 0.1
"""The least time between two looks of one stream."""


class TicketNews:
    """Wakes its listeners when a run of this process has paused with questions, has ended, or was
    given answers."""

    def __init__(self, news: RuntimeCallbacks) -> None:
        self._listeners: set[asyncio.Event] = set()
        news.commands.subscribe(self._take)
        news.ended.subscribe(self._end)

    @contextmanager
    def listener(self) -> Iterator[TicketListener]:
        news = asyncio.Event()
        self._listeners.add(news)
        try:
            yield TicketListener(news)
        finally:
            self._listeners.discard(news)

    def _take(self, command: ThreadCommand) -> None:
        if command.kind in (CommandKind.DECISIONS, CommandKind.CANCEL):
            self._tell()

    def _end(self, result: AgentRunResult | None) -> None:
        self._tell()

    def _tell(self) -> None:
        for news in self._listeners:
            news.set()


class TicketListener:
    """One stream that waits for news."""

    def __init__(self, news: asyncio.Event) -> None:
        self._news = news

    async def wait(self) -> None:
        """Return when there may be a change, though not at once after the last call."""
        await asyncio.sleep(PAUSE)
        try:
            async with asyncio.timeout(LOOK_AROUND):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()
