"""Where events go."""

from __future__ import annotations

from typing import Protocol

from awaken.domain.event import RunEvent


class EventSink(Protocol):
    """Takes a run's events, in order. Awaiting is how a slow reader slows the model."""

    async def emit(self, event: RunEvent) -> None: ...

    async def close(self) -> None: ...


class NullEventSink:
    """Nobody listens; the loop then does not even make the events only listeners want."""

    async def emit(self, event: RunEvent) -> None:
        return

    async def close(self) -> None:
        return


class CollectingSink:
    """Keeps everything."""

    def __init__(self) -> None:
        self._events: list[RunEvent] = []

    async def emit(self, event: RunEvent) -> None:
        self._events.append(event)

    async def close(self) -> None:
        return

    def events(self) -> list[RunEvent]:
        return list(self._events)

    def take(self) -> list[RunEvent]:
        events, self._events = self._events, []
        return events
