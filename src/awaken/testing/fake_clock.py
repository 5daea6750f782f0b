"""A fake clock for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count

from awaken.clock import Timer


class FakeClock:
    """A clock that stands still until `advance`; sleeping tasks wait for that.

    With `auto`, sleeping moves the clock: every sleep returns at once, and its time has passed.
    `sleeps` lists all durations ever asked for, in order.
    """

    def __init__(self, start_ms: int = 1_700_000_000_000, *, auto: bool = False) -> None:
        self.auto = auto
        self.sleeps: list[float] = []
        self._start_ms = start_ms
        # Whole nanoseconds: ten steps of 0.1 s must be one second.
        self._elapsed = 0
        self._order = count()
        self._sleepers: dict[int, tuple[int, asyncio.Future[None]]] = {}
        self._watchers: list[tuple[int, asyncio.Future[None]]] = []
        self._timers: dict[int, tuple[int, Callable[[], object]]] = {}

    def now_ms(self) -> int:
        return self._start_ms + self._elapsed // 1_000_000

    def monotonic(self) -> float:
        return self._elapsed / 1e9

    @property
    def sleeping(self) -> int:
        """How many tasks wait for the clock now."""
        return len(self._sleepers)

    async def until_sleeping(self, count: int = 1) -> None:
        """Wait until at least `count` tasks wait for the clock."""
        if self.sleeping < count:
            enough: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            watcher = (count, enough)
            self._watchers.append(watcher)
            try:
                await enough
            finally:
                self._watchers.remove(watcher)

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        if self.auto and seconds > 0:
            self.advance(seconds)
        if self.auto or seconds <= 0:
            await asyncio.sleep(0)
            return
        number = next(self._order)
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers[number] = (self._elapsed + _nanoseconds(seconds), woken)
        for wanted, enough in self._watchers:
            if self.sleeping >= wanted and not enough.done():
                enough.set_result(None)
        try:
            await woken
        finally:
            self._sleepers.pop(number, None)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        number = next(self._order)
        self._timers[number] = (self._elapsed + _nanoseconds(seconds), callback)
        return _FakeTimer(self._timers, number)

    def advance(self, seconds: float) -> None:
        """Let time pass: wake the tasks whose sleep is over, earliest first, then call due timers.

        Woken tasks run when the caller next awaits; by then all of `seconds` has passed.
        """
        if seconds < 0:
            raise ValueError(f"time only goes forward, not by {seconds} seconds")
        self._elapsed += _nanoseconds(seconds)
        due = sorted(
            (at, number) for number, (at, _) in self._sleepers.items() if at <= self._elapsed
        )
        for _, number in due:
            _, woken = self._sleepers.pop(number)
            if not woken.done():
                woken.set_result(None)
        due_timers = sorted((at, n) for n, (at, _) in self._timers.items() if at <= self._elapsed)
        for _, number in due_timers:
            _, callback = self._timers.pop(number)
            asyncio.get_running_loop().call_soon(callback)


class _FakeTimer:
    """A timer of a fake clock."""

    def __init__(self, timers: dict[int, tuple[int, Callable[[], object]]], number: int) -> None:
        self._timers, self._number = timers, number

    def cancel(self) -> None:
        self._timers.pop(self._number, None)


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
