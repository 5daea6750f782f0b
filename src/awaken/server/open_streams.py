"""The streams that are open: how many, and closing them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from starlette.types import Scope

from awaken.control.cancel import CancellationToken

BATCH_SECONDS = 0.01
"""The least time between two writes of live events; what comes meanwhile is written at once."""
MOST_SECONDS = 0.1
"""The most that a stream waits between two writes."""
_TIMES_LATE = 10
_SMOOTH = 16
_PROTOCOLS = ("ai-sdk", "ag-ui")


class OpenStreams:
    """The streams of one application. `behind` counts how often a client has let a write wait;
    `seconds_between` is how long a stream waits between two writes."""

    def __init__(self) -> None:
        self._open: dict[CancellationToken, str] = {}
        self._is_closed = False
        self._late = 0.0
        self.seconds_between = BATCH_SECONDS
        self.behind = 0

    @contextmanager
    def opened(self, scope: Scope) -> Iterator[CancellationToken]:
        """Count a stream while the block runs; gives the token that closes it."""
        token = CancellationToken()
        self._open[token] = protocol_of(scope["path"])
        if self._is_closed:
            token.cancel()
        try:
            yield token
        finally:
            del self._open[token]

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
