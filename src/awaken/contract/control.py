"""Steering a run from outside: cancelling it, deciding for it, writing to it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any

from awaken.codec import Json
from awaken.domain.suspension import Decision
from awaken.errors import Cancelled

QUEUE_LIMIT = 10_000
"""How much a run that does not read may be sent before it is refused."""

log = logging.getLogger("awaken.control")


class CancellationToken:
    """Tells everyone who holds it to stop. Cancelling twice is cancelling once.

    Belongs to one event loop; cancel it from other threads by `loop.call_soon_threadsafe`.
    """

    __slots__ = ("_cancelled", "_handles", "_listeners")

    def __init__(self) -> None:
        self._cancelled = False
        self._handles = 0
        self._listeners: dict[int, Callable[[], object]] = {}

    def cancel(self) -> None:
        if self._cancelled:
            return
        self._cancelled = True
        for listener in tuple(self._listeners.values()):
            listener()
        self._listeners.clear()

    def is_cancelled(self) -> bool:
        return self._cancelled

    async def cancelled(self) -> None:
        """Wait until the token is cancelled; at once if it already is."""
        if self._cancelled:
            return
        done = asyncio.Event()
        handle = self.on_cancel(done.set)
        try:
            await done.wait()
        finally:
            self.forget(handle)

    def on_cancel(self, listener: Callable[[], object]) -> int:
        """Call `listener` when cancelled, at once if that is past; returns a handle to forget."""
        if self._cancelled:
            listener()
            return 0
        self._handles += 1
        self._listeners[self._handles] = listener
        return self._handles

    def forget(self, handle: int) -> None:
        self._listeners.pop(handle, None)

    @classmethod
    def new_pair(cls) -> tuple[CancellationHandle, CancellationToken]:
        """A handle that can only cancel, and the token; dropping the handle cancels nothing."""
        token = cls()
        return CancellationHandle(token), token


class CancellationHandle:
    """The cancelling side of a token, alone."""

    __slots__ = ("_token",)

    def __init__(self, token: CancellationToken) -> None:
        self._token = token

    def cancel(self) -> None:
        self._token.cancel()


class interruptible:
    """Run the block until it ends or the token is cancelled, whichever comes first.

    A cancelled token interrupts whatever the block awaits. No task is made for it: the current
    one (`task`, for a caller who knows it) is cancelled and, here, told to go on. It may be used
    for one block of that task after another.

    Raises:
        Cancelled: the token was cancelled.
    """

    __slots__ = (
        "_before",
        "_begun",
        "_delivered",
        "_handle",
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
        if token._cancelled:
            raise Cancelled
        if self._task is None:
            self._task = asyncio.current_task()
            assert self._task is not None, "interruptible needs a running task"
        self._begun = False
        self._before: int = self._task.cancelling()
        token._handles += 1
        self._handle = token._handles
        token._listeners[self._handle] = self._begin

    def _begin(self) -> None:
        self._begun = True
        self._delivered = False
        self._scheduled: asyncio.Handle | None = None
        loop = self._task.get_loop()
        if asyncio.current_task(loop) is self._task:
            # The block itself is running. Cancelled now, and ending without another await, it
            # would leave the cancellation to whatever the task awaits next.
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
        token._listeners.pop(self._handle, None)
        if not self._begun:
            return
        if kind is None or issubclass(kind, asyncio.CancelledError):
            # The block was cut short, or ended just before the interruption reached it.
            if self._withdraw():
                raise Cancelled from None
            raise asyncio.CancelledError
        self._withdraw()

    def _withdraw(self) -> bool:
        """Take the cancellation back; false if somebody else cancelled the task as well."""
        if self._delivered:
            left: int = self._task.uncancel()
            return left <= self._before
        if self._scheduled is not None:
            self._scheduled.cancel()
        return bool(self._task.cancelling() <= self._before)


def is_ours(error: BaseException) -> bool:
    """Whether an error that came out of user code must pass: it ends the task around that code.

    True if the task itself was cancelled, or its coroutine is being closed. Everything else that
    user code raises, of whatever class, is that code's own failure; so is a `CancelledError` of
    something it awaited. A `KeyboardInterrupt` is not ours either: asyncio tells of Ctrl-C by
    cancelling the main task.
    """
    if not isinstance(error, asyncio.CancelledError | GeneratorExit):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None  # no loop runs: the coroutine is closed by the garbage collector
    return task is None or (isinstance(error, asyncio.CancelledError) and task.cancelling() > 0)


class InboxClosed(Exception):
    """Nobody can write to the inbox any more."""


class _Channel:
    """What the two ends of an inbox share."""

    __slots__ = ("items", "receiver_gone", "senders", "waiter")

    def __init__(self) -> None:
        # A list, for most inboxes stay empty and an empty deque takes ten times its place.
        self.items: list[Json] = []
        self.waiter: asyncio.Future[None] | None = None
        self.senders = 1
        self.receiver_gone = False

    def wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)


class InboxSender:
    """The writing end. `send` answers whether somebody may still read it."""

    __slots__ = ("_channel", "_closed", "_on_closed")

    def __init__(self, channel: _Channel, on_closed: Callable[[Json], None] | None) -> None:
        self._channel = channel
        self._closed = False
        self._on_closed = on_closed

    def send(self, payload: Json) -> bool:
        if self.try_send(payload):
            return True
        if not self._channel.receiver_gone:
            log.warning("an inbox with %d unread payloads takes no more", QUEUE_LIMIT)
        elif self._on_closed is not None:
            self._on_closed(payload)
        return False

    def try_send(self, payload: Json) -> bool:
        if self._channel.receiver_gone or len(self._channel.items) >= QUEUE_LIMIT:
            return False
        self._channel.items.append(payload)
        self._channel.wake()
        return True

    @property
    def is_closed(self) -> bool:
        """Whether nobody will read it any more."""
        return self._channel.receiver_gone

    @property
    def hands_over(self) -> bool:
        """Whether somebody is told of what is sent after the reader is gone."""
        return self._on_closed is not None

    def clone(self) -> InboxSender:
        self._channel.senders += 1
        return InboxSender(self._channel, self._on_closed)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._channel.senders -= 1
            self._channel.wake()


class InboxReceiver:
    """The reading end, in the order of sending."""

    __slots__ = ("_channel",)

    def __init__(self, channel: _Channel) -> None:
        self._channel = channel

    def drain(self) -> list[Json]:
        """Everything there is now."""
        if not self._channel.items:
            return []
        items, self._channel.items = self._channel.items, []
        return items

    def __len__(self) -> int:
        return len(self._channel.items)

    async def recv(self) -> Json:
        """The next payload.

        Raises:
            InboxClosed: all senders are gone and nothing is left.
        """
        await self.ready()
        return self._channel.items.pop(0)

    async def ready(self) -> None:
        """Wait until there is something to read.

        Raises:
            InboxClosed: all senders are gone and nothing is left.
        """
        channel = self._channel
        while not channel.items:
            if channel.senders <= 0:
                raise InboxClosed
            channel.waiter = asyncio.get_running_loop().create_future()
            try:
                await channel.waiter
            finally:
                channel.waiter = None

    async def recv_or_cancel(self, token: CancellationToken | None) -> Json | None:
        """The next payload, or `None` on cancel or when all senders are gone."""
        try:
            with interruptible(token):
                return await self.recv()
        except (Cancelled, InboxClosed):
            return None

    def close(self) -> None:
        self._channel.receiver_gone = True
        self._channel.items.clear()


def inbox_channel(
    on_closed: Callable[[Json], None] | None = None,
) -> tuple[InboxSender, InboxReceiver]:
    """A queue of JSON payloads into a run; it holds `QUEUE_LIMIT` of them at most."""
    channel = _Channel()
    return InboxSender(channel, on_closed), InboxReceiver(channel)


DecisionBatch = tuple[tuple[Decision, ...], int | None]
"""Answers that count together, and the command that brought them."""


class DecisionQueue:
    """Answers on their way to a run, in batches; one that `waits` stays for those still to come."""

    __slots__ = ("_batches", "_waiter", "closed", "waits")

    def __init__(self, *, waits: bool = True) -> None:
        self.waits = waits
        self._batches: list[DecisionBatch] = []
        self._waiter: asyncio.Future[None] | None = None
        self.closed = False

    def send(self, decisions: Sequence[Decision], command: int | None = None) -> bool:
        if self.closed or len(self._batches) >= QUEUE_LIMIT:
            return False
        self._batches.append((tuple(decisions), command))
        self._wake()
        return True

    def drain(self) -> list[DecisionBatch]:
        """All answers that are there."""
        batches, self._batches = self._batches, []
        return batches

    def __len__(self) -> int:
        return len(self._batches)

    def close(self) -> None:
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def ready(self) -> None:
        """Wait until there is an answer, or there will never be one."""
        while not self._batches and not self.closed:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None


async def first_of(*waits: Awaitable[None]) -> None:
    """Return when one of the waits is over; the others are given up."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
