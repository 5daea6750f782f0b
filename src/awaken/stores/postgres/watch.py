"""Waiting for changes, made by this process or by others.

A channel is a thread, or all commands. Each change gets the next number. A caller that waits gives
the last number it knows, so that no change between two calls is missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from awaken.stores.waiting import Waiters

COMMANDS = ("commands",)
"""The channel of all commands; the other channels are the ids of threads."""
Channel = str | tuple[str]
_REMEMBERED = 10_000


class Watch:
    """The number of the last change of each channel, and the tasks that wait for the next one.

    What other processes change is seen by comparing marks: `marks` has what a thread looked like
    when it was last looked at. It belongs to one event loop.
    """

    def __init__(self) -> None:
        self._number = 1
        self._floor = 1
        self._changed: dict[Channel, int] = {}
        self._freed: dict[int, int] = {}
        self._marks: dict[str, object] = {}
        self._waiters = Waiters()

    @property
    def waited(self) -> list[str]:
        """The threads that tasks wait for."""
        return [channel for channel in self._waiters.waiting if isinstance(channel, str)]

    def number(self, channel: Channel) -> int:
        """The number of the channel's last change."""
        return max(self._changed.get(channel, 0), self._floor)

    async def wait(self, channel: Channel, since: int) -> int:
        """Wait until the channel has a change after number `since`, and return its number."""
        if self.number(channel) <= since:
            await self._waiters.wait(channel)
        return self.number(channel)

    def mark(self, channels: Iterable[Channel]) -> None:
        """Record changes, and wake the tasks that wait for them."""
        self._number += 1
        if len(self._changed) > _REMEMBERED:
            self._changed, self._floor = {}, self._number
        for channel in channels:
            self._changed[channel] = self._number
            self._waiters.wake(channel)

    def free(self, thread: int) -> None:
        """Record that a thread was released in which something is left to do, by its row."""
        self.mark([COMMANDS])
        if len(self._freed) > _REMEMBERED:
            self._freed = {}  # a look around finds the others
        self._freed[thread] = self._number

    def freed(self, since: int) -> list[int]:
        """The threads that were released after change number `since`, by their rows."""
        return [thread for thread, number in self._freed.items() if number > since]

    def mark_all(self) -> None:
        """Record that anything may have changed."""
        self._number += 1
        self._floor = self._number
        for channel in list(self._waiters.waiting):
            self._waiters.wake(channel)

    def compare(self, looked_at: Iterable[str], found: dict[str, object]) -> None:
        """Record the changes of threads whose marks differ from those seen before."""
        if len(self._marks) > _REMEMBERED:
            self._marks = {}
        looked = list(looked_at)
        changed = [id for id in looked if self._marks.get(id, self) != found.get(id)]
        self._marks.update((id, found.get(id)) for id in looked)
        if changed:
            self.mark(changed)


async def until_set(event: asyncio.Event, seconds: float) -> None:
    """Return when the event is set, and at the latest after `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
    event.clear()
