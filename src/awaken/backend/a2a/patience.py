"""One deadline for a whole turn, and how often an agent that is away is asked again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from awaken.backend.a2a.client import Refused
from awaken.backend.a2a.http import Unanswered
from awaken.clock import Clock
from awaken.contract.backend import RemoteError

log = logging.getLogger("awaken.backend.a2a")
T = TypeVar("T")

LONGEST_PAUSE = 30.0
"""The most seconds between two looks at an agent that is away."""


class DeadlinePassed(Exception):
    """The time for the whole turn is over."""


class Patience:
    """How long a turn may take, and how it waits.

    Args:
        timeout: seconds for everything; they begin now.
        interval: seconds between two looks at the same thing.
    """

    def __init__(self, clock: Clock, timeout: float, interval: float) -> None:
        self.clock = clock
        self._deadline = clock.monotonic() + timeout
        self._interval = interval

    @asynccontextmanager
    async def in_time(self) -> AsyncIterator[float]:
        """What is done inside ends with the turn's time; gives the seconds that are left.

        Raises:
            DeadlinePassed: there are none.
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
        """Wait for the next look, the longer the more have failed.

        Raises:
            DeadlinePassed: there will be none.
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
        """What `question` gives; an agent that is away is asked again as long as there is time.

        Args:
            tell: is told of every failure but the last.

        Raises:
            DeadlinePassed: the time is over.
            Refused: it is there, and refuses.
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
