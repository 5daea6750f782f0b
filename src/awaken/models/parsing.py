"""Checking what a provider sends, which may be anything.

Every adapter checks its events here. Events are made without a check of their fields: an answer
with a wrong field could be stored, and not be read again. A part of an answer that an adapter does
not read is kept, and sent back to its provider.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from awaken.codec import Json
from awaken.core.event import TextDelta
from awaken.core.llm import LlmStreamEvent
from awaken.core.message import Opaque

log = logging.getLogger("awaken.llm")


def check_events(events: Iterable[LlmStreamEvent]) -> Iterable[LlmStreamEvent]:
    """Check that the fields of the events have their declared types. Returns the events.

    Raises:
        msgspec.ValidationError: a field has another type.
    """
    for event in events:
        if type(event) is not TextDelta or type(event.delta) is not str:
            msgspec.convert(msgspec.structs.asdict(event), type(event))
    return events


_MAX_TOKENS = 2**53


def find_count(fields: object, *names: str) -> int | None:
    """The first of these fields that has a number of tokens; `None` if there is none."""
    found = (parse_count(fields.get(name)) for name in names) if isinstance(fields, dict) else ()
    return next((count for count in found if count is not None), None)


def parse_count(value: object) -> int | None:
    """The value as a number of tokens; `None` if it is not such a number."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and abs(value) < _MAX_TOKENS else None


# -- parts that are not read ------------------------------------------------------------------


def keep_unknown_part(origin: str, kind: str, data: Json) -> Opaque:
    """Keep a part that the adapter does not know. Warns once for each kind."""
    _warn(origin, kind)
    return Opaque(origin=origin, kind=kind, data=data)


@lru_cache(maxsize=1024)
def _warn(origin: str, kind: str) -> None:
    log.warning(
        "%s sent a part of an answer that is not understood: %r. It is kept in the message as "
        "Opaque and sent back, and has no effect besides",
        origin,
        kind,
    )
