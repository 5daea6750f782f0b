"""A run's events, as they happen."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Self

from awaken.contract.events import EventSink
from awaken.control.tasks import log_end
from awaken.domain.event import (
    ActivityDelta,
    ActivitySnapshot,
    ReasoningDelta,
    RunEvent,
    RunStart,
    StepEnd,
    StepStart,
    StreamReset,
    TextDelta,
    ToolCallCancel,
    ToolCallDelta,
    ToolCallStart,
    ToolCallStreamDelta,
)
from awaken.domain.lifecycle import NATURAL_END
from awaken.errors import ConfigError
from awaken.front.partial import PartialJson
from awaken.front.result import NO_SHAPES, RunResult, Shapes
from awaken.runtime import CANCEL_GRACE

BUFFER = 256
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
_STARTS_OVER = (StreamReset, ToolCallCancel)

WhoSpeaks = Callable[[str], str | None]
"""The agent a live run was handed to; nothing if it is with the one it began with."""


class _Turns:
    """Who speaks in each turn of a run, noted as it begins.

    By the time a turn is read, the run may be with another agent.
    """

    def __init__(self, who_speaks: WhoSpeaks) -> None:
        self._who_speaks = who_speaks
        self._first = ""
        self._agents: dict[str, str] = {}

    def note(self, told: RunEvent) -> None:
        event = told.event
        if isinstance(event, StepStart):
            self._agents[event.message_id] = self._who_speaks(told.run_id) or self._first
        elif isinstance(event, RunStart) and event.identity is not None:
            self._first = event.identity.agent_id

    def take(self, turn: StepStart) -> str:
        return self._agents.pop(turn.message_id, "")


class _Buffer:
    """Between a run and its reader: bounded, one wake-up a batch.

    When it is full, what streams (a model's or a tool's output) waits for the reader; what tells
    of borders and of what is done never does, so that a stalled reader holds up no commit and no
    cancel. A buffer nobody reads any more takes everything and keeps nothing.
    """

    __slots__ = ("_reader", "_writers", "abandoned", "ended", "items", "run_id", "turns")

    def __init__(self, turns: _Turns | None) -> None:
        self.items: deque[RunEvent] = deque()
        self.turns = turns
        self.run_id: str | None = None
        self.ended = False
        self.abandoned = False
        self._reader: asyncio.Future[None] | None = None
        self._writers: list[asyncio.Future[None]] = []

    async def emit(self, event: RunEvent) -> None:
        if self.abandoned:
            return
        self.items.append(event)
        if self.run_id is None:
            self.run_id = event.run_id
        if self.turns is not None and event.run_id == self.run_id:
            self.turns.note(event)
        if self._reader is not None:
            self._wake_reader()
        if len(self.items) >= BUFFER and isinstance(event.event, _STREAMING):
            # Tools that run side by side may all be waiting for room.
            room = asyncio.get_running_loop().create_future()
            self._writers.append(room)
            await room

    async def close(self) -> None:
        self.end()

    def end(self) -> None:
        self.ended = True
        self._wake_reader()

    def abandon(self) -> None:
        self.abandoned = True
        self.items.clear()
        self.wake_writers()

    def _wake_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():
            reader.set_result(None)

    def wake_writers(self) -> None:
        writers, self._writers = self._writers, []
        for room in writers:
            if not room.done():
                room.set_result(None)

    async def filled(self) -> bool:
        """Wait for something to read; false when the run is over and nothing is left."""
        while not self.items:
            self.wake_writers()
            if self.ended:
                return False
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        return True


class RunStream:
    """Use it as `async with runtime.stream(…) as events: async for event in events: …`.

    Each item is a `RunEvent`; match on its `event`. Those of delegates are among them, with their
    own run and thread, and `parent_run_id`. Leaving the block early cancels the run, unless it was
    started detached. `result` is there once the events are read to their end.
    """

    def __init__(
        self,
        start: Callable[[EventSink], Awaitable[RunResult]],
        spawn: Callable[[Awaitable[RunResult]], asyncio.Task[RunResult]],
        cancel: Callable[[str], bool],
        *,
        detached: bool = False,
        shapes: Shapes = NO_SHAPES,
        who_speaks: WhoSpeaks = lambda _: None,
    ) -> None:
        self._shapes = shapes
        self._start = start
        self._spawn = spawn
        self._cancel = cancel
        self._detached = detached
        self._buffer = _Buffer(_Turns(who_speaks) if shapes else None)
        self._task: asyncio.Task[RunResult] | None = None
        self._raised = False

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise ConfigError("a stream is opened once; call runtime.stream(…) again")
        self._task = self._spawn(self._start(self._buffer))
        self._task.add_done_callback(lambda _: self._buffer.end())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        task, ended = self._opened(), self._buffer.ended and not self._buffer.items
        self._buffer.abandon()
        if self._detached and not ended:
            log_end(task, "a run that was detached broke off", log)
            return
        run_id = self._buffer.run_id
        if not task.done() and not (run_id is not None and self._cancel(run_id)):
            # Not a run yet, or between two of them: somebody is being asked for an approval.
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
        # What the reader has not seen yet is raised here, unless another error is on its way.
        failed = not task.cancelled() and task.exception() is not None
        if kind is None and failed and ended and not self._raised:
            task.result()

    def _opened(self) -> asyncio.Task[RunResult]:
        if self._task is None:
            raise ConfigError("open the stream first: async with runtime.stream(…) as events")
        return self._task

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RunEvent:
        """The next event.

        Raises:
            AgentLoopError: the run broke off; all its events were given before.
            ConfigError: the stream was not opened with `async with`.
        """
        task, buffer = self._opened(), self._buffer
        if buffer.items or await buffer.filled():
            return buffer.items.popleft()
        if not task.cancelled() and task.exception() is not None:
            self._raised = True
            task.result()
        raise StopAsyncIteration

    async def text(self) -> AsyncIterator[str]:
        """Only the answer, piece by piece; what delegates say is not part of it."""
        async for event in self:
            if isinstance(event.event, TextDelta) and event.run_id == self._buffer.run_id:
                yield event.event.delta

    async def outputs(self) -> AsyncIterator[Any]:
        """What has come so far of an answer with a shape, as plain data, each time there is more.

        The shape is that of the agent that speaks; what agents without one say is left out. An
        answer may start over, and is then shown from its beginning again: the whole one, checked,
        is the result's `output`. Of a long one, less than a thousandth is not shown by itself.

        Raises:
            ConfigError: no agent that spoke has an output type.
        """
        turns = self._buffer.turns
        if turns is None:
            raise ConfigError("the agent answers with text: give it an output type, or read text()")
        agent, shape, written = "", None, PartialJson()
        has_shape = goes_on = False
        async for told in self:
            event = told.event
            if told.run_id != self._buffer.run_id:
                continue
            if isinstance(event, StepStart) and goes_on:
                turns.take(event)  # the next piece of an answer that reached the output limit
            elif isinstance(event, StepStart):
                goes_on = True
                agent = turns.take(event)
                shape, written = self._shapes.get(agent), PartialJson()
                has_shape |= shape is not None
            elif isinstance(event, StepEnd):
                goes_on = False
            elif isinstance(event, _STARTS_OVER):
                written = PartialJson()
            elif isinstance(event, TextDelta) and shape is not None and written.push(event.delta):
                now = shape.partial(written.value())
                if now is not None:
                    yield now
        if agent and not has_shape and self._has_answered():
            raise ConfigError(
                f"agent {agent!r} answers with text: give it an output type, or read text()"
            )

    def _has_answered(self) -> bool:
        task = self._opened()
        if task.cancelled():
            return False
        result = task.result()
        return result.termination == NATURAL_END and not result.waiting

    @property
    def result(self) -> RunResult:
        """How the run ended.

        Raises:
            ConfigError: it has not ended yet.
        """
        task = self._opened()
        if not task.done():
            raise ConfigError("the run goes on: read its events to their end, or await done()")
        self._raised = True
        return task.result()

    async def done(self) -> RunResult:
        """Read on to the end, and say how the run ended."""
        async for _ in self:
            pass
        return self.result
