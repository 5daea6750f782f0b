"""The bytes of a provider's response: limits on them, and the first and last of them.

The limits are on what is read for one answer before it becomes events. The SDKs show neither the
first nor the last bytes.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from awaken.core.llm import MAX_ANSWER_BYTES, AnswerTooLarge

MAX_EVENT_BYTES = MAX_ANSWER_BYTES
"""The most bytes of one event of a response: the SDKs buffer an event of any length until it
ends."""
_LINE = 4096
"""What each line of an event counts in addition: the SDKs join lines one by one."""
_UP_TO_THE_LAST_END = re.compile(rb"(?s).*(?:\n\n|\r\n\r\n|\r\r(?!\n))")
"""All complete events, as the SDKs delimit them; the rest is the unfinished event."""


async def limit_response(response: Any) -> None:
    """A response hook for the HTTP clients of the SDKs: raises if an event, or a body without
    events, is too large after decompression."""
    read = response.aiter_bytes

    async def aiter_bytes(chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        size, lines, tail = 0, 0, b""
        async with aclosing(read(chunk_size)) as chunks:
            async for chunk in chunks:
                seen = tail + chunk
                if ended := _UP_TO_THE_LAST_END.match(seen):
                    size, lines, start = len(seen) - ended.end(), 0, ended.end()
                else:
                    size, start = size + len(chunk), len(tail)
                lines += _lines(seen, start)
                if size + _LINE * lines > MAX_EVENT_BYTES:
                    raise _too_large(size, lines)
                tail = seen[-3:]
                yield chunk

    response.aiter_bytes = aiter_bytes


def _lines(data: bytes, start: int) -> int:
    both = data.count(b"\r\n", start)
    return data.count(b"\n", start) + data.count(b"\r", start) - both


def _too_large(size: int, lines: int) -> AnswerTooLarge:
    what = "one event of the provider's response"
    if size <= MAX_EVENT_BYTES:
        what += f", whose {lines} lines count as {_LINE} bytes each,"
    return AnswerTooLarge(MAX_EVENT_BYTES, what)


async def limit_page(response: Any) -> None:
    """The same for responses that are no stream, if the SDK limits the events itself."""
    if not is_stream(response):
        await limit_response(response)


def is_stream(response: Any) -> bool:
    """Whether a response may have events: errors, and pages of proxies, have none."""
    kind = response.headers.get("content-type", "").lower()
    page = kind.startswith(("application/json", "text/html", "text/plain"))
    return response.status_code == 200 and not page


class PendingSize:
    """Counts what a stream's reader buffers before it becomes an event."""

    def __init__(self) -> None:
        self._size = 0

    def add(self, text: str, size: int = 16) -> None:
        """Count a text and `size` bytes of overhead.

        Raises:
            AnswerTooLarge: the sum is more than an answer may have by default.
        """
        self._size += len(text) + size
        if self._size > MAX_ANSWER_BYTES:
            raise AnswerTooLarge(
                MAX_ANSWER_BYTES, "what came of the answer before it could be told"
            )


# -- the first and last bytes -----------------------------------------------------------------


_MARK = re.compile(rb"[\r\n]data: ?\[DONE\]")
_BEGINNING, _END = 4096, 64


class WatchedBody:
    """Watches the bytes of one response while an SDK reads them.

    Args:
        response: one that the SDK has not begun to read.
    """

    def __init__(self, response: Any) -> None:
        self._begun = b""
        self._tail = b"\n"
        read = response.aiter_bytes

        async def aiter_bytes(chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
            async with aclosing(read(chunk_size)) as chunks:
                async for chunk in chunks:
                    if len(self._begun) < _BEGINNING:
                        self._begun += chunk[: _BEGINNING - len(self._begun)]
                    self._tail = (self._tail + chunk[-_END:])[-_END:]
                    yield chunk

        response.aiter_bytes = aiter_bytes

    @property
    def is_marked(self) -> bool:
        """Whether the server has ended the stream with `[DONE]`."""
        return _MARK.search(self._tail) is not None

    @property
    def page(self) -> str | None:
        """The beginning of a body that is no stream of events but JSON or a page, else `None`."""
        text = self._begun.decode(errors="replace").lstrip("\ufeff \t\r\n")
        return text if text.startswith(("{", "[", "<")) else None
