"""Uvicorn's HTTP protocol, with limits on the head of a request and on slow clients."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from awaken.server.edge import LINGER_SECONDS
from awaken.server.sse import STUCK_SECONDS

HEAD_SECONDS = 20.0
"""The seconds that a client may take to send the head of a request."""
HEAD_BYTES = 64 * 1024
"""The most bytes in the head of a request: its address and its headers."""
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class LimitedHttpProtocol(HttpToolsProtocol):
    """Closes the connections of clients that block them:

    - A client that has received no byte of what was written for `STUCK_SECONDS`. Its connection is
      aborted: if it were closed, the transport would wait for the client to take the rest.
    - A client that has not sent the head of a request `HEAD_SECONDS` after it has connected, or
      after the first byte that it sent since its last answer.
    - A client whose head has more than `HEAD_BYTES`. It gets a 431.
    """

    _stuck_timer: asyncio.TimerHandle | None = None
    _unsent = 0
    _head_timer: asyncio.TimerHandle | None = None
    _is_in_head = _is_refused = False
    _head_bytes = 0

    # -- the head of a request ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_head_timer()

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        cycle: RequestResponseCycle | None = self.cycle
        is_idle = cycle is None or cycle.response_complete
        if is_idle and self._head_timer is None:
            self._start_head_timer()
        super().data_received(data)
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self.send_400_response("")

    def on_message_begin(self) -> None:
        self._is_in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._stop_head_timer()
        self._head_bytes = len(self.url) + sum(
            len(name) + len(value) for name, value in self.headers
        )
        if self._head_bytes > HEAD_BYTES:
            raise ValueError("the head is too long")  # the parser then calls `send_400_response`
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        if self._head_bytes <= HEAD_BYTES:
            super().send_400_response(msg)
            return
        self._is_refused = True
        self._stop_head_timer()
        self.transport.write(_TOO_LARGE)
        self.transport.write_eof()
        # Bytes that the client still sends are dropped. If the connection were closed now, the
        # client would lose the answer.
        self._head_timer = self.loop.call_later(LINGER_SECONDS, self._abort)

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._abort)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _abort(self) -> None:
        self._head_timer = None
        self.transport.abort()

    # -- a client that does not read ----------------------------------------------------------

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_stuck_timer()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_stuck_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_stuck_timer()
        self._stop_head_timer()

    def _start_stuck_timer(self) -> None:
        self._unsent = self.transport.get_write_buffer_size()
        self._stuck_timer = self.loop.call_later(STUCK_SECONDS, self._check_progress)

    def _stop_stuck_timer(self) -> None:
        if self._stuck_timer is not None:
            self._stuck_timer.cancel()
            self._stuck_timer = None

    def _check_progress(self) -> None:
        if self.transport.get_write_buffer_size() < self._unsent:
            self._start_stuck_timer()
        else:
            self.transport.abort()
