"""The time, as an argument: tests and replays bring their own."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for records, monotonic time for durations, and sleeping."""

    def now_ms(self) -> int:
        """Unix milliseconds; never negative, never raising."""
        ...

    def monotonic(self) -> float:
        """Seconds that only go forward."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own time."""

    def now_ms(self) -> int:
        now = time.time_ns() // 1_000_000
        return now if now > 0 else 0

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


SYSTEM_CLOCK = SystemClock()
