"""The shape of an encoder."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from awaken.codec import Json
from awaken.core.event import RunEvent


class Encoder(Protocol):
    """Turns the events of a run, as the follower gives them, into one protocol's chunks.

    A chunk is a JSON object. An encoder holds what is open in one client's stream, and nothing
    else; it takes the time from the events.
    """

    def start(self) -> Iterable[Json]:
        """The chunks at the beginning of the stream."""
        ...

    def encode(self, event: RunEvent) -> Iterable[Json]:
        """The chunks of an event, in order; none for an event that the protocol does not show."""
        ...

    def finish(self) -> Iterable[Json]:
        """The chunks at the end of the stream: they close what is open."""
        ...
