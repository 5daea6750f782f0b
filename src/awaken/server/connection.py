"""One client's connection while a stream is written to it."""

from __future__ import annotations

import asyncio
from types import TracebackType

from starlette.types import Receive, Send

from awaken.core.aio.cancel import CancellationToken, interruptible
from awaken.core.aio.owned_tasks import start_task

STILL_HERE = b": still here\n\n"
SILENCE = 15.0
"""Seconds without a write after which a comment is sent, so that proxies keep the connection."""
PATIENCE = 30.0
"""Seconds for which a client may take nothing before its stream is closed."""
SLICE = 64 * 1024
"""The most bytes that are handed to the server at once: it keeps what the client does not take."""
BEHIND = 1.0
"""Seconds for which a write waits before the client counts as one that is behind."""


class Connection:
    """Writes to a client, keeps the connection alive, and notices when the client leaves.

    As a context manager, it interrupts its block when the token is cancelled: by the server, which
    closes its streams, or because the client has left (`is_left`) or takes nothing (`is_stuck`).
    If `is_writing` is true then, a frame may have been cut in two.

    Raises:
        Cancelled: the block was interrupted.
    """

    def __init__(self, receive: Receive, send: Send, token: CancellationToken) -> None:
        self._receive, self._send, self._token = receive, send, token
        self._interruptible = interruptible(token)
        self._loop = asyncio.get_running_loop()
        self._written_at = self._loop.time()
        self.is_writing = False
        self.is_left = self.is_stuck = False
        self.behind = 0

    async def __aenter__(self) -> None:
        self._interruptible.__enter__()
        self._attending = start_task(self._attend())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._interruptible.__exit__(kind, error, trace)
        finally:
            self._attending.cancel()
            await asyncio.wait([self._attending])

    async def start(self, headers: list[tuple[bytes, bytes]]) -> None:
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def write(self, body: bytes) -> None:
        """Write bytes. Waits while the client does not take what was written before."""
        began = self._written_at = self._loop.time()
        self.is_writing = True
        for start in range(0, len(body), SLICE):
            part = body[start : start + SLICE] if len(body) > SLICE else body
            await self._send({"type": "http.response.body", "body": part, "more_body": True})
        self.is_writing = False
        if self._loop.time() - began > BEHIND:
            self.behind += 1

    async def end(self, body: bytes) -> None:
        """Write the last bytes, unless the client does not take them."""
        try:
            async with asyncio.timeout(BEHIND):
                await self._send({"type": "http.response.body", "body": body})
        except TimeoutError:
            self.is_stuck = True

    async def _attend(self) -> None:
        """Close the stream when the client leaves or is stuck."""
        while not (self.is_left or self.is_stuck):
            try:
                async with asyncio.timeout_at(self._due()):
                    message = await self._receive()
            except TimeoutError:
                await self._look()
            else:
                self.is_left = message["type"] == "http.disconnect"
        self._token.cancel()

    def _due(self) -> float:
        """When the client is to be looked at again."""
        return self._written_at + (PATIENCE if self.is_writing else SILENCE)

    async def _look(self) -> None:
        if self._loop.time() < self._due():
            return
        if self.is_writing:
            self.is_stuck = True
            return
        try:
            async with asyncio.timeout(PATIENCE):
                await self._send(
                    {"type": "http.response.body", "body": STILL_HERE, "more_body": True}
                )
            self._written_at = self._loop.time()
        except TimeoutError:
            self.is_stuck = True
