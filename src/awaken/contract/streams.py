"""Answers that are still being written, kept so that another process can go on with them."""

from __future__ import annotations

from awaken.domain.value import Value


class StreamPiece(Value, frozen=True, kw_only=True):
    """What has come of an answer since the piece before; number 1 begins anew.

    `asked` says which question it answers: an answer to another one is of no use. `calls` are ids,
    names, and what was written since of their arguments.
    """

    run_id: str
    asked: str
    number: int
    text: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    at_ms: int
