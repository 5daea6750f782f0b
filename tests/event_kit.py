"""Live events beside stored ones."""

from __future__ import annotations

import msgspec

from awaken.core.event import RunEvent


def as_stored(event: RunEvent) -> RunEvent:
    """A live event as `load_events` gives it."""
    return msgspec.structs.replace(event, ahead=False, live=None, again=False)
