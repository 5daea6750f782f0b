"""Waiting for changes, made by this process or by others.

A channel is a thread, or all commands. Each change gets the next number. A caller that waits gives
the last number it knows, so that no change between two calls is missed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable

from awaken.stores.sqlite.jobs import ResultBatch

COMMANDS = "commands"
_REMEMBERED = 10_000


def thread_channel(thread_id: str) -> str:
    return f"thread {thread_id}"


class Watch:
    """The number of the last change of each channel, and the tasks that wait for the next one.

    Used from event loops and from the writer's thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 1
        # Every channel counts as changed at this number: by another process, or by a change whose
        # number was dropped.
        self._floor = 1
        self._changed: dict[str, int] = {}
        self.waiting: dict[str, set[asyncio.Future[None]]] = {}
        """The tasks that wait, by channel; others only ask whether there are any."""

    def number(self, channel: str) -> int:
        """The number of the channel's last change."""
        with self._lock:
            return self._of(channel)

    def _of(self, channel: str) -> int:
        return max(self._changed.get(channel, 0), self._floor)

    def wait(self, channel: str, since: int) -> asyncio.Future[None] | None:
        """A future that the next change completes, or `None` if the channel changed already.

        The caller passes it to `leave` afterwards.
        """
        with self._lock:
            if self._of(channel) > since:
                return None
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiting.setdefault(channel, set()).add(future)
            return future

    def leave(self, channel: str, future: asyncio.Future[None]) -> None:
        with self._lock:
            others = self.waiting.get(channel, set())
            others.discard(future)
            if not others:
                self.waiting.pop(channel, None)

    def mark(self, channels: Iterable[str], results: ResultBatch) -> None:
        """Record changes made by this process, and wake the tasks that wait for them."""
        with self._lock:
            self._number += 1
            if len(self._changed) > _REMEMBERED:
                self._changed, self._floor = {}, self._number
            for channel in channels:
                self._changed[channel] = self._number
                for future in self.waiting.get(channel, ()):
                    results.add(future)

    def mark_all(self, results: ResultBatch, error: BaseException | None = None) -> None:
        """Record that anything may have changed; all tasks wake, and raise `error` if given."""
        with self._lock:
            self._number += 1
            self._floor = self._number
            for futures in self.waiting.values():
                for future in futures:
                    results.add(future, error=error)
