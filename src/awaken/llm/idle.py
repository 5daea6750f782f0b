"""Not waiting for ever for a stream that has fallen silent."""

from __future__ import annotations

import re
from types import TracebackType

from awaken.clock import Clock
from awaken.contract.control import CancellationToken, interruptible
from awaken.contract.llm import InferenceRequest, StreamInterrupted, StreamListener
from awaken.errors import Cancelled

STALLED = "idle stall"
LOOK_EVERY = 0.25

_THINKS = re.compile(r"thinking|reasoning|^o[134]", re.IGNORECASE)


def idle_window(seconds: float, request: InferenceRequest) -> float:
    """How long a stream may be silent: a model that thinks first gets twice the time."""
    overrides = request.overrides
    thinks = overrides is not None and overrides.reasoning_effort is not None
    return seconds * 2 if thinks or _THINKS.search(request.upstream_model) else seconds


class IdleWatch:
    """Cuts the block short when its listener has heard nothing for a whole window.

    Nothing is done for each piece that comes: the watch looks every now and then, and the
    listener with it.

    Raises:
        StreamInterrupted: nothing came for too long.
    """

    __slots__ = ("_clock", "_guard", "_listener", "_seen", "_since", "_stall", "_timer", "_window")

    def __init__(self, window: float, listener: StreamListener, clock: Clock) -> None:
        self._window, self._listener, self._clock = window, listener, clock
        self._stall = CancellationToken()
        self._guard = interruptible(self._stall)

    def __enter__(self) -> None:
        self._seen = self._listener.progress
        self._since = self._clock.monotonic()
        self._guard.__enter__()
        self._timer = self._clock.call_later(LOOK_EVERY, self._look)

    def _look(self) -> None:
        self._listener.look()
        progress, now = self._listener.progress, self._clock.monotonic()
        if progress != self._seen:
            self._seen, self._since = progress, now
        elif self._window and now - self._since >= self._window:
            return self._stall.cancel()
        self._timer = self._clock.call_later(LOOK_EVERY, self._look)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        try:
            self._guard.__exit__(kind, error, trace)
        except Cancelled:
            # What had ended just before it was cut short has ended well.
            if kind is not None:
                raise StreamInterrupted(STALLED, self._listener.snapshot()) from None
