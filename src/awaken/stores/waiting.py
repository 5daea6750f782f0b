"""Waiting for what other tasks write, and for the threads that `Commands.watch_commands` yields.

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


POLL_SECONDS = 1.0
"""Seconds after which all pending commands are read, since a hint of a new one may be lost and a
lower id may become visible after a higher one."""
REPEAT_SECONDS = 5.0
"""Seconds after which threads whose commands still wait are named again."""
_SLACK = 0.1
"""Seconds that the other read, which is made every `POLL_SECONDS`, may be late."""


class CommandPoller:
    """Selects the threads with pending commands that a call of `watch_commands` yields next.

    `read_after` is 0 when all pending commands have to be read, else the highest known id: between
    two complete reads only newer commands are read.
    """

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._known_ids: set[int] = set()
        self._highest = 0
        self._read_all_at = self._repeat_at = time()

    @property
    def read_after(self) -> int:
        return 0 if self.seconds_left <= 0 else self._highest

    @property
    def seconds_left(self) -> float:
        """Seconds until all pending commands have to be read."""
        return self._read_all_at - self._time()

    def defer(self, none_at: float) -> bool:
        """Note that another read found no command at time `none_at`. Returns whether the next read
        can wait."""
        self._read_all_at = max(self._read_all_at, none_at + POLL_SECONDS + _SLACK)
        return self.seconds_left > 0

    def select_threads(self, waiting: Mapping[int, str], after: int) -> set[str]:
        """The threads to name now. `waiting` are the threads of the pending commands with ids
        above `after`, by id."""
        now, known = self._time(), self._known_ids
        if after == 0:
            self._read_all_at, self._known_ids = now + POLL_SECONDS, set(waiting)
            if now >= self._repeat_at:
                self._repeat_at, known = now + REPEAT_SECONDS, set()
        else:
            self._known_ids = known | waiting.keys()
        self._highest = max(self._highest, *waiting) if waiting else self._highest
        return {thread for number, thread in waiting.items() if number not in known}
