"""Waiting for somebody else's write."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable


class Waiters:
    """Tasks of one event loop that wait for a key to be told."""

    def __init__(self) -> None:
        self.waiting: dict[Hashable, set[asyncio.Future[None]]] = {}

    async def wait(self, key: Hashable) -> None:
        """Return when `key` is told next; look for what was told before this, first."""
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        others = self.waiting.setdefault(key, set())
        others.add(told)
        try:
            await told
        finally:
            others.discard(told)
            if not others and self.waiting.get(key) is others:
                del self.waiting[key]

    def tell(self, key: Hashable) -> None:
        """Wake whoever waits for `key` now."""
        for told in self.waiting.pop(key, ()):
            if not told.done():
                told.set_result(None)
