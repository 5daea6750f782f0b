"""A piece of work for a thread of the store, and the way its answer comes back."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Job(Generic[T]):
    """Work on a connection. One whose caller was cancelled is done all the same.

    Args:
        future: where the caller waits for the answer; none if no caller does.
        channels: what changes with it, for those who watch.
        lost: finds out what became of the work if SQLite cannot say.
        alone: it is not put into a transaction with others.
        ended: is told on the store's thread how the transaction ended: `None`, or the error. What
            the process remembers of the database is changed there, and not in `work`, which may be
            rolled back after it returned.
    """

    __slots__ = ("alone", "channels", "ended", "error", "future", "lost", "value", "work")

    def __init__(
        self,
        work: Callable[[sqlite3.Connection], T],
        *,
        future: asyncio.Future[T] | None = None,
        channels: tuple[str, ...] = (),
        lost: Callable[[sqlite3.Connection], T | None] | None = None,
        alone: bool = False,
        ended: Callable[[BaseException | None], None] | None = None,
    ) -> None:
        self.work = work
        self.future = future
        self.channels = channels
        self.lost = lost
        self.alone = alone
        self.ended = ended
        self.value: T | None = None
        self.error: BaseException | None = None

    def finish(self, post: Post) -> None:
        """Tell what came of it, once that is certain."""
        if self.ended is not None:
            self.ended(self.error)
        if self.future is not None:
            post.add(self.future, self.value, self.error)


class Post:
    """Answers on their way to event loops: one wake-up for each loop, however many there are."""

    def __init__(self) -> None:
        self._letters: dict[asyncio.AbstractEventLoop, list[_Letter]] = {}

    def add(
        self, future: asyncio.Future[Any], value: Any = None, error: BaseException | None = None
    ) -> None:
        self._letters.setdefault(future.get_loop(), []).append((future, value, error))

    def send(self) -> None:
        for loop, letters in self._letters.items():
            # A loop that was closed has nobody left who waits.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_deliver, letters)
        self._letters = {}


_Letter = tuple[asyncio.Future[Any], Any, BaseException | None]


def _deliver(letters: list[_Letter]) -> None:
    for future, value, error in letters:
        if future.done():
            continue
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
