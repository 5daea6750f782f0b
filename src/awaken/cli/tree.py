"""The events of a thread and of all that it has started, in the order of time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from awaken.contract.store import Store
from awaken.domain.event import RunEvent, RunStart, StepStart, ToolCallReady
from awaken.domain.thread import Thread
from awaken.front.records import descendants

GLANCE = 0.3
"""Seconds between two looks for what was written in threads beneath."""

_PAGE = 500


class TreeEvents:
    """Reads a thread from behind event `after`, and what lies beneath it from then on.

    `caught_up` is set when all was read that there was in the beginning.
    """

    def __init__(self, store: Store, thread: str, after: int = 0) -> None:
        self.caught_up = asyncio.Event()
        self._store, self._root, self._after = store, thread, after
        self._branches = {thread: Branch(thread, 0, after)}
        self._since_ms: int | None = None

    async def read(self, *, follow: bool) -> AsyncIterator[RunEvent]:
        """What there is, and with `follow` what comes."""
        seen = 0
        while True:
            for thread in await self._threads():
                self._branch(thread).count = thread.event_count
            async for event in self._merged():
                yield event
            self.caught_up.set()
            if not follow:
                return
            try:
                async with asyncio.timeout(GLANCE):
                    seen = await self._store.changed(self._root, seen)
            except TimeoutError:
                pass

    async def _threads(self) -> list[Thread]:
        root = await self._store.load_thread(self._root)
        return [] if root is None else [root, *await descendants(self._store, self._root)]

    def _branch(self, thread: Thread) -> Branch:
        if thread.id not in self._branches:
            above = self._branches.get(thread.parent_thread_id or "")
            level = 1 if above is None else above.level + 1
            self._branches[thread.id] = Branch(thread.id, level)
        return self._branches[thread.id]

    async def _merged(self) -> AsyncIterator[RunEvent]:
        """What was not read yet, of all threads together."""
        since = await self._since()
        while True:
            for branch in self._branches.values():
                await branch.look_ahead(self._store)
            full = [branch for branch in self._branches.values() if branch.ahead]
            if not full:
                return
            event = min(full, key=Branch.key).ahead.popleft()
            if event.thread_id == self._root or event.at_ms >= since:
                yield event

    async def _since(self) -> int:
        """When the event was that the reader knows already."""
        if self._since_ms is None:
            self._since_ms = 0
            if self._after > 0:
                known = await self._store.load_events(self._root, after=self._after - 1, limit=1)
                self._since_ms = known[0].at_ms if known else 0
        return self._since_ms


class Branch:
    """One thread of a tree: how far it was read, and the next of its events."""

    def __init__(self, thread: str, level: int, position: int = 0) -> None:
        self.thread, self.level = thread, level
        self.count = 0
        self.ahead: deque[RunEvent] = deque()
        self._position = position

    async def look_ahead(self, store: Store) -> None:
        if not self.ahead and self._position < self.count:
            page = await store.load_events(self.thread, after=self._position, limit=_PAGE)
            self._position += len(page)
            self.ahead.extend(page)

    def key(self) -> tuple[int, bool, int]:
        """What is read first. In one instant, a run begins before those it starts, and ends after
        them."""
        event = self.ahead[0]
        begins = isinstance(event.event, RunStart | StepStart | ToolCallReady)
        return event.at_ms, not begins, self.level if begins else -self.level
