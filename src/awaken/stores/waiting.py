"""Waiting for what other tasks write, and the threads that `Commands.told` names to a caller.

No I/O: the stores read the pending commands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping


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


LOOK_EVERY = 1.0
"""Seconds after which all pending commands are read, since a hint of a new one may be lost and a
lower id may become visible after a higher one."""
TELL_AGAIN = 5.0
"""Seconds after which threads whose commands still wait are named again."""
_SLACK = 0.1
"""Seconds that another look, which is made every `LOOK_EVERY`, may be late."""


class Telling:
    """The commands that one caller was told of.

    `looks_after` is 0 when all pending commands have to be read, else the highest id told: between
    two such looks only newer commands are read.
    """

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._told: set[int] = set()
        self._highest = 0
        self._look_at = self._again_at = time()

    @property
    def looks_after(self) -> int:
        return 0 if self.rest <= 0 else self._highest

    @property
    def rest(self) -> float:
        """Seconds until all pending commands have to be read."""
        return self._look_at - self._time()

    def put_off(self, none_at: float) -> bool:
        """Take into account that no command waited at time `none_at`, as another look has found.
        Returns whether reading them can wait."""
        self._look_at = max(self._look_at, none_at + LOOK_EVERY + _SLACK)
        return self.rest > 0

    def tell(self, waiting: Mapping[int, str], after: int) -> set[str]:
        """The threads to name now. `waiting` are the threads of the pending commands with ids
        above `after`, by id."""
        now, known = self._time(), self._told
        if after == 0:
            self._look_at, self._told = now + LOOK_EVERY, set(waiting)
            if now >= self._again_at:
                self._again_at, known = now + TELL_AGAIN, set()
        else:
            self._told = known | waiting.keys()
        self._highest = max(self._highest, *waiting) if waiting else self._highest
        return {thread for number, thread in waiting.items() if number not in known}
