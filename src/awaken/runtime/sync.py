"""`run_sync`: one event loop, in a thread of its own, for all callers that have no event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, TypeVar

from awaken.core.defaults import CANCEL_GRACE
from awaken.errors import ConfigError

V = TypeVar("V")

LOOK = 1.0
"""Seconds between two checks whether the event loop that works for a caller was closed."""
log = logging.getLogger("awaken.runtime")

_CLOSED = "the event loop that the runtime belongs to was closed while run_sync worked in it"

AsyncCall = Callable[[], Coroutine[Any, Any, None]]


class SyncBridge:
    """Runs coroutines for callers in any thread, in one event loop.

    The loop exists while it has callers. The first caller starts it. The last one awaits `rest`
    before it returns its result, then awaits `end` and closes the loop.
    """

    def __init__(self, rest: AsyncCall, end: AsyncCall) -> None:
        self._rest, self._end = rest, end
        self._lock = threading.Lock()
        self._callers = 0
        self._thread: _LoopThread | None = None
        self._latest: asyncio.AbstractEventLoop | None = None

    def is_behind(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether `loop` is the one that works for callers, also while it is being closed."""
        return loop is self._latest

    def call(self, work: Callable[[], Coroutine[Any, Any, V]]) -> V:
        """Run `work` in the loop; returns what it returns, raises what it raises."""
        with self._lock:
            if self._thread is None:
                self._thread = _LoopThread()
                self._latest = self._thread.loop
            self._callers += 1
            thread = self._thread
        try:
            result = call_in(thread.loop, work())
            with self._lock:
                is_last = self._callers == 1
            if is_last:
                call_in(thread.loop, self._rest())
            return result
        finally:
            with self._lock:
                self._callers -= 1
                if not self._callers:
                    self._close(thread)

    def _close(self, thread: _LoopThread) -> None:
        # New callers wait for the lock: a runtime gets no second loop before this one is closed.
        try:
            call_in(thread.loop, self._end())
        finally:
            thread.stop()
            self._thread = None


class _LoopThread:
    """An event loop that runs in a thread until it is stopped."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.loop = self._runner.get_loop()
        self._over = False
        self._thread = threading.Thread(target=self._serve, name="awaken-run-sync", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with self._runner:
            while not self._over:
                try:
                    self.loop.run_forever()
                except (KeyboardInterrupt, SystemExit):
                    # A task that no caller awaits raised this; it must not end a caller's work.
                    log.exception("a task in the event loop of run_sync tried to end the program")

    def stop(self) -> None:
        """Cancel what is left in the loop, and close it."""
        self._over = True
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()


def call_in(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, V]) -> V:
    """Run `work` in an event loop of another thread; returns what it returns, raises what it
    raises. If the caller is interrupted meanwhile, the work is cancelled and its end awaited.

    Raises:
        ConfigError: the loop was closed before the work had ended.
    """
    outcome: Future[V] = Future()
    doing = _do(work, outcome)
    try:
        under_way = asyncio.run_coroutine_threadsafe(doing, loop)
    except RuntimeError as error:
        doing.close()
        work.close()
        raise ConfigError(_CLOSED) from error
    either: list[Future[Any]] = [outcome, under_way]
    try:
        while not wait(either, LOOK, FIRST_COMPLETED).done and not loop.is_closed():
            pass
    except BaseException:
        under_way.cancel()
        wait([outcome], timeout=2 * CANCEL_GRACE)
        raise
    if not outcome.done() or isinstance(outcome.exception(), asyncio.CancelledError):
        raise ConfigError(_CLOSED)
    return outcome.result()


async def _do(work: Coroutine[Any, Any, V], outcome: Future[V]) -> None:
    """Await `work`, and put its result or error into `outcome`: also an error that would end the
    loop's thread if it were raised there, such as SystemExit."""
    try:
        outcome.set_result(await work)
    except BaseException as error:
        outcome.set_exception(error)
