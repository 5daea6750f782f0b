"""Owning asyncio tasks: the starter of a task is told how it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Never, TypeVar

from awaken.control.cancel import is_ours
from awaken.errors import AwakenError, StoreUnavailable

V = TypeVar("V")


def start_logged(work: Coroutine[Any, Any, V], what: str, log: logging.Logger) -> asyncio.Task[V]:
    """Start a task that no caller awaits: an error that ends it is logged.

    The starter keeps the task: asyncio itself holds on to none.
    """
    return log_end(asyncio.ensure_future(work), what, log)


def log_end(task: asyncio.Task[V], what: str, log: logging.Logger) -> asyncio.Task[V]:
    """Log the error that ends a task, if one does."""

    def ended(task: asyncio.Task[V]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log_error(error, what, log)

    task.add_done_callback(ended)
    return task


async def alone(work: Awaitable[V], what: str, log: logging.Logger) -> V | None:
    """Do `work` that concerns one thread of many: an error in it is logged, and `None` returned.

    Raises:
        StoreUnavailable: the store is away, so that others could not go on either.
    """
    try:
        return await work
    except StoreUnavailable:
        raise
    except Exception as error:
        log_error(error, what, log)
        return None


async def keep_on(
    work: Callable[[], Awaitable[None]], pause: float, what: str, log: logging.Logger
) -> Never:
    """Do `work` again and again, until this task is cancelled.

    An error ends the attempt, not the task: it is logged, and the next attempt begins after `pause`
    seconds.
    """
    while True:
        try:
            await work()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if is_ours(error):
                raise
            log_error(error, what, log)
            await asyncio.sleep(pause)


def log_error(error: BaseException, what: str, log: logging.Logger) -> None:
    """Log that `what` failed: with a traceback, unless it is an error this library foresees."""
    if isinstance(error, AwakenError):
        log.warning("%s: %s", what, error)
    else:
        log.error("%s: %r", what, error, exc_info=error)
