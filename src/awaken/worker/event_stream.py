"""Bounded streams of a run's events, which a caller reads while the run is live."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from awaken.core.aio.owned_tasks import log_end
from awaken.core.defaults import CANCEL_GRACE
from awaken.core.event import (
    ActivityDelta,
    ActivitySnapshot,
    EventSink,
    ReasoningDelta,
    RunEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    ToolCallStreamDelta,
)
from awaken.core.run import AgentRunResult
from awaken.errors import ConfigError
from awaken.worker.request import RunRequest
from awaken.worker.worker import Worker

BUFFER = 256
"""How many unread events are buffered before models' and tools' output waits for the reader."""
log = logging.getLogger("awaken.runtime")
_STREAMING = (
    TextDelta,
    ReasoningDelta,
    ToolCallStart,
    ToolCallDelta,
    ToolCallStreamDelta,
    ActivitySnapshot,
    ActivityDelta,
)

R = TypeVar("R")

Start = Callable[[EventSink], Coroutine[Any, Any, R]]
"""Starts a run that emits its events to a sink, and returns its result."""
Observe = Callable[[RunEvent], None]
"""Called with each event when it is emitted, before it is read."""


class EventBuffer:
    """An `EventSink` between a run and one reader: bounded, with one wake-up for a batch.

    When it is full, streamed output of models and tools waits for the reader. Other events never
    wait, so a slow reader cannot delay a commit or a cancel. After `abandon` all events are
    dropped.
    """

    __slots__ = ("_observe", "_reader", "_writers", "abandoned", "ended", "items", "run_id")

    def __init__(self, observe: Observe | None = None) -> None:
        self.items: deque[RunEvent] = deque()
        self.run_id: str | None = None
        self.ended = False
        self.abandoned = False
        self._observe = observe
        self._reader: asyncio.Future[None] | None = None
        self._writers: list[asyncio.Future[None]] = []

    async def emit(self, event: RunEvent) -> None:
        if self.abandoned:
            return
        self.items.append(event)
        if self.run_id is None:
            self.run_id = event.run_id
        if self._observe is not None and event.run_id == self.run_id:
            self._observe(event)
        if self._reader is not None:
            self._wake_reader()
        if len(self.items) >= BUFFER and isinstance(event.event, _STREAMING):
            # A list, because several tools may wait for room at the same time.
            room = asyncio.get_running_loop().create_future()
            self._writers.append(room)
            await room

    async def close(self) -> None:
        self.end()

    def end(self) -> None:
        """Mark the end of the events, and wake the reader, which reads the remaining ones."""
        self.ended = True
        self._wake_reader()

    def abandon(self) -> None:
        """Called when the reader has left: drop all events, and wake the waiting writers."""
        self.abandoned = True
        self.items.clear()
        self._wake_writers()

    def _wake_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():
            reader.set_result(None)

    def _wake_writers(self) -> None:
        writers, self._writers = self._writers, []
        for room in writers:
            if not room.done():
                room.set_result(None)

    async def wait_filled(self) -> bool:
        """Wait for an event. Returns false if the run has ended and all events were read."""
        while not self.items:
            self._wake_writers()
            if self.ended:
                return False
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        return True


class RunEventStream(Generic[R]):
    """The events of a run: `async with stream as events: async for event in events: …`.

    Each item is a `RunEvent`; match on its `event`. The events of delegates are included, with
    their own run and thread ids, and `parent_run_id`. Entering the block starts the run, and waits
    until the store has it: a run that cannot start raises there. Leaving the block early cancels
    the run, unless the stream is detached. `result` is available once all events were read.

    Args:
        runtime: the runtime that owns the run's task.
        start: starts the run.
        check: given for a run that may have to wait for its thread. It raises what is wrong with
            the request; then the stream opens at once, and the run may still fail to start.
        detached: whether leaving the block early lets the run go on.
        observe: called with each event of the run itself, not of delegates, when it is emitted.
    """

    def __init__(
        self,
        runtime: Worker,
        start: Start[R],
        *,
        check: Callable[[], Awaitable[None]] | None = None,
        detached: bool = False,
        observe: Observe | None = None,
    ) -> None:
        self._runtime = runtime
        self._start = start
        self._check = check
        self._detached = detached
        self._buffer = EventBuffer(observe)
        self._task: asyncio.Task[R] | None = None
        self._raised = False

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise ConfigError("a stream is opened once; call runtime.stream(…) again")
        if self._check is not None:
            await self._check()
        task = self._task = self._runtime.owned.start(self._start(self._buffer), "stream")
        task.add_done_callback(lambda _: self._buffer.end())
        if self._check is None:
            await self._wait_started(task)
        return self

    async def _wait_started(self, task: asyncio.Task[R]) -> None:
        """Wait for the run's first event, which is sent when its start is committed."""
        try:
            started = await self._buffer.wait_filled()
        except BaseException as error:
            await self.__aexit__(type(error), error, None)  # the caller was cancelled
            raise
        if not started and not task.cancelled():
            task.result()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        task, ended = self._require_task(), self._buffer.ended and not self._buffer.items
        self._buffer.abandon()
        if self._detached and not ended:
            log_end(task, "a run that was detached broke off", log)
            return
        run_id = self._buffer.run_id
        if not task.done() and not (run_id is not None and self._runtime.cancel_by_run_id(run_id)):
            # No run is live: it has not started, or waits for an approval between activations.
            task.cancel()
        try:
            _, stuck = await asyncio.wait([task], timeout=CANCEL_GRACE)
            if stuck:
                task.cancel()
                await asyncio.wait([task], timeout=CANCEL_GRACE)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not task.done():
            return
        # Raise an error that the reader has not seen, unless the block raised one itself.
        failed = not task.cancelled() and task.exception() is not None
        if kind is None and failed and ended and not self._raised:
            task.result()

    def _require_task(self) -> asyncio.Task[R]:
        if self._task is None:
            raise ConfigError("open the stream first: async with runtime.stream(…) as events")
        return self._task

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RunEvent:
        """The next event.

        Raises:
            AgentLoopError: the run failed; all its events were read before.
            ConfigError: the stream was not opened with `async with`.
        """
        task, buffer = self._require_task(), self._buffer
        if buffer.items or await buffer.wait_filled():
            return buffer.items.popleft()
        if not task.cancelled() and task.exception() is not None:
            self._raised = True
            task.result()
        raise StopAsyncIteration

    @property
    def result(self) -> R:
        """The result of the run.

        Raises:
            ConfigError: the run has not ended yet.
        """
        task = self._require_task()
        if not task.done():
            raise ConfigError("the run goes on: read its events, or await read_to_end()")
        self._raised = True
        return task.result()

    async def read_to_end(self) -> R:
        """Read the remaining events, and return the result of the run."""
        async for _ in self:
            pass
        return self.result


def stream_run(
    runtime: Worker, request: RunRequest, *, detached: bool = False
) -> RunEventStream[AgentRunResult]:
    """A bounded stream of the events of the request's run."""
    return RunEventStream(runtime, lambda sink: runtime.run(request, sink), detached=detached)
