"""Not waiting for ever for a stream that has fallen silent."""

from __future__ import annotations

import asyncio
import functools
import re
from typing import Any

from awaken.clock import Clock
from awaken.contract.llm import InferenceRequest, StreamInterrupted, StreamListener

STALLED = "idle stall"
LOOK_EVERY = 0.25

_THINKS = re.compile(r"thinking|reasoning|^o[134]", re.IGNORECASE)


def idle_window(seconds: float, request: InferenceRequest) -> float:
    """How long a stream may be silent: a model that thinks first gets twice the time."""
    overrides = request.overrides
    if overrides is not None and overrides.reasoning_effort is not None:
        return seconds * 2
    return seconds * 2 if _thinks(request.upstream_model) else seconds


@functools.lru_cache(maxsize=256)
def _thinks(upstream_model: str) -> bool:
    return _THINKS.search(upstream_model) is not None


class Watchman:
    """Cuts streams short of which nothing has come for a whole window.

    It looks after all streams of an executor every now and then, as long as there are any: nothing
    is done for each piece that comes, and next to nothing for a stream that is soon over.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._streams: dict[StreamListener, tuple[asyncio.Task[Any] | None, float]] = {}
        self._heard: dict[StreamListener, tuple[int, float]] = {}
        self._cut: dict[StreamListener, int] = {}

    def begin(self, listener: StreamListener, window: float) -> None:
        """Look after the stream the current task is about to listen to."""
        loop = asyncio.get_running_loop()
        self._streams[listener] = asyncio.current_task(loop), window
        if self._loop is not loop:
            self._loop = loop
            self._clock.call_later(LOOK_EVERY, self._look)

    def end(self, listener: StreamListener) -> None:
        """The stream is over, one way or another."""
        self._streams.pop(listener, None)
        if self._heard:
            self._heard.pop(listener, None)

    def raise_if_cut(self, listener: StreamListener) -> None:
        """
        Raises:
            StreamInterrupted: the task was cancelled here, and by nobody else.
        """
        before, task = self._cut.pop(listener, None), asyncio.current_task()
        if before is not None and task is not None and task.uncancel() <= before:
            raise StreamInterrupted(STALLED, listener.snapshot()) from None

    def _look(self) -> None:
        self._loop = None
        if not self._streams:
            return
        now = self._clock.monotonic()
        for listener, (task, window) in tuple(self._streams.items()):
            self._look_at(listener, task, window, now)
        self._loop = asyncio.get_running_loop()
        self._clock.call_later(LOOK_EVERY, self._look)

    def _look_at(
        self, listener: StreamListener, task: asyncio.Task[Any] | None, window: float, now: float
    ) -> None:
        waits_for_others = listener.look()
        seen, since = self._heard.get(listener, (-1, now))
        if waits_for_others or listener.progress != seen:
            self._heard[listener] = listener.progress, now
        # A task that is being cancelled already is about to end.
        elif window and now - since >= window and task is not None and not task.cancelling():
            self._cut[listener] = task.cancelling()
            self.end(listener)
            task.cancel()
