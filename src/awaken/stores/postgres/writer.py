"""The writer of a node: commits that wait go to the database together, in one trip.

Two connections take turns, so that one batch is filled while the other is under way. Nothing is
delayed to make a batch bigger.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import asyncpg

from awaken.core.aio.callbacks import Callbacks
from awaken.core.aio.owned_tasks import OwnedTasks
from awaken.errors import CommitUnknown, StoreUnavailable
from awaken.stores.postgres.connections import Db, Schema, end
from awaken.stores.postgres.errors import AGAIN, explain, is_lost, is_read_only
from awaken.stores.postgres.packing import COMMIT, CommitAnswer, Element, arguments
from awaken.stores.write_health import WriteHealth

log = logging.getLogger("awaken.stores")

LANES = 2
MAX_BATCH_COMMITS = 128
MAX_BATCH_BYTES = 1024 * 1024
MAX_WAIT_SECONDS = 30.0
"""Seconds for which a commit that was not sent yet waits for a database that is away."""
_RETRY_SECONDS = 0.1
_ATTEMPTS = 5


class WaitingCommit:
    """A commit that waits for its batch."""

    __slots__ = ("element", "future", "since", "targets")

    def __init__(self, element: Element, targets: Sequence[str], since: float) -> None:
        self.element = element
        self.targets = targets
        self.since = since
        self.future: asyncio.Future[CommitAnswer] = asyncio.get_running_loop().create_future()


class CommitWriter:
    """Hands commits to two connections. It belongs to one event loop.

    Args:
        display: the address in error texts.
        open: opens a connection.
        batches: called with the number of commits of each batch and the seconds it took.
        writes: counts the commits that the database took and refused.
    """

    def __init__(
        self,
        display: str,
        schema: Schema,
        open: Callable[[], Awaitable[asyncpg.Connection]],
        batches: Callbacks[tuple[int, float]],
        writes: WriteHealth,
    ) -> None:
        self._display = display
        self._schema = schema
        self._open = open
        self._batches, self._writes = batches, writes
        self._waiting: list[WaitingCommit] = []
        self._in_flight: set[str] = set()
        self._idle: list[asyncio.Future[None]] = []
        self._tasks = OwnedTasks(log)
        self._is_closing = False
        self._lost: list[int] = []
        for _ in range(LANES):
            self._tasks.start_logged(self._lane(), "the writer of a store ended")

    async def write(self, element: Element, targets: Sequence[str]) -> CommitAnswer:
        """Write a commit; it is written even if the caller is cancelled.

        Raises:
            CommitUnknown: the answer was lost.
            StoreUnavailable: the database is away, and nothing was sent.
        """
        if self._is_closing:
            raise StoreUnavailable(f"the store of {self._display} was closed: open it again")
        waiting = WaitingCommit(element, targets, asyncio.get_running_loop().time())
        self._waiting.append(waiting)
        self._wake()
        return await waiting.future

    def _wake(self) -> None:
        """Wake the lane that rested last: its connection is open."""
        while self._idle:
            resting = self._idle.pop()
            if not resting.done():
                resting.set_result(None)
                return

    def take_lost(self) -> list[int]:
        """The sessions of the server that may still be writing a batch whose answer was lost."""
        lost, self._lost = self._lost, []
        return lost

    async def close(self) -> None:
        """Write what waits, then end."""
        self._is_closing = True
        self._wake()
        tasks = list(self._tasks)
        if tasks:
            await asyncio.wait(tasks)

    # -- the lanes ----------------------------------------------------------------------------

    async def _lane(self) -> None:
        connection: asyncpg.Connection | None = None
        while (batch := await self._take()) is not None:
            thread_ids = [one.element.thread_id for one in batch]
            has_answer = False
            while not has_answer:
                if connection is None or connection.is_closed():
                    connection = await self._open_connection(batch)
                has_answer = connection is None or await self._send(connection, batch)
            self._in_flight.difference_update(thread_ids)
        if connection is not None:
            await end(connection)

    async def _take(self) -> list[WaitingCommit] | None:
        """The next batch: what waits, at most one commit of a thread, and none of a thread that
        the other lane writes. `None` when the writer is to end."""
        while True:
            batch = self._pick()
            if batch:
                if self._waiting:
                    self._wake()  # more waits than one batch takes
                return batch
            if self._is_closing and not self._waiting:
                self._wake()  # the other lane is to end as well
                return None
            resting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(resting)
            await resting

    def _pick(self) -> list[WaitingCommit]:
        batch: list[WaitingCommit] = []
        left: list[WaitingCommit] = []
        size = 0
        for one in self._waiting:
            thread_id = one.element.thread_id
            size += len(one.element.delta)
            is_full = len(batch) == MAX_BATCH_COMMITS or (batch and size > MAX_BATCH_BYTES)
            if is_full or thread_id in self._in_flight:
                left.append(one)
            else:
                self._in_flight.add(thread_id)
                batch.append(one)
        self._waiting = left
        batch.sort(key=lambda one: one.element.thread_id)
        return batch

    async def _open_connection(self, batch: list[WaitingCommit]) -> asyncpg.Connection | None:
        """A connection, or `None` if there is none before the patience of the batch ends."""
        while True:
            try:
                return await self._open()
            except Exception as error:
                if not is_lost(error) or not self._can_wait(batch):
                    self._fail(batch, explain(self._display, error))
                    return None
            await asyncio.sleep(_RETRY_SECONDS)

    def _can_wait(self, batch: list[WaitingCommit]) -> bool:
        """Whether a batch waits longer for a database that is away."""
        until = min(one.since for one in batch) + MAX_WAIT_SECONDS
        return asyncio.get_running_loop().time() < until and not self._is_closing

    async def _send(self, connection: asyncpg.Connection, batch: list[WaitingCommit]) -> bool:
        """Send a batch. Returns false if the server takes no writes now: `batch` then has what is
        to be sent on a new connection."""
        for attempt in range(_ATTEMPTS):
            try:
                await self._write_batch(connection, batch)
            except AGAIN as error:
                if attempt == _ATTEMPTS - 1:
                    self._fail(batch, explain(self._display, error))
            except Exception as error:
                return await self._on_error(connection, batch, error)
            else:
                break
        return True

    async def _on_error(
        self, connection: asyncpg.Connection, batch: list[WaitingCommit], error: Exception
    ) -> bool:
        """Handle the error of a batch. Returns what `_send` does."""
        if is_read_only(error) and self._can_wait(batch):
            self._writes.note_error(explain(self._display, error))
            connection.terminate()
            await asyncio.sleep(_RETRY_SECONDS)
            return False
        if is_read_only(error):
            connection.terminate()
            self._fail(batch, explain(self._display, error))
        elif is_lost(error):
            self._lost.append(connection.get_server_pid())
            connection.terminate()
            self._fail(batch, CommitUnknown(explain(self._display, error)), error)
        elif len(batch) == 1:
            self._fail(batch, explain(self._display, error))
        else:
            # The server refused the whole batch because of one of them, and wrote none.
            for number, one in enumerate(batch):
                if connection.is_closed():
                    self._fail([one], explain(self._display, error))
                elif not await self._send(connection, [one]):
                    batch[:] = batch[number:]
                    return False
        return True

    async def _write_batch(
        self, connection: asyncpg.Connection, batch: list[WaitingCommit]
    ) -> None:
        targets = [target for one in batch for target in one.targets]
        values = arguments([one.element for one in batch], targets)
        loop = asyncio.get_running_loop()
        began = loop.time()
        rows = await Db(connection, self._schema).rows(COMMIT, *values)
        self._batches.notify((len(batch), loop.time() - began))
        self._writes.note_success()
        for one, row in zip(batch, rows, strict=True):
            if not one.future.done():
                one.future.set_result(CommitAnswer(*row))

    def _fail(
        self,
        batch: Sequence[WaitingCommit],
        error: BaseException,
        cause: BaseException | None = None,
    ) -> None:
        self._writes.note_error(error)
        if cause is not None:
            error.__cause__ = cause
        for one in batch:
            if not one.future.done():
                one.future.set_exception(error)
                one.future.exception()  # a cancelled caller does not ask for it
