"""Clocks. They are passed as arguments, so that tests and replays can use their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic, time_ns
from typing import Protocol

__all__ = ["SYSTEM_CLOCK", "Clock", "SystemClock", "Timer"]


class Timer(Protocol):
    """A scheduled call, which can be cancelled."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Wall time for records, monotonic time for durations, and timers."""

    def now_ms(self) -> int:
        """Unix time in milliseconds; never negative, and never raises."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Let the running event loop call `callback` after `seconds`."""
        ...


class SystemClock:
    """The clock of the machine and of the running event loop."""

    _last = 0

    def now_ms(self) -> int:
        now, last = time_ns() // 1_000_000, self._last
        if now == last:
            return last  # one object for one instant: a busy process keeps very many of them
        self._last = now = max(now, 0)
        return now

    monotonic = staticmethod(monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)


SYSTEM_CLOCK = SystemClock()
