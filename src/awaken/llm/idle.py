"""Not waiting for ever for a stream that has fallen silent."""

from __future__ import annotations

import asyncio
import functools
import re
from typing import Any

from awaken.clock import Clock
from awaken.contract.listener import Listener
from awaken.contract.llm import InferenceRequest, StreamInterrupted

STALLED = "idle stall"
LOOK_EVERY = 0.25

_THINKS = re.compile(r"thinking|reasoning|^o[134]", re.IGNORECASE)

Streams = dict[Listener, InferenceRequest]


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

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        self._rounds: dict[asyncio.AbstractEventLoop, _Round] = {}

    def streams(self, task: asyncio.Task[Any] | None) -> Streams:
        """The streams that are looked after in a task's event loop; put one in, and take it out."""
        # On Python 3.11 asking for the running loop is a system call.
        loop = task.get_loop() if task is not None else asyncio.get_running_loop()
        known = self._rounds.get(loop)
        if known is None:
            known = self._begin(loop)
        return known.streams

    def _begin(self, loop: asyncio.AbstractEventLoop) -> _Round:
        for gone in [each for each in tuple(self._rounds) if each.is_closed()]:
            self._rounds.pop(gone, None)
        begun = self._rounds[loop] = _Round()
        self._clock.call_later(LOOK_EVERY, functools.partial(self._look, loop))
        return begun

    def raise_if_cut(self, listener: Listener) -> None:
        """
        Raises:
            StreamInterrupted: the task was cancelled here, and by nobody else.
        """
        # Whoever it was: a cancellation from here must not outlive the stream.
        known, task = self._rounds.get(asyncio.get_running_loop()), listener.task
        before = known.cut.pop(listener, None) if known is not None else None
        if before is not None and task is not None and task.uncancel() <= before:
            raise StreamInterrupted(STALLED, listener.snapshot()) from None

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        known = self._rounds[loop]
        if known.streams or known.cut:
            known.look(self._clock.monotonic(), self._seconds)
            self._clock.call_later(LOOK_EVERY, functools.partial(self._look, loop))
        else:
            del self._rounds[loop]


class _Round:
    """The streams of one event loop, what was heard of them and when, and those that were cut."""

    __slots__ = ("cut", "heard", "streams")

    def __init__(self) -> None:
        self.streams: Streams = {}
        self.heard: dict[Listener, tuple[int, float]] = {}
        self.cut: dict[Listener, int] = {}

    def look(self, now: float, seconds: float) -> None:
        heard: dict[Listener, tuple[int, float]] = {}
        for listener, request in tuple(self.streams.items()):
            waits_for_others, progress = listener.look(), listener.progress
            seen, since = self.heard.get(listener, (-1, now))
            if waits_for_others or progress != seen:
                since = now
            heard[listener] = progress, since
            window = idle_window(seconds, request)
            if window and now - since >= window:
                self._cut_short(listener)
        self.heard = heard

    def _cut_short(self, listener: Listener) -> None:
        task = listener.task
        # A task that is being cancelled already is about to end.
        if task is not None and not task.cancelling():
            self.cut[listener] = task.cancelling()
            self.streams.pop(listener, None)
            task.cancel()
