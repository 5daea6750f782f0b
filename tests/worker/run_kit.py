"""Plugins written on the spot, and what is often asked of a finished run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from awaken import Registrar, Runtime, StateKey
from awaken.core.event import AgentEvent, RunEvent
from awaken.core.message import Message
from awaken.core.run import RunRecord
from awaken.core.suspension import SuspendTicket, Suspension

V = TypeVar("V")
E = TypeVar("E", bound=AgentEvent)


class Piece:
    """A plugin: its id, and what it tells the registrar, part by part."""

    def __init__(self, id: str, *parts: Callable[[Registrar], None]) -> None:
        self.id = id
        self._parts = parts

    def register(self, registrar: Registrar) -> None:
        for part in self._parts:
            part(registrar)


def ticket(id: str = "ask") -> SuspendTicket:
    return SuspendTicket(suspension=Suspension(id=id, action="approve"))


def told(messages: Sequence[Message]) -> list[str]:
    """The texts, each behind its role."""
    return [f"{message.role.value}: {message.text()}" for message in messages]


def results(messages: Sequence[Message]) -> dict[str, str]:
    """What each call was answered."""
    return {m.tool_call_id: m.text() for m in messages if m.tool_call_id is not None}


def of_kind(events: Sequence[RunEvent], kind: type[E]) -> list[E]:
    return [event.event for event in events if isinstance(event.event, kind)]


async def record_of(runtime: Runtime, run_id: str) -> RunRecord:
    record = await runtime.find_run(run_id)
    assert record is not None
    return record


async def state_of(runtime: Runtime, run_id: str, key: StateKey[V, Any]) -> V | None:
    """What the run left in a key."""
    record = await record_of(runtime, run_id)
    assert record.state is not None
    stored = record.state.extensions.get(key.name)
    return None if stored is None else key.load(stored)
