"""Not waiting for ever for a stream that has fallen silent."""

from __future__ import annotations

import asyncio
import functools
import re
from types import TracebackType

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
    """Looks after all streams of an executor, every now and then, as long as there are any.

    Nothing is done for each piece that comes, and next to nothing for a stream that is soon over.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self.watches: dict[IdleWatch, None] = {}

    def begin(self) -> None:
        """See to it that somebody looks; in another event loop that has to begin anew."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            self._clock.call_later(LOOK_EVERY, self._look)

    def _look(self) -> None:
        self._loop = None
        if self.watches:
            now = self._clock.monotonic()
            for watch in tuple(self.watches):
                watch.look(now)
            self.begin()


class IdleWatch:
    """Cuts the block short when its listener has heard nothing for a whole window.

    Raises:
        StreamInterrupted: nothing came for too long.
    """

    __slots__ = (
        "_before",
        "_listener",
        "_seen",
        "_since",
        "_stalled",
        "_task",
        "_watches",
        "_window",
    )

    def __init__(self, watchman: Watchman, listener: StreamListener, window: float) -> None:
        self._listener, self._window = listener, window
        self._seen, self._stalled = -1, False
        self._task = task = asyncio.current_task()
        self._before = task.cancelling() if task is not None else 0
        self._watches = watchman.watches
        self._watches[self] = None
        watchman.begin()

    def __enter__(self) -> None:
        return

    def look(self, now: float) -> None:
        """Note what came, and cut the block short if that was too long ago."""
        waits_for_others = self._listener.look()
        progress, task = self._listener.progress, self._task
        if progress != self._seen or waits_for_others:
            self._seen, self._since = progress, now
        elif self._window and now - self._since >= self._window and task is not None:
            self._watches.pop(self, None)
            if task.cancelling() == self._before:  # else it is about to end
                self._stalled = True
                task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._watches.pop(self, None)
        if not self._stalled or self._task is None:
            return
        mine_alone = self._task.uncancel() <= self._before
        # Somebody else may have cancelled the task as well: then it is to end.
        if mine_alone and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise StreamInterrupted(STALLED, self._listener.snapshot()) from None
