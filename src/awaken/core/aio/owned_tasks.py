"""Asyncio tasks with an owner: the only module with `create_task` outside a `TaskGroup`.

Every task has an owner that learns how it ends. A function that awaits its own task to the end uses
`start_task`, one that keeps the task and only cancels it `start_logged`; an object that starts many
keeps them in an `OwnedTasks`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any, Never, TypeVar

from awaken.core.aio.cancel import is_cancellation
from awaken.errors import AwakenError, StoreUnavailable

V = TypeVar("V")


def start_task(work: Coroutine[Any, Any, V], name: str | None = None) -> asyncio.Task[V]:
    """Start a task that its caller awaits: the caller gets what it returns or raises."""
    return asyncio.create_task(work, name=name)


def wait_task(task: asyncio.Task[Any]) -> asyncio.Future[None]:
    """A future that is done when the task has ended, however it ended; the caller then reads
    the task's result. Cancelling the caller does not cancel the task.

    `asyncio.shield` does the same with twice as many objects, which a process with a thousand
    waiting callers has a thousand times, and with one more callback of the event loop.
    """
    waiting: asyncio.Future[None] = task.get_loop().create_future()

    def on_done(task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            task.exception()  # as with `shield`, asyncio does not report it if the caller has left
        if not waiting.done():
            waiting.set_result(None)

    task.add_done_callback(on_done)
    return waiting


def start_logged(work: Coroutine[Any, Any, V], failed: str, log: logging.Logger) -> asyncio.Task[V]:
    """Start a task that no caller awaits: an error that ends it is logged as `failed`.

    The caller keeps the task: asyncio itself holds on to none.
    """
    task = start_task(work)
    log_end(task, failed, log)
    return task


def log_end(task: asyncio.Task[Any], failed: str, log: logging.Logger) -> None:
    """Log the error that ends a task, if one does, as `failed`."""

    def on_done(task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log_error(error, failed, log)

    task.add_done_callback(on_done)


class OwnedTasks:
    """The tasks of one owner: each is held until it ends, and `close` ends them all.

    They belong to the event loop they were started in. When that loop is gone and the owner starts
    a task in another one, the old tasks are forgotten: they ended with their loop.
    """

    __slots__ = ("_log", "_loop", "_tasks")

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(tuple(self._tasks))

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, V], name: str | None = None) -> asyncio.Task[V]:
        """Start a task that the caller awaits: the caller gets what it returns or raises."""
        task = start_task(work, name)
        loop = task.get_loop()
        if loop is not self._loop:
            self._loop = loop
            self._tasks.clear()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def start_logged(self, work: Coroutine[Any, Any, V], failed: str) -> asyncio.Task[V]:
        """Start a task that no caller awaits: an error that ends it is logged as `failed`."""
        task = self.start(work)
        log_end(task, failed, self._log)
        return task

    def start_repeating(
        self, work: Callable[[], Awaitable[None]], pause: float, failed: str
    ) -> asyncio.Task[Never]:
        """Start a task that does `work` again and again, until the task is cancelled.

        An error ends the attempt, not the task: it is logged as `failed`, and the next attempt
        begins after `pause` seconds.
        """
        return self.start_logged(self._repeat(work, pause, failed), failed)

    async def _repeat(
        self, work: Callable[[], Awaitable[None]], pause: float, failed: str
    ) -> Never:
        while True:
            try:
                await work()
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                if is_cancellation(error):
                    raise
                log_error(error, failed, self._log)
                await asyncio.sleep(pause)

    def cancel(self) -> None:
        """Cancel every task, without waiting for their ends."""
        if self._loop is not None and not self._loop.is_closed():
            for task in self:
                task.cancel()

    async def close(self, grace: float) -> None:
        """Cancel every task of this event loop and wait for their ends, `grace` seconds at most.

        A task that has not ended by then is named in the log. The task that calls this is left out.
        """
        if self._loop is not asyncio.get_running_loop():
            return
        mine = asyncio.current_task()
        ending = [task for task in self if task is not mine]
        for task in ending:
            task.cancel()
        if ending:
            _, stuck = await asyncio.wait(ending, timeout=grace)
            for task in stuck:
                self._log.error("task %s was cancelled and goes on", task.get_name())


async def log_errors(work: Awaitable[V], failed: str, log: logging.Logger) -> V | None:
    """Await `work` for one thread of many. An error in it is logged as `failed`, and `None` is
    returned, so that the caller continues with the other threads.

    Raises:
        StoreUnavailable: the store does not answer: the other threads could not go on either.
    """
    try:
        return await work
    except StoreUnavailable:
        raise
    except Exception as error:
        log_error(error, failed, log)
        return None


def log_error(error: BaseException, failed: str, log: logging.Logger) -> None:
    """Log that `failed`: with a traceback, unless the error is one that this library raises."""
    if isinstance(error, AwakenError):
        log.warning("%s: %s", failed, error)
    else:
        log.error("%s: %r", failed, error, exc_info=error)
