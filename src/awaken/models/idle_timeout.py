"""Cancelling streams that have been silent for too long."""

from __future__ import annotations

import asyncio
import functools
import logging
import re
from typing import Any

from awaken.clock import Clock
from awaken.core.llm import AnswerListener, InferenceRequest, StreamInterrupted

STALLED = "idle stall"
CHECK_SECONDS = 0.25

log = logging.getLogger("awaken.llm")

_THINKS = re.compile(r"thinking|reasoning|^o[134]", re.IGNORECASE)

WatchedStreams = dict[AnswerListener, InferenceRequest]


def idle_window(seconds: float, request: InferenceRequest) -> float:
    """How long a stream may be silent: a model that thinks first gets twice the time."""
    overrides = request.overrides
    if overrides is not None and overrides.timeout is not None:
        return overrides.timeout
    if overrides is not None and overrides.reasoning_effort is not None:
        return seconds * 2
    return seconds * 2 if _is_thinking_model(request.upstream_model) else seconds


@functools.lru_cache(maxsize=256)
def _is_thinking_model(upstream_model: str) -> bool:
    return _THINKS.search(upstream_model) is not None


class IdleTimeout:
    """Cancels the tasks of streams that have delivered no event for a whole window.

    It checks all open streams of an executor at intervals, so that it costs nothing for each piece
    that arrives, and next to nothing for a short stream.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        self._streams: dict[asyncio.AbstractEventLoop, WatchedStreams] = {}

    def streams(self, task: asyncio.Task[Any] | None) -> WatchedStreams:
        """The watched streams of a task's event loop; the caller adds a stream, and removes it
        again.

        A stream that is missing then was cancelled for being silent.
        """
        # On Python 3.11, asking for the running loop is a system call.
        loop = task.get_loop() if task is not None else asyncio.get_running_loop()
        known = self._streams.get(loop)
        return known if known is not None else self._start_checks(loop)

    def _start_checks(self, loop: asyncio.AbstractEventLoop) -> WatchedStreams:
        for gone in [each for each in tuple(self._streams) if each.is_closed()]:
            self._streams.pop(gone, None)
        begun = self._streams[loop] = {}
        self._schedule_check(loop)
        return begun

    def _check_streams(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        streams, now = self._streams[loop], self._clock.monotonic()
        if not streams:
            del self._streams[loop]
            return
        if now > due + CHECK_SECONDS:
            # The event loop was blocked, so streams could not deliver either: they go first.
            loop.call_soon(self._check_streams, loop, now)
            return
        self._schedule_check(loop)
        for listener, request in tuple(streams.items()):
            try:
                if self._is_stalled(listener, request, now):
                    del streams[listener]
                    listener.task.cancel()  # type: ignore[union-attr]  # a stalled stream has a task
            except Exception:
                log.exception("a stream of model %s cannot be watched", request.upstream_model)

    def _schedule_check(self, loop: asyncio.AbstractEventLoop) -> None:
        due = self._clock.monotonic() + CHECK_SECONDS
        self._clock.call_later(CHECK_SECONDS, functools.partial(self._check_streams, loop, due))

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
        StreamInterrupted: the idle timeout cancelled the stream, and no other code cancelled the
            task.
    """
    _, _, before = listener.seen
    # Always uncancel: a cancellation from here must not outlive the stream.
    if listener.task is not None and listener.task.uncancel() <= before:
        raise StreamInterrupted(STALLED, listener.snapshot()) from None
