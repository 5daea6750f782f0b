"""Streams of events, as server-sent events, and the connection of the client that reads one.

A stream needs no buffer of its own for a client that reads slowly: while a write to it waits, its
follower is not read. The bus then drops the events that do not fit, and the follower reads them
from the store. No run, topic or other client waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

from starlette.types import Receive, Scope, Send

from awaken.codec import Json, dumps
from awaken.core.aio.cancel import CancellationToken, interruptible
from awaken.core.aio.owned_tasks import start_task
from awaken.core.event import Error, RunEvent, RunFinish
from awaken.errors import AwakenError, Cancelled
from awaken.runtime.live.follow import EventFollower
from awaken.server.open_streams import OpenStreams

log = logging.getLogger("awaken.server")

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]
OPEN = b": open\n\n"
CLOSING = b": closing\n\n"
BATCH_BYTES = 64 * 1024
"""About how many bytes of frames are frame_bytes before they are written."""


class StreamEncoder(Protocol[T_contra]):
    """Turns events into chunks: an `Encoder` of a protocol, or one of `/v1`."""

    def start(self) -> Iterable[Any]: ...

    def encode(self, event: T_contra, /) -> Iterable[Any]: ...

    def finish(self) -> Iterable[Any]: ...


def data_frame(chunk: Json) -> bytes:
    """A frame with data alone, as most protocols write it."""
    return b"data: %b\n\n" % dumps(chunk)


_ENDS = (RunFinish, Error)


def until_run_ends(run_id: str) -> Callable[[RunEvent], bool]:
    """A predicate: whether an event is the last of an activation of this run."""
    return lambda event: type(event.event) in _ENDS and event.run_id == run_id


class SseResponse(Generic[T]):
    """An answer that writes events as they come, until `is_last` is true for one. A follower, for
    one, gives first the stored events of a thread, then the live ones.

    Args:
        events: a follower's events are written in batches, those of another generator one by one.
        frame: makes bytes of a chunk of the encoder; `None`: its chunks are bytes.
        headers: further headers of the answer.
        end: bytes behind the last frame of a stream that has come to its end.
        cut_when_closed: the connection is cut if the stream is closed before its end. Clients of
            other protocols take any regular end of an answer for the end of the run. Clients of
            `/v1` see that no last event came, and an `EventSource` reconnects by itself.
        on_leave: is called if the client leaves before the last event.
    """

    def __init__(
        self,
        events: AsyncGenerator[T, None],
        encoder: StreamEncoder[T],
        *,
        is_last: Callable[[T], bool],
        frame: Callable[[Any], bytes] | None = data_frame,
        headers: Iterable[tuple[bytes, bytes]] = (),
        end: bytes = b"",
        cut_when_closed: bool = False,
        on_leave: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._events, self._encoder = events, encoder
        self._is_last, self._frame = is_last, frame
        self._end, self._on_leave = end, on_leave
        self._cut_when_closed = cut_when_closed
        self._headers = [*HEADERS, *headers]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            await self._events.aclose()
            await send({"type": "http.response.start", "status": 200, "headers": self._headers})
            await send({"type": "http.response.body", "body": b""})
            return
        streams: OpenStreams = scope.get("streams") or OpenStreams()
        with streams.track(scope) as token:
            connection = ClientConnection(receive, send, token)
            try:
                await self._stream(connection, streams)
            finally:
                streams.behind += connection.behind

    async def _stream(self, connection: ClientConnection, streams: OpenStreams) -> None:
        await connection.start(self._headers)
        try:
            async with connection, aclosing(self._events):
                await self._write(connection, streams)
        except Cancelled:
            pass
        except AwakenError as error:
            log.warning("a stream of events ends: %s", error)
        except Exception:
            log.exception("a stream of events ends")
        else:
            await connection.end(self._frames(self._encoder.finish()) + self._end)
            return
        if connection.has_left and self._on_leave is not None:
            await self._on_leave()
        elif not (connection.has_left or connection.is_writing or self._cut_when_closed):
            await connection.end(CLOSING)

    async def _write(self, connection: ClientConnection, streams: OpenStreams) -> None:
        await connection.write(OPEN + self._frames(self._encoder.start()))
        encode, frame, is_last = self._encoder.encode, self._frame, self._is_last
        async for batch in _batches(self._events):
            frames: list[bytes] = []
            size, ends = 0, False
            for event in batch:
                for frame_bytes in encode(event) if frame is None else map(frame, encode(event)):
                    frames.append(frame_bytes)
                    size += len(frame_bytes)
                if ends := is_last(event):
                    break
                if size > BATCH_BYTES:
                    await connection.write(b"".join(frames))
                    frames, size = [], 0
            if frames:
                await connection.write(b"".join(frames))
            if ends:
                return
            if getattr(batch[-1], "live", None) is not None:
                await streams.pause()

    def _frames(self, chunks: Iterable[Any]) -> bytes:
        return b"".join(chunks if self._frame is None else map(self._frame, chunks))


def _batches(events: AsyncGenerator[T, None]) -> AsyncIterator[list[Any]]:
    return events.batches() if isinstance(events, EventFollower) else _one_by_one(events)


async def _one_by_one(events: AsyncGenerator[T, None]) -> AsyncIterator[list[T]]:
    async for event in events:
        yield [event]


STILL_HERE = b": still here\n\n"
SILENCE_SECONDS = 15.0
"""Seconds without a write after which a comment is sent, so that proxies keep the connection."""
STUCK_SECONDS = 30.0
"""Seconds for which a client may take nothing before its stream is closed."""
SLICE_BYTES = 64 * 1024
"""The most bytes that are handed to the web server at once, since it buffers what the client does
not read."""
BEHIND_SECONDS = 1.0
"""Seconds for which a write waits before the client counts as one that is behind."""


class ClientConnection:
    """Writes to a client, keeps the connection alive, and notices when the client leaves.

    As a context manager, it interrupts its block when the token is cancelled: by the server, which
    closes its streams, or because the client has left (`has_left`) or takes nothing (`is_stuck`).
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
        self.has_left = self.is_stuck = False
        self.behind = 0

    async def __aenter__(self) -> None:
        self._interruptible.__enter__()
        self._watching = start_task(self._watch_client())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._interruptible.__exit__(kind, error, trace)
        finally:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    async def start(self, headers: list[tuple[bytes, bytes]]) -> None:
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def write(self, body: bytes) -> None:
        """Write bytes. Waits while the client does not take what was written before."""
        began = self._written_at = self._loop.time()
        self.is_writing = True
        for start in range(0, len(body), SLICE_BYTES):
            part = body[start : start + SLICE_BYTES] if len(body) > SLICE_BYTES else body
            await self._send({"type": "http.response.body", "body": part, "more_body": True})
        self.is_writing = False
        if self._loop.time() - began > BEHIND_SECONDS:
            self.behind += 1

    async def end(self, body: bytes) -> None:
        """Write the last bytes, unless the client does not take them."""
        try:
            async with asyncio.timeout(BEHIND_SECONDS):
                await self._send({"type": "http.response.body", "body": body})
        except TimeoutError:
            self.is_stuck = True

    async def _watch_client(self) -> None:
        """Close the stream when the client leaves or is stuck."""
        while not (self.has_left or self.is_stuck):
            try:
                async with asyncio.timeout_at(self._due()):
                    message = await self._receive()
            except TimeoutError:
                await self._check_client()
            else:
                self.has_left = message["type"] == "http.disconnect"
        self._token.cancel()

    def _due(self) -> float:
        """When the client is checked next."""
        return self._written_at + (STUCK_SECONDS if self.is_writing else SILENCE_SECONDS)

    async def _check_client(self) -> None:
        if self._loop.time() < self._due():
            return
        if self.is_writing:
            self.is_stuck = True
            return
        try:
            async with asyncio.timeout(STUCK_SECONDS):
                await self._send(
                    {"type": "http.response.body", "body": STILL_HERE, "more_body": True}
                )
            self._written_at = self._loop.time()
        except TimeoutError:
            self.is_stuck = True
