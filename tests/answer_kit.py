"""Answers to calls that tests know by the ids their models give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from awaken import Runtime
from awaken.core.store.store import Store
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import TicketStatus

R = TypeVar("R")


async def by_id(runtime: Runtime, answers: Mapping[str, R]) -> dict[str, R]:
    """The answers by the keys of the open tickets of these ids; an id that none has stays."""
    return dict(await by_key(runtime.store, answers.items()))


async def by_key(store: Store, decisions: Iterable[tuple[str, R]]) -> list[tuple[str, R]]:
    """The same for the doors beneath."""
    asked = await store.list_tickets(TicketQuery(status=TicketStatus.OPEN))
    return [
        (next((ticket.key for ticket in asked if ticket.answers_to(id)), id), decision)
        for id, decision in decisions
    ]
