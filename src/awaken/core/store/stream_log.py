"""The stream log: unfinished model answers, stored so that another process can continue them."""

from __future__ import annotations

from awaken.core.value import Value


class StreamLogEntry(Value, frozen=True, kw_only=True):
    """What arrived of an answer since the entry before; entry number 1 replaces all earlier ones.

    `asked` identifies the model request: its model and its last message. The log is used only to
    continue the same request. `message_id` is the id that the answer will have. `calls` are ids,
    names, and the new text of their arguments.
    """

    run_id: str
    asked: str
    message_id: str = ""
    number: int
    text: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    at_ms: int
