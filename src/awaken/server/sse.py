"""Streams of events, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing

from starlette.types import Receive, Scope, Send

from awaken.codec import Json, dumps
from awaken.domain.event import RunEvent, is_terminal
from awaken.protocol.encoder import Encoder

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


def data_frame(chunk: Json) -> bytes:
    """A frame with data alone, as most protocols write it."""
    return b"data: %b\n\n" % dumps(chunk)


def until_run_ends(run_id: str) -> Callable[[RunEvent], bool]:
    """Whether an event is the last of a run's activation."""
    return lambda told: told.run_id == run_id and is_terminal(told.event)


class EventStream:
    """An answer that follows a thread: what was, then what is, until `is_last` says so."""

    def __init__(
        self,
        events: AsyncGenerator[RunEvent, None],
        encoder: Encoder,
        *,
        is_last: Callable[[RunEvent], bool],
        frame: Callable[[Json], bytes] = data_frame,
        headers: Iterable[tuple[bytes, bytes]] = (),
        end: bytes = b"",
    ) -> None:
        self._events, self._encoder = events, encoder
        self._is_last, self._frame, self._end = is_last, frame, end
        self._headers = [*HEADERS, *headers]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        await self._send(send, b": open\n\n" + self._frames(self._encoder.start()))
        async with aclosing(self._events) as events:
            async for event in events:
                await self._send(send, self._frames(self._encoder.encode(event)))
                if self._is_last(event):
                    break
        last = self._frames(self._encoder.finish()) + self._end
        await send({"type": "http.response.body", "body": last, "more_body": False})

    def _frames(self, chunks: Iterable[Json]) -> bytes:
        return b"".join([self._frame(chunk) for chunk in chunks])

    async def _send(self, send: Send, body: bytes) -> None:
        if body:
            await send({"type": "http.response.body", "body": body, "more_body": True})
