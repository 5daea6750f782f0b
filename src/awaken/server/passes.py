"""What a request was let in with."""

from __future__ import annotations

from typing import NamedTuple


class Pass(NamedTuple):
    """A key or a session, by id: either may be taken back while a stream is open."""

    key: str | None = None
    session: str | None = None
