"""The threads that plain (not async) tools run in, one for each running call.

A thread cannot be stopped. A call that is abandoned while its thread still works no longer counts
against the limit, so tools that hang never keep other tools from running.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import itertools
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from awaken.errors import ConfigError

DEFAULT_LIMIT = 100
"""How many calls run at once. It is high because most plain tools wait for a network or a disk."""
KEPT_IDLE = 10.0
"""Seconds that an idle thread is kept."""
EXIT_GRACE = 5.0
"""Seconds that running calls have to end when the process exits."""

_log = logging.getLogger("awaken.tool")


class NotStarted(asyncio.CancelledError):
    """A call was cancelled while it waited for a thread: it never began."""


class _ThreadCall:
    """One call of a function in a thread."""

    __slots__ = (
        "answer",
        "begun",
        "context",
        "ended",
        "fn",
        "is_abandoned",
        "loop",
        "tool",
        "values",
    )

    def __init__(self, tool: str, fn: Callable[..., Any], values: dict[str, Any]) -> None:
        self.tool, self.fn, self.values = tool, fn, values
        self.loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[tuple[Any, BaseException | None]] = self.loop.create_future()
        self.context = contextvars.copy_context()
        self.begun = self.ended = self.is_abandoned = False

    def run(self) -> None:
        value: Any = None
        error: BaseException | None = None
        try:
            value = self.context.run(self.fn, **self.values)
        except StopIteration as raised:
            # A coroutine cannot raise StopIteration.
            error = RuntimeError(f"the function raised StopIteration({raised})")
            error.__cause__ = raised
        except BaseException as raised:
            error = raised
        with suppress(RuntimeError):  # the caller's event loop is closed
            self.loop.call_soon_threadsafe(self._settle, value, error)

    def _settle(self, value: Any, error: BaseException | None) -> None:
        if not self.answer.done():
            self.answer.set_result((value, error))


class ToolThreads:
    """Runs plain functions for callers in any event loop, at most `limit` at once.

    Further calls wait, first come, first served. Threads are started as needed and end when they
    have been idle for a while, or once the pool is closed. They do not keep the process alive: when
    it exits, running calls have a few seconds to end, and are then cut off.

    Raises:
        ConfigError: the limit is not a whole number of 1 or more.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        given: Any = limit
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise ConfigError(f"tool_threads is a whole number from 1 on, not {limit!r}")
        self.limit = limit
        self._is_closed = False
        self.forget()
        _pools.add(self)

    def forget(self) -> None:
        """Reset to no threads: a forked child does not have its parent's threads."""
        self._lock = threading.Lock()
        self._waiting: deque[_ThreadCall] = deque()
        self._handed: SimpleQueue[_ThreadCall | None] = SimpleQueue()
        self._idle = 0
        self._running: set[_ThreadCall] = set()
        """The calls that count against the limit."""
        self._abandoned: set[_ThreadCall] = set()

    def close(self) -> None:
        """End the idle threads now, and every other thread once it has no call to make.

        A call that comes later, from a tool that outlives its runtime, is still made.
        """
        with self._lock:
            self._is_closed = True
            for _ in range(self._idle):
                self._handed.put(None)
            self._idle = 0

    async def call(self, tool: str, fn: Callable[..., Any], values: dict[str, Any]) -> Any:
        """Call the function in a thread; returns what it returns, raises what it raises.

        Raises:
            NotStarted: the call was cancelled before a thread took it.
            CancelledError: the call was cancelled later; its thread goes on, and its result is
                dropped.
        """
        call = _ThreadCall(tool, fn, values)
        self._submit(call)
        try:
            value, error = await call.answer
        except asyncio.CancelledError:
            if self._withdraw(call):
                raise NotStarted(self._full(tool)) from None
            raise
        if error is not None:
            try:
                raise error
            finally:
                del error, call  # else the error's traceback would refer to the error itself
        return value

    def _full(self, tool: str) -> str:
        return f"not started: tool {tool!r} got none of the {self.limit} threads for tools"

    # -- taking calls -------------------------------------------------------------------------

    def _submit(self, call: _ThreadCall) -> None:
        with self._lock:
            if len(self._running) >= self.limit:
                self._waiting.append(call)
                return
            self._running.add(call)
            if self._idle:
                self._idle -= 1
                self._handed.put(call)
                return
        self._start(call)

    def _start(self, call: _ThreadCall) -> None:
        """Start a thread for a call that counts as running."""
        name = f"awaken-tool-{next(_numbers)}"
        # In a list that the thread empties: `Thread` keeps its arguments as long as it runs.
        thread = threading.Thread(target=self._work, args=([call],), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has no more threads
            with self._lock:
                self._running.discard(call)
            why = RuntimeError(f"not started: {error}")
            call.loop.call_soon_threadsafe(call._settle, None, why)

    def _withdraw(self, call: _ThreadCall) -> bool:
        """Abandon a call. Returns `True` if it has not begun; it then never will."""
        with self._lock:
            if call.ended:
                return False
            call.is_abandoned = True
            if not call.begun:
                if call in self._waiting:
                    self._waiting.remove(call)
                return True
            self._running.discard(call)
            self._abandoned.add(call)
            held = len(self._abandoned)
            after = self._next()
        _log.warning(
            "tool %r was abandoned, and still holds its thread (%d such calls): it cannot be "
            "stopped, so another thread may take its place; isolated=True lets it be killed",
            call.tool,
            held,
        )
        if after is not None:
            self._start(after)
        return False

    def _next(self) -> _ThreadCall | None:
        """The call that has waited longest, or `None` if none may run now. The caller holds the
        lock."""
        if not self._waiting or len(self._running) >= self.limit:
            return None
        call = self._waiting.popleft()
        self._running.add(call)
        return call

    # -- threads ------------------------------------------------------------------------------

    def _work(self, first: list[_ThreadCall]) -> None:
        call: _ThreadCall | None = first.pop()
        while call is not None:
            with self._lock:
                call.begun = not call.is_abandoned
            if call.begun:
                call.run()
            with self._lock:
                call.ended = True
                self._running.discard(call)
                self._abandoned.discard(call)
                call = self._next()
                if call is None:
                    if self._is_closed:
                        return
                    self._idle += 1
            if call is None:
                call = self._wait()

    def _wait(self) -> _ThreadCall | None:
        """The next call handed to an idle thread; `None` if none comes for a while, or the pool is
        closed."""
        try:
            return self._handed.get(timeout=KEPT_IDLE)
        except Empty:
            with self._lock:
                try:
                    # Calls are handed over under the lock, so one may have come at the last moment.
                    return self._handed.get_nowait()
                except Empty:
                    self._idle -= 1
                    return None

    def under_way(self) -> list[str]:
        """The tools whose calls hold a thread now, including abandoned calls."""
        with self._lock:
            return sorted(call.tool for call in self._running | self._abandoned)

    def waiting(self) -> list[str]:
        """The tools whose calls wait for a thread, in order."""
        with self._lock:
            return [call.tool for call in self._waiting]


_numbers = itertools.count(1)
_pools: weakref.WeakSet[ToolThreads] = weakref.WeakSet()
_shared = ToolThreads()
"""The threads for tools that are called outside a runtime."""

TOOL_THREADS: ContextVar[ToolThreads] = ContextVar("awaken_tool_threads", default=_shared)
"""The threads of the runtime that the running code belongs to."""


def _forget_all() -> None:
    for pool in tuple(_pools):
        pool.forget()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget_all)


@atexit.register
def _let_end() -> None:
    """Give running calls a few seconds to end before the process exits."""
    ends_at = monotonic() + EXIT_GRACE
    while names := [name for pool in tuple(_pools) for name in pool.under_way()]:
        if monotonic() > ends_at:
            _log.warning("the process ends while tools are under way: %s", ", ".join(names))
            return
        threading.Event().wait(0.01)
