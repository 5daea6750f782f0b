"""Who waits for a change, and what changed when.

A channel is a thread, or all commands. Each change gets the next number; whoever waits says the
last number it knows, so nothing falls between two calls.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable

from awaken.stores.sqlite.jobs import Post

COMMANDS = "commands"
_REMEMBERED = 10_000


def thread_channel(thread_id: str) -> str:
    return f"thread {thread_id}"


class Watch:
    """Numbers of changes by channel; used from event loops and from the writer's thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 1
        # Before this number anything may have changed: what other processes did, or was forgotten.
        self._floor = 1
        self._changed: dict[str, int] = {}
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    @property
    def busy(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiting)

    def number(self, channel: str) -> int:
        """The number of the channel's last change."""
        with self._lock:
            return self._of(channel)

    def _of(self, channel: str) -> int:
        return max(self._changed.get(channel, 0), self._floor)

    def wait(self, channel: str, since: int) -> asyncio.Future[None] | None:
        """Something to await, to be given to `leave` afterwards; nothing if it changed already."""
        with self._lock:
            if self._of(channel) > since:
                return None
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(channel, set()).add(future)
            return future

    def leave(self, channel: str, future: asyncio.Future[None]) -> None:
        with self._lock:
            others = self._waiting.get(channel, set())
            others.discard(future)
            if not others:
                self._waiting.pop(channel, None)

    def mark(self, channels: Iterable[str], post: Post) -> None:
        """Note changes made here, and wake those who wait for them."""
        with self._lock:
            self._number += 1
            if len(self._changed) > _REMEMBERED:
                self._changed, self._floor = {}, self._number
            for channel in channels:
                self._changed[channel] = self._number
                for future in self._waiting.get(channel, ()):
                    post.add(future)

    def mark_all(self, post: Post, error: BaseException | None = None) -> None:
        """Note that anything may have changed, and wake everybody; with `error`, to that."""
        with self._lock:
            self._number += 1
            self._floor = self._number
            for futures in self._waiting.values():
                for future in futures:
                    post.add(future, error=error)
