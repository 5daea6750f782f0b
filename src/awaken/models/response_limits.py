"""The first and last bytes of a response, which the SDKs do not show."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

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
