"""The streams that are open: how many, and closing them."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

from starlette.types import Scope

from awaken.core.aio.cancel import CancellationToken
from awaken.core.aio.owned_tasks import start_task
from awaken.errors import AwakenError
from awaken.server.call import Pass

BATCH_SECONDS = 0.01
"""The least time between two writes of live events; what comes meanwhile is written at once."""
MOST_SECONDS = 0.1
"""The most that a stream waits between two writes."""
LOOK_SECONDS = 3.0
"""How often the keys and sessions of open streams are looked at."""
_TIMES_LATE = 10
_SMOOTH = 16
_PROTOCOLS = ("ai-sdk", "ag-ui")
IsGood = Callable[[Pass], Awaitable[bool]]
log = logging.getLogger("awaken.server")


async def _always(held: Pass) -> bool:
    return True


class OpenStreams:
    """The streams of one application. `behind` counts how often a client has let a write wait;
    `seconds_between` is how long a stream waits between two writes.

    A stream ends when the key or the session it was opened with does, a few seconds later:
    `is_good` is asked about each of them, however many streams it has.
    """

    def __init__(self, is_good: IsGood = _always) -> None:
        self._is_good = is_good
        self._open: dict[CancellationToken, str] = {}
        self._passes: dict[CancellationToken, Pass] = {}
        self._looking: asyncio.Task[None] | None = None
        self._is_closed = False
        self._late = 0.0
        self.seconds_between = BATCH_SECONDS
        self.behind = 0

    @contextmanager
    def opened(self, scope: Scope) -> Iterator[CancellationToken]:
        """Count a stream while the block runs; gives the token that closes it."""
        token = CancellationToken()
        self._open[token] = protocol_of(scope["path"])
        if (held := scope.get("pass")) is not None:
            self._passes[token] = held
            self._looking = self._looking or start_task(self._look())
        if self._is_closed:
            token.cancel()
        try:
            yield token
        finally:
            del self._open[token]
            self._passes.pop(token, None)
            if not self._passes and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    async def _look(self) -> None:
        """End the streams of keys and sessions that are not good any more."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for held in set(self._passes.values()):
                try:
                    is_good = await self._is_good(held)
                except AwakenError as error:
                    log.warning("cannot ask whether a stream's key is still good: %s", error)
                    break  # the store is away; streams stay, and are looked at again
                if not is_good:
                    self._end(held)

    def _end(self, held: Pass) -> None:
        for token in [token for token, one in self._passes.items() if one == held]:
            token.cancel()

    async def pause(self) -> None:
        """Wait between two writes of a stream: longer if many streams write at once. If they wrote
        each piece of an answer by itself, the answer would take as long as all these writes; that
        this is so shows in pauses that end late."""
        loop, asked = asyncio.get_running_loop(), self.seconds_between
        due = loop.time() + asked
        await asyncio.sleep(asked)
        self._late += (loop.time() - due - self._late) / _SMOOTH
        self.seconds_between = min(MOST_SECONDS, max(BATCH_SECONDS, self._late * _TIMES_LATE))

    def close(self) -> None:
        """End all streams, and those that are opened from now on."""
        self._is_closed = True
        for token in list(self._open):
            token.cancel()

    def by_protocol(self) -> Mapping[str, int]:
        """How many streams are open."""
        return Counter(self._open.values())


def protocol_of(path: str) -> str:
    """The protocol of a path, as metrics name it."""
    parts = path.split("/", 3)
    return parts[2] if len(parts) > 2 and parts[2] in _PROTOCOLS else "v1"
