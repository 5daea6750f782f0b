"""The streams that are open: how many, and closing them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from starlette.types import Scope

from awaken.control.cancel import CancellationToken

_PROTOCOLS = ("ai-sdk", "ag-ui")


class OpenStreams:
    """The streams of one application. `behind` counts how often a client has let a write wait."""

    def __init__(self) -> None:
        self._open: dict[CancellationToken, str] = {}
        self._is_closed = False
        self.behind = 0

    @contextmanager
    def opened(self, scope: Scope) -> Iterator[CancellationToken]:
        """Count a stream while the block runs; gives the token that closes it."""
        token = CancellationToken()
        self._open[token] = protocol_of(scope["path"])
        if self._is_closed:
            token.cancel()
        try:
            yield token
        finally:
            del self._open[token]

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
