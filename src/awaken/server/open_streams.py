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
from awaken.server.call import Credential

MIN_PAUSE_SECONDS = 0.01
"""The least time between two writes of live events; what comes meanwhile is written at once."""
MAX_PAUSE_SECONDS = 0.1
"""The most that a stream waits between two writes."""
CHECK_SECONDS = 3.0
"""How often the keys and sessions of open streams are looked at."""
_TIMES_LATE = 10
_SMOOTH = 16
_PROTOCOLS = ("ai-sdk", "ag-ui")
IsValid = Callable[[Credential], Awaitable[bool]]
log = logging.getLogger("awaken.server")


async def _is_always_valid(credential: Credential) -> bool:
    return True


class OpenStreams:
    """The streams of one application. `behind` counts how often a client has let a write wait;
    `seconds_between` is how long a stream waits between two writes.

    A stream ends when the key or the session it was opened with does, a few seconds later:
    `is_valid` is asked about each of them, however many streams it has.
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
        """Count a stream while the block runs; gives the token that closes it."""
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
        """End the streams of keys and sessions that are not good any more."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            for credential in set(self._credentials.values()):
                try:
                    is_valid = await self._is_valid(credential)
                except AwakenError as error:
                    log.warning("cannot ask whether a stream's key is still good: %s", error)
                    break  # the store is away; streams stay, and are looked at again
                if not is_valid:
                    self._close_streams_of(credential)

    def _close_streams_of(self, credential: Credential) -> None:
        for token in [token for token, one in self._credentials.items() if one == credential]:
            token.cancel()

    async def pause(self) -> None:
        """Wait between two writes of a stream: longer if many streams write at once. If they wrote
        each piece of an answer by itself, the answer would take as long as all these writes; that
        this is so shows in pauses that end late."""
        loop, asked = asyncio.get_running_loop(), self.seconds_between
        due = loop.time() + asked
        await asyncio.sleep(asked)
        self._late += (loop.time() - due - self._late) / _SMOOTH
        self.seconds_between = min(
            MAX_PAUSE_SECONDS, max(MIN_PAUSE_SECONDS, self._late * _TIMES_LATE)
        )

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
