"""Event sinks: where a run sends its events."""

from __future__ import annotations

from typing import Protocol

from awaken.core.event import RunEvent


class EventSink(Protocol):
    """Receives a run's events in order. The run awaits `emit`, so a slow sink slows the model."""

    async def emit(self, event: RunEvent) -> None: ...

    async def close(self) -> None: ...


class NullEventSink:
    """Discards all events. With this sink, the loop does not make transient events at all."""

    async def emit(self, event: RunEvent) -> None:
        return

    async def close(self) -> None:
        return


class CollectingSink:
    """Collects all events in a list."""

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
