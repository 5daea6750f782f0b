"""Cancellation: tokens, blocks that a token interrupts, and which errors must not be caught."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

from awaken.errors import Cancelled


class CancellationToken:
    """A flag that asks running work to stop. Cancelling it a second time has no effect.

    A token belongs to one event loop; from other threads, cancel it with
    `loop.call_soon_threadsafe`. `fired` says whether it was cancelled.
    """

    __slots__ = ("_handles", "_listeners", "fired")

    def __init__(self) -> None:
        self.fired = False
        self._handles = 0
        # By handle, or by itself if it is an `interruptible`.
        self._listeners: dict[object, Callable[[], object]] = {}

    def cancel(self) -> None:
        if self.fired:
            return
        self.fired = True
        for listener in tuple(self._listeners.values()):
            listener()
        self._listeners.clear()

    def is_cancelled(self) -> bool:
        return self.fired

    async def cancelled(self) -> None:
        """Wait until the token is cancelled; return at once if it already is."""
        if self.fired:
            return
        done = asyncio.Event()
        handle = self.on_cancel(done.set)
        try:
            await done.wait()
        finally:
            self.forget(handle)

    def on_cancel(self, listener: Callable[[], object]) -> int:
        """Call `listener` when the token is cancelled, at once if it already is.

        Returns a handle for `forget`.
        """
        if self.fired:
            listener()
            return 0
        self._handles += 1
        self._listeners[self._handles] = listener
        return self._handles

    def forget(self, handle: int) -> None:
        self._listeners.pop(handle, None)

    @classmethod
    def new_pair(cls) -> tuple[CancellationHandle, CancellationToken]:
        """A new token, and a handle that can only cancel it. Dropping the handle has no effect."""
        token = cls()
        return CancellationHandle(token), token


class CancellationHandle:
    """Can cancel a token, and cannot wait for it."""

    __slots__ = ("_token",)

    def __init__(self, token: CancellationToken) -> None:
        self._token = token

    def cancel(self) -> None:
        self._token.cancel()


class interruptible:
    """A context manager: its block runs until it ends or the token is cancelled.

    Cancelling the token interrupts what the block awaits. No task is created for this: the current
    task (`task`, if the caller passes it) is cancelled, and this class takes the cancellation
    back. One instance may be used for several blocks of that task, one after another.

    Raises:
        Cancelled: the token was cancelled.
    """

    __slots__ = (
        "_before",
        "_begun",
        "_delivered",
        "_scheduled",
        "_task",
        "_token",
    )

    def __init__(
        self, token: CancellationToken | None, task: asyncio.Task[Any] | None = None
    ) -> None:
        self._token = token
        self._task: Any = task
        self._begun = False

    def __enter__(self) -> None:
        token = self._token
        if token is None:
            return
        if token.fired:
            raise Cancelled
        if self._task is None:
            self._task = asyncio.current_task()
            assert self._task is not None, "interruptible needs a running task"
        self._begun = False
        self._before: int = self._task.cancelling()
        token._listeners[self] = self

    def __call__(self) -> None:
        """Interrupt the block: its token was cancelled."""
        self._begun = True
        self._delivered = False
        self._scheduled: asyncio.Handle | None = None
        loop = self._task.get_loop()
        if asyncio.current_task(loop) is self._task:
            # The block's own code is cancelling the token. If the task were cancelled now and the
            # block ended without another await, a later await would get the cancellation.
            self._scheduled = loop.call_soon(self._deliver)
        else:
            self._deliver()

    def _deliver(self) -> None:
        self._delivered = True
        self._task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        token = self._token
        if token is None:
            return
        token._listeners.pop(self, None)
        if not self._begun:
            return
        if kind is None or issubclass(kind, asyncio.CancelledError):
            # The block was interrupted, or ended just before the interruption reached it.
            if self._withdraw():
                raise Cancelled from None
            raise asyncio.CancelledError
        self._withdraw()

    def _withdraw(self) -> bool:
        """Take our cancellation back. Returns `False` if other code cancelled the task as well."""
        if self._delivered:
            left: int = self._task.uncancel()
            return left <= self._before
        if self._scheduled is not None:
            self._scheduled.cancel()
        return bool(self._task.cancelling() <= self._before)


def is_cancellation(error: BaseException) -> bool:
    """Whether an error raised in user code must be raised again, because it ends our own task.

    True if the task itself was cancelled, or its coroutine is being closed. Every other error is a
    failure of the user code, whatever its class; also a `CancelledError` from something that code
    awaited, and a `KeyboardInterrupt`: asyncio reports Ctrl-C by cancelling the main task.
    """
    if not isinstance(error, asyncio.CancelledError | GeneratorExit):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None  # no loop runs: the garbage collector is closing the coroutine
    return task is None or (isinstance(error, asyncio.CancelledError) and task.cancelling() > 0)


async def wait_first(*waits: Awaitable[None]) -> None:
    """Return when the first of the awaitables ends; the others are cancelled."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
