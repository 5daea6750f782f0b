"""Jobs for the store's operating-system threads, and how their results get back to event loops."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from awaken.errors import UnreadableRecord
from awaken.stores.sql.cursors import UnreadableCommit, UnreadableRows
from awaken.stores.sqlite.rows import name_commit

T = TypeVar("T")


class StoreJob(msgspec.Struct, Generic[T], eq=False):
    """Work on a connection. It is done even if its caller was cancelled.

    - `future` gets the result; `None` if no caller waits for it.
    - `channels` are the channels on which the work is a change; see `Watch`.
    - `lost` finds out whether the work was written, if SQLite lost the answer.
    - `alone`: the work gets no transaction, and no other jobs beside it.
    - `ended` is called on the store's thread with the error of the transaction, or `None`. Here the
      process updates what it knows of the database; not in `work`, which may be rolled back after
      it returned.
    """

    work: Callable[[sqlite3.Connection], T]
    future: asyncio.Future[T] | None = None
    channels: tuple[str, ...] = ()
    lost: Callable[[sqlite3.Connection], T | None] | None = None
    alone: bool = False
    ended: Callable[[BaseException | None], None] | None = None
    value: T | None = None
    error: BaseException | None = None

    def run(self, db: sqlite3.Connection, unreadable: UnreadableRows) -> None:
        """Do the work and keep its value. If a row cannot be decoded, the error names it."""
        self.error = None
        try:
            self.value = self.work(db)
        except UnreadableRecord as error:
            unreadable.note_record(error)
            raise
        except UnreadableCommit as error:
            named = name_commit(db, error)
            unreadable.note_record(named)
            raise named from error

    def finish(self, results: ResultBatch) -> None:
        """Report the result, once the transaction has ended."""
        if self.ended is not None:
            self.ended(self.error)
        if self.future is not None:
            results.add(self.future, self.value, self.error)


class ResultBatch:
    """The results of a batch for event loops. Each loop is woken once for all of its results."""

    def __init__(self) -> None:
        self._results: dict[asyncio.AbstractEventLoop, list[_Result]] = {}

    def add(
        self, future: asyncio.Future[Any], value: Any = None, error: BaseException | None = None
    ) -> None:
        self._results.setdefault(future.get_loop(), []).append((future, value, error))

    def send(self) -> None:
        for loop, results in self._results.items():
            # A closed loop has no tasks left that wait.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_set_results, results)
        self._results = {}


_Result = tuple[asyncio.Future[Any], Any, BaseException | None]


def _set_results(results: list[_Result]) -> None:
    for future, value, error in results:
        if future.done():
            continue
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
