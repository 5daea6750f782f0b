"""The lines of a streamed response, as the SDK can read them.

The SDK's HTTP library also ends a line at characters that may stand in JSON, such as U+2028. The
SDK itself takes comments and other fields of server-sent events for broken JSON.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

_END = re.compile(rb"\r\n|\r|\n")
_NO_DATA = re.compile(rb":|(event|id|retry)(:|$)")


async def data_lines(response: Any) -> None:
    """A response hook for the SDK's HTTP client: only data, and only lines of server-sent
    events."""

    async def aiter_lines() -> AsyncGenerator[str, None]:
        held: list[bytes] = []
        async with aclosing(response.aiter_bytes()) as chunks:
            async for chunk in chunks:
                held.append(chunk)
                if _END.search(chunk):
                    whole = b"".join(held)
                    # A `\r` at the end may be half of a `\r\n`.
                    half = whole[-1:] if whole.endswith(b"\r") else b""
                    *lines, rest = _END.split(whole[: len(whole) - len(half)])
                    held = [rest + half]
                    for line in _data(lines):
                        yield line
        for line in _data(_END.split(b"".join(held))):
            yield line

    response.aiter_lines = aiter_lines


def _data(lines: list[bytes]) -> Iterator[str]:
    """The lines with data, and those that end an event; the SDK looks for a space after `data:`."""
    for line in lines:
        if not _NO_DATA.match(line):
            text = line.decode(errors="replace")
            yield f"data: {text[5:].removeprefix(' ')}" if text.startswith("data:") else text
