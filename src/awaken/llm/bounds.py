"""Bounds on what is read for one answer, before there is anything of it to tell."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from awaken.contract.llm import MAX_ANSWER_BYTES, AnswerTooLarge

MAX_EVENT_BYTES = MAX_ANSWER_BYTES
"""The most one event of a response may have: the SDKs hold an event of any length until it ends."""
_LINE = 4096
"""What a line of an event counts besides its length: the SDKs join lines one by one."""


async def bounded(response: Any) -> None:
    """A response hook for the HTTP clients of the SDKs: an event, or a body without events, that
    has too much in it is an error. What counts is what comes out of the decompression."""
    read = response.aiter_bytes

    async def aiter_bytes(chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        size, tail = 0, b""
        async with aclosing(read(chunk_size)) as chunks:
            async for chunk in chunks:
                seen = tail + chunk
                end = max(seen.rfind(b"\n\n"), seen.rfind(b"\n\r\n"))
                size = len(seen) - end if end >= 0 else size + len(chunk)
                size += _LINE * seen.count(b"\n", end + 2 if end >= 0 else len(tail))
                if size > MAX_EVENT_BYTES:
                    raise AnswerTooLarge(MAX_EVENT_BYTES, "one event of the provider's response")
                tail = seen[-2:]
                yield chunk

    response.aiter_bytes = aiter_bytes


async def bounded_error(response: Any) -> None:
    """The same for errors alone, where the SDK bounds the events itself."""
    if response.status_code >= 400:
        await bounded(response)


class Held:
    """Counts what the reader of a stream keeps to itself until it can be told."""

    def __init__(self) -> None:
        self._size = 0

    def add(self, text: str, size: int = 16) -> None:
        """Count a text, and what it takes to hold it besides.

        Raises:
            AnswerTooLarge: it is more than an answer may have by default.
        """
        self._size += len(text) + size
        if self._size > MAX_ANSWER_BYTES:
            raise AnswerTooLarge(
                MAX_ANSWER_BYTES, "what came of the answer before it could be told"
            )
