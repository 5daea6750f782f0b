"""The deadline of an activation, and retries while the agent is unreachable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from awaken.backend.a2a.client import AgentRefused
from awaken.clock import Clock
from awaken.core.backend import RemoteError
from awaken.net.pinned import Unanswered

log = logging.getLogger("awaken.backend.a2a")
T = TypeVar("T")

MAX_PAUSE_SECONDS = 30.0
"""The most seconds between two attempts to reach an agent."""


class DeadlinePassed(Exception):
    """The time for the whole activation is over."""


class Deadline:
    """The deadline of an activation, and the waits between attempts.

    Args:
        timeout: seconds for everything, counted from now.
        interval: seconds between two polls.
    """

    def __init__(self, clock: Clock, timeout: float, interval: float) -> None:
        self.clock = clock
        self._ends_at = clock.monotonic() + timeout
        self._interval = interval

    @asynccontextmanager
    async def limit(self) -> AsyncIterator[float]:
        """Limit the block to the remaining time; yields the remaining seconds.

        Raises:
            DeadlinePassed: there is no time left.
        """
        left = self._ends_at - self.clock.monotonic()
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
        left = self._ends_at - self.clock.monotonic()
        longest = max(self._interval, MAX_PAUSE_SECONDS)
        pause = min(self._interval * 2 ** min(failures, 16), longest)
        await self.clock.sleep(max(0.0, min(pause, left)))
        if self.clock.monotonic() >= self._ends_at:
            raise DeadlinePassed

    async def retry(
        self,
        call: Callable[[], Awaitable[T]],
        on_failure: Callable[[RemoteError], Awaitable[None]] | None = None,
    ) -> T:
        """Await `call()` and return its result; while the agent is unreachable, call again.

        Args:
            on_failure: called with each error after which `call` is called again.

        Raises:
            DeadlinePassed: the time is over.
            Refused: the agent refuses.
        """
        failures = 0
        while True:
            try:
                async with self.limit():
                    return await call()
            except (AgentRefused, Unanswered) as error:
                if isinstance(error, AgentRefused) and not error.is_busy:
                    raise
                log.info("asking again: %s", error)
                if on_failure is not None:
                    await on_failure(error)
            await self.pause(failures)
            failures += 1
