"""Jobs for the store's operating-system threads, and how their results get back to event loops."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Job(Generic[T]):
    """Work on a connection. It is done even if its caller was cancelled.

    Args:
        future: gets the result; `None` if no caller waits for it.
        channels: the channels on which the work is a change; see `Watch`.
        lost: finds out whether the work was written, if SQLite lost the answer.
        alone: the work gets no transaction, and no other jobs beside it.
        ended: called on the store's thread with the error of the transaction, or `None`. Here the
            process updates what it knows of the database; not in `work`, which may be rolled back
            after it returned.
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
        """Report the result, once the transaction has ended."""
        if self.ended is not None:
            self.ended(self.error)
        if self.future is not None:
            post.add(self.future, self.value, self.error)


class Post:
    """Collects results for event loops, and wakes each loop once for all of its results."""

    def __init__(self) -> None:
        self._letters: dict[asyncio.AbstractEventLoop, list[_Letter]] = {}

    def add(
        self, future: asyncio.Future[Any], value: Any = None, error: BaseException | None = None
    ) -> None:
        self._letters.setdefault(future.get_loop(), []).append((future, value, error))

    def send(self) -> None:
        for loop, letters in self._letters.items():
            # A closed loop has no tasks left that wait.
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
