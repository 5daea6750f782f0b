"""The time, as an argument: tests and replays bring their own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """Something that will be called."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Wall time for records, monotonic time for durations, sleeping and being called."""

    def now_ms(self) -> int:
        """Unix milliseconds; never negative, never raising."""
        ...

    def monotonic(self) -> float:
        """Seconds that only go forward."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Have `callback` called by the running event loop after that time."""
        ...


class SystemClock:
    """The machine's own time."""

    def now_ms(self) -> int:
        now = time.time_ns() // 1_000_000
        return now if now > 0 else 0

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)


SYSTEM_CLOCK = SystemClock()
