"""The deadline of an activation, and retries while the agent is unreachable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from awaken.backend.a2a.client import Refused
from awaken.clock import Clock
from awaken.core.backend import RemoteError
from awaken.net.pinned import Unanswered

log = logging.getLogger("awaken.backend.a2a")
T = TypeVar("T")

LONGEST_PAUSE = 30.0
"""The most seconds between two attempts to reach an agent."""


class DeadlinePassed(Exception):
    """The time for the whole activation is over."""


class Patience:
    """Keeps the deadline of an activation, and waits between attempts.

    Args:
        timeout: seconds for everything, counted from now.
        interval: seconds between two polls.
    """

    def __init__(self, clock: Clock, timeout: float, interval: float) -> None:
        self.clock = clock
        self._deadline = clock.monotonic() + timeout
        self._interval = interval

    @asynccontextmanager
    async def in_time(self) -> AsyncIterator[float]:
        """Limits the block to the remaining time; yields the seconds that are left.

        Raises:
            DeadlinePassed: there is no time left.
        """
        left = self._deadline - self.clock.monotonic()
        if left <= 0:
            raise DeadlinePassed
        scope = asyncio.timeout(left)
        try:
            async with scope:
                yield left
        except TimeoutError:
            if scope.expired():
                raise DeadlinePassed from None
            raise

    async def pause(self, failures: int = 0) -> None:
        """Wait before the next attempt; the more have failed, the longer.

        Raises:
            DeadlinePassed: the time is over before the next attempt.
        """
        left = self._deadline - self.clock.monotonic()
        longest = max(self._interval, LONGEST_PAUSE)
        pause = min(self._interval * 2 ** min(failures, 16), longest)
        await self.clock.sleep(max(0.0, min(pause, left)))
        if self.clock.monotonic() >= self._deadline:
            raise DeadlinePassed

    async def ask(
        self,
        question: Callable[[], Awaitable[T]],
        tell: Callable[[RemoteError], Awaitable[None]] | None = None,
    ) -> T:
        """Call `question` and return its result; while the agent is unreachable, it is called
        again.

        Args:
            tell: is called with every failure but the last.

        Raises:
            DeadlinePassed: the time is over.
            Refused: the agent refuses.
        """
        failures = 0
        while True:
            try:
                async with self.in_time():
                    return await question()
            except (Refused, Unanswered) as error:
                if isinstance(error, Refused) and not error.is_busy:
                    raise
                log.info("asking again: %s", error)
                if tell is not None:
                    await tell(error)
            await self.pause(failures)
            failures += 1
