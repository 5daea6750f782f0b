"""Cutting off streams that have fallen silent."""

from __future__ import annotations

import asyncio
import functools
import logging
import re
from typing import Any

from awaken.clock import Clock
from awaken.core.llm import AnswerListener, InferenceRequest, StreamInterrupted

STALLED = "idle stall"
LOOK_EVERY = 0.25

log = logging.getLogger("awaken.llm")

_THINKS = re.compile(r"thinking|reasoning|^o[134]", re.IGNORECASE)

Streams = dict[AnswerListener, InferenceRequest]


def idle_window(seconds: float, request: InferenceRequest) -> float:
    """How long a stream may be silent: a model that thinks first gets twice the time."""
    overrides = request.overrides
    if overrides is not None and overrides.timeout is not None:
        return overrides.timeout
    if overrides is not None and overrides.reasoning_effort is not None:
        return seconds * 2
    return seconds * 2 if _thinks(request.upstream_model) else seconds


@functools.lru_cache(maxsize=256)
def _thinks(upstream_model: str) -> bool:
    return _THINKS.search(upstream_model) is not None


class Watchman:
    """Cuts off streams from which nothing has come for a whole window.

    It checks all open streams of an executor at intervals, so that it costs nothing for each piece
    that arrives, and next to nothing for a short stream.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        self._streams: dict[asyncio.AbstractEventLoop, Streams] = {}

    def streams(self, task: asyncio.Task[Any] | None) -> Streams:
        """The watched streams of a task's event loop; the caller adds a stream, and removes it
        again.

        A stream that is missing then was cut off.
        """
        # On Python 3.11, asking for the running loop is a system call.
        loop = task.get_loop() if task is not None else asyncio.get_running_loop()
        known = self._streams.get(loop)
        return known if known is not None else self._begin(loop)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> Streams:
        for gone in [each for each in tuple(self._streams) if each.is_closed()]:
            self._streams.pop(gone, None)
        begun = self._streams[loop] = {}
        self._look_later(loop)
        return begun

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        streams, now = self._streams[loop], self._clock.monotonic()
        if not streams:
            del self._streams[loop]
            return
        if now > due + LOOK_EVERY:
            # The event loop was blocked, so streams could not deliver either: they go first.
            loop.call_soon(self._look, loop, now)
            return
        self._look_later(loop)
        for listener, request in tuple(streams.items()):
            try:
                if self._is_stalled(listener, request, now):
                    del streams[listener]
                    listener.task.cancel()  # type: ignore[union-attr]  # a stalled stream has a task
            except Exception:
                log.exception("a stream of model %s cannot be watched", request.upstream_model)

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        due = self._clock.monotonic() + LOOK_EVERY
        self._clock.call_later(LOOK_EVERY, functools.partial(self._look, loop, due))

    def _is_stalled(self, listener: AnswerListener, request: InferenceRequest, now: float) -> bool:
        waits_for_others, progress = listener.poll(), listener.progress
        seen, since, cancelled = listener.seen
        task = listener.task
        if waits_for_others or progress != seen:
            listener.seen = progress, now, task.cancelling() if task is not None else 0
            return False
        window = idle_window(self._seconds, request)
        # A task that is being cancelled already is about to end.
        is_ours = task is not None and task.cancelling() == cancelled
        return is_ours and window > 0 and now - since >= window


def raise_stalled(listener: AnswerListener) -> None:
    """
    Raises:
        StreamInterrupted: the stream was cut off here, and no other code cancelled the task.
    """
    _, _, before = listener.seen
    # Always uncancel: a cancellation from here must not outlive the stream.
    if listener.task is not None and listener.task.uncancel() <= before:
        raise StreamInterrupted(STALLED, listener.snapshot()) from None
