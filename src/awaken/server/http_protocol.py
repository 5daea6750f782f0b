"""HTTP as the server speaks it: uvicorn's, with patience and size limited."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from awaken.server.edge import LINGER_SECONDS
from awaken.server.sse import PATIENCE

HEAD_SECONDS = 20.0
"""How long a client may take for the head of a request."""
HEAD_BYTES = 64 * 1024
"""How long the head of a request may be: its address and its headers."""
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class PatientHttp(HttpToolsProtocol):
    """Cuts off clients that keep a connection for nothing.

    - One that takes nothing of what was written for `PATIENCE` seconds. Closing its connection
      would not do: the transport would wait for the client to take the rest.
    - One that has not sent the head of a request `HEAD_SECONDS` after it has connected, or after it
      has sent anything since its last answer.
    - One whose head has more than `HEAD_BYTES`. It gets a 431.
    """

    _looking: asyncio.TimerHandle | None = None
    _left = 0
    _waiting: asyncio.TimerHandle | None = None
    _is_in_head = _is_refused = False
    _head = 0

    # -- the head of a request ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        answering: RequestResponseCycle | None = self.cycle
        is_idle = answering is None or answering.response_complete
        if is_idle and self._waiting is None:
            self._wait_for_head()
        super().data_received(data)
        if self._is_in_head:
            self._head += len(data)
            if self._head > HEAD_BYTES:
                self.send_400_response("")

    def on_message_begin(self) -> None:
        self._is_in_head, self._head = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._stop_waiting()
        self._head = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if self._head > HEAD_BYTES:
            raise ValueError("the head is too long")  # the parser tells `send_400_response`
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        if self._head <= HEAD_BYTES:
            super().send_400_response(msg)
            return
        self._is_refused = True
        self._stop_waiting()
        self.transport.write(_TOO_LARGE)
        self.transport.write_eof()
        # What it still sends is dropped: to close the connection now would take the answer away.
        self._waiting = self.loop.call_later(LINGER_SECONDS, self._give_up)

    def _wait_for_head(self) -> None:
        self._waiting = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        self.transport.abort()

    # -- an answer that is not taken ----------------------------------------------------------

    def pause_writing(self) -> None:
        super().pause_writing()
        self._look_later()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_looking()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_looking()
        self._stop_waiting()

    def _look_later(self) -> None:
        self._left = self.transport.get_write_buffer_size()
        self._looking = self.loop.call_later(PATIENCE, self._look)

    def _stop_looking(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def _look(self) -> None:
        if self.transport.get_write_buffer_size() < self._left:
            self._look_later()
        else:
            self.transport.abort()
