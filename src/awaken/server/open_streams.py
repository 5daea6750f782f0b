"""Counts the open streams of an application, and closes them."""

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
from awaken.server.call import Credential

MIN_PAUSE_SECONDS = 0.01
"""The shortest time between two writes of live events; events that come meanwhile are written
together."""
MAX_PAUSE_SECONDS = 0.1
"""The longest time that a stream waits between two writes."""
CHECK_SECONDS = 3.0
"""Seconds between two checks of the keys and sessions of open streams."""
_TIMES_LATE = 10
_SMOOTH = 16
_PROTOCOLS = ("ai-sdk", "ag-ui")
IsValid = Callable[[Credential], Awaitable[bool]]
log = logging.getLogger("awaken.server")


async def _is_always_valid(credential: Credential) -> bool:
    return True


class OpenStreams:
    """The streams of one application. `behind` counts how often a write had to wait for a client;
    `seconds_between` is how long a stream waits between two writes.

    A stream is closed a few seconds after the key or the session that it was opened with has ended:
    `is_valid` is called for each of them, however many streams it has.
    """

    def __init__(self, is_valid: IsValid = _is_always_valid) -> None:
        self._is_valid = is_valid
        self._open: dict[CancellationToken, str] = {}
        self._credentials: dict[CancellationToken, Credential] = {}
        self._checking: asyncio.Task[None] | None = None
        self._is_closed = False
        self._late = 0.0
        self.seconds_between = MIN_PAUSE_SECONDS
        self.behind = 0

    @contextmanager
    def track(self, scope: Scope) -> Iterator[CancellationToken]:
        """Count a stream while the block runs; gives the token that closes the stream."""
        token = CancellationToken()
        self._open[token] = protocol_of(scope["path"])
        if (credential := scope.get("credential")) is not None:
            self._credentials[token] = credential
            self._checking = self._checking or start_task(self._check_credentials())
        if self._is_closed:
            token.cancel()
        try:
            yield token
        finally:
            del self._open[token]
            self._credentials.pop(token, None)
            if not self._credentials and self._checking is not None:
                self._checking.cancel()
                self._checking = None

    async def _check_credentials(self) -> None:
        """Close the streams whose key or session is not valid any more."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for credential in set(self._credentials.values()):
                try:
                    is_valid = await self._is_valid(credential)
                except AwakenError as error:
                    log.warning("cannot ask whether a stream's key is still good: %s", error)
                    break  # the store is unavailable: streams stay open until the next check
                if not is_valid:
                    self._close_streams_of(credential)

    def _close_streams_of(self, credential: Credential) -> None:
        for token in [token for token, one in self._credentials.items() if one == credential]:
            token.cancel()

    async def pause(self) -> None:
        """Wait between two writes of a stream: longer if many streams write at once. The process
        could not keep up if each stream wrote every piece of an answer by itself; it notices this
        from pauses that end late."""
        loop, seconds = asyncio.get_running_loop(), self.seconds_between
        due = loop.time() + seconds
        await asyncio.sleep(seconds)
        self._late += (loop.time() - due - self._late) / _SMOOTH
        self.seconds_between = min(
            MAX_PAUSE_SECONDS, max(MIN_PAUSE_SECONDS, self._late * _TIMES_LATE)
        )

    def close(self) -> None:
        """Close all streams, and those that are opened from now on."""
        self._is_closed = True
        for token in list(self._open):
            token.cancel()

    def by_protocol(self) -> Mapping[str, int]:
        """The number of open streams, by protocol."""
        return Counter(self._open.values())


def protocol_of(path: str) -> str:
    """The protocol of a path, as metrics name it."""
    parts = path.split("/", 3)
    return parts[2] if len(parts) > 2 and parts[2] in _PROTOCOLS else "v1"
