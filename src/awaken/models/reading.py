"""Reading what a server sends, which may be anything: every adapter checks its events here.

Events are made without a check of their fields. An answer with a wrong field could be stored, and
not be read again.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from awaken.core.event import TextDelta
from awaken.core.llm import LlmStreamEvent

_MOST_TOKENS = 2**53


def checked(events: Iterable[LlmStreamEvent]) -> Iterable[LlmStreamEvent]:
    """The events, whose fields have the types that they are declared with.

    Raises:
        msgspec.ValidationError: a field has another type.
    """
    for event in events:
        if type(event) is not TextDelta or type(event.delta) is not str:
            msgspec.convert(msgspec.structs.asdict(event), type(event))
    return events


def count_in(fields: object, *names: str) -> int | None:
    """The first of these fields that has a number of tokens; `None` if there is none."""
    found = (count_of(fields.get(name)) for name in names) if isinstance(fields, dict) else ()
    return next((count for count in found if count is not None), None)


def count_of(value: object) -> int | None:
    """A number of tokens; `None` if the value is none."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and abs(value) < _MOST_TOKENS else None
