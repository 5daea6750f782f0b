"""Waiting until another task has written something."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable


class Waiters:
    """Tasks of one event loop that wait for a key to be woken."""

    def __init__(self) -> None:
        self.waiting: dict[Hashable, set[asyncio.Future[None]]] = {}

    async def wait(self, key: Hashable) -> None:
        """Return at the next `wake(key)`. The caller checks for earlier changes before it waits."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        others = self.waiting.setdefault(key, set())
        others.add(woken)
        try:
            await woken
        finally:
            others.discard(woken)
            if not others and self.waiting.get(key) is others:
                del self.waiting[key]

    def wake(self, key: Hashable) -> None:
        """Wake the tasks that wait for `key` now."""
        for woken in self.waiting.pop(key, ()):
            if not woken.done():
                woken.set_result(None)
