"""How tickets take answers. Pure: what is found out here is written elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from awaken.domain.suspension import Decision, ToolCallResume
from awaken.domain.ticket import Ticket, TicketStatus
from awaken.errors import DecisionRefused

_replace = msgspec.structs.replace


def answer(
    tickets: Mapping[str, Ticket], decisions: Sequence[Decision], at_ms: int
) -> dict[str, Ticket]:
    """The tickets of a thread that `decisions` answer, answered, by key and in their order.

    Raises:
        DecisionRefused: one of them cannot be taken.
    """
    answered: dict[str, Ticket] = {}
    for target, resume in decisions:
        meant = _meant({**tickets, **answered}, target)
        if any(_taken_before(ticket, resume) for ticket in meant):
            continue
        ticket = _open_one(meant, target)
        if is_past(ticket, at_ms):
            raise DecisionRefused(target, f"it expired at {ticket.expires_at}")
        if resume.digest not in (None, ticket.digest):
            raise DecisionRefused(target, "its digest is not that of what was asked")
        stamped = _replace(resume, updated_at=at_ms, digest=ticket.digest)
        answered[ticket.key] = _replace(ticket, status=TicketStatus.ANSWERED, decision=stamped)
    return answered


def is_past(ticket: Ticket, now_ms: int) -> bool:
    """Whether nobody may answer any more; at the very instant, one may."""
    return ticket.expires_at is not None and ticket.expires_at < now_ms


def _meant(tickets: Mapping[str, Ticket], target: str) -> list[Ticket]:
    """What a target may stand for. A key is unique; the other names may repeat."""
    if target in tickets:
        return [tickets[target]]
    return [ticket for ticket in tickets.values() if ticket.answers_to(target)]


def _open_one(meant: list[Ticket], target: str) -> Ticket:
    opened = [ticket for ticket in meant if ticket.status is TicketStatus.OPEN]
    if len(opened) == 1:
        return opened[0]
    if opened:
        keys = ", ".join(repr(ticket.key) for ticket in opened)
        raise DecisionRefused(target, f"it may mean any of {keys}; name one of them")
    if meant:
        raise DecisionRefused(target, f"its ticket is {meant[-1].status.value}")
    raise DecisionRefused(target, "no ticket of the thread fits")


def _taken_before(ticket: Ticket, resume: ToolCallResume) -> bool:
    taken = ticket.decision
    return (
        taken is not None
        and bool(resume.decision_id)
        and taken.decision_id == resume.decision_id
        and (taken.action, taken.result, taken.mode) == (resume.action, resume.result, resume.mode)
    )
