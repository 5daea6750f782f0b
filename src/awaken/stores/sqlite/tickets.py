"""Tickets and the answers to them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from awaken.codec import dumps, loads
from awaken.contract.commands import CommandKind, ThreadCommand
from awaken.domain.suspension import Decision, ToolCallResume
from awaken.domain.ticket import Ticket, TicketStatus
from awaken.errors import DecisionRefused
from awaken.stores.sql import queries
from awaken.stores.sqlite.commands import add_command
from awaken.stores.sqlite.rows import find_thread

_OPEN = TicketStatus.OPEN
_ANSWERED = TicketStatus.ANSWERED
_replace = msgspec.structs.replace


def write_ticket(db: sqlite3.Connection, thread: int, ticket: Ticket, record: bytes) -> None:
    """Keep a ticket a commit brings, unless it was answered: no commit takes an answer back."""
    row = db.execute(queries.TICKET, (thread, ticket.key)).fetchone()
    values = (ticket.run_id, ticket.status.value, ticket.asked_at, ticket.expires_at, record)
    if row is None:
        db.execute(queries.ADD_TICKET, (thread, ticket.key, *values))
    elif row[1] != _ANSWERED:
        db.execute(queries.CHANGE_TICKET, (*values, row[0]))


def read_ticket(status: str, record: bytes) -> Ticket:
    ticket = loads(record, Ticket)
    return ticket if ticket.status == status else _replace(ticket, status=TicketStatus(status))


def decide(
    db: sqlite3.Connection, thread_id: str, decisions: Sequence[Decision], at_ms: int
) -> int | None:
    """Answer tickets, all or none; returns the id of the command that tells the thread's owner."""
    thread = find_thread(db, thread_id)
    rows = db.execute(queries.TICKETS, (thread.pk if thread else None,))
    tickets = {pk: read_ticket(status, record) for pk, status, record in rows}
    answered: dict[int, Ticket] = {}
    for target, answer in decisions:
        known = {**tickets, **answered}
        if _was_taken(known, target, answer):
            continue
        pk = _the_one(known, target, at_ms)
        ticket = known[pk]
        if answer.digest is not None and answer.digest != ticket.digest:
            raise DecisionRefused(
                target,
                f"it was given for {answer.digest}, and the question is {ticket.digest} now: "
                f"look at the ticket {ticket.key!r} again",
            )
        stamped = _replace(answer, updated_at=at_ms, digest=ticket.digest)
        answered[pk] = _replace(ticket, status=_ANSWERED, decision=stamped)
    if not answered or thread is None:
        return None
    for pk, ticket in answered.items():
        db.execute(queries.ANSWER_TICKET, (dumps(ticket), pk))
    runs = {ticket.run_id for ticket in answered.values()}
    command = ThreadCommand(
        thread_id=thread_id,
        kind=CommandKind.DECISIONS,
        run_id=runs.pop() if len(runs) == 1 else None,
        decisions=tuple((t.key, t.decision) for t in answered.values() if t.decision is not None),
        at_ms=at_ms,
    )
    return add_command(db, thread.pk, command, dumps(command))


def _was_taken(tickets: dict[int, Ticket], target: str, answer: ToolCallResume) -> bool:
    """Whether this very decision was taken before, and comes a second time."""
    if not answer.decision_id:
        return False
    for ticket in tickets.values():
        given = ticket.decision
        if ticket.answers_to(target) and given and given.decision_id == answer.decision_id:
            if (given.action, given.result, given.mode) == (
                answer.action,
                answer.result,
                answer.mode,
            ):
                return True
            raise DecisionRefused(
                target, f"decision {answer.decision_id!r} was taken before, with another answer"
            )
    return False


def _the_one(tickets: dict[int, Ticket], target: str, at_ms: int) -> int:
    """The open ticket somebody means by `target`."""
    fitting = [pk for pk, ticket in tickets.items() if ticket.answers_to(target)]
    waiting = [pk for pk in fitting if tickets[pk].status is _OPEN]
    exact = [pk for pk in waiting if tickets[pk].key == target]
    chosen = exact or waiting
    if len(chosen) > 1:
        keys = ", ".join(repr(tickets[pk].key) for pk in chosen)
        raise DecisionRefused(target, f"it fits several open tickets, name one by its key: {keys}")
    if not chosen:
        raise DecisionRefused(target, _why_none(tickets, fitting))
    expires_at = tickets[chosen[0]].expires_at
    if expires_at is not None and expires_at < at_ms:
        raise DecisionRefused(target, f"the ticket expired {_when(expires_at)}")
    return chosen[0]


def _why_none(tickets: dict[int, Ticket], fitting: Sequence[int]) -> str:
    if not fitting:
        waiting = [t for t in tickets.values() if t.status is _OPEN]
        names = ", ".join(f"{t.key!r} ({t.tool_name})" for t in waiting)
        return f"no such ticket; waiting: {names}" if names else "no ticket is waiting"
    ticket = tickets[fitting[-1]]
    given = ticket.decision
    if ticket.status is _ANSWERED and given is not None:
        return (
            f"it was answered {_when(given.updated_at)} by {given.by or 'somebody'}: "
            f"{given.action.value}"
        )
    return f"the ticket is {ticket.status.value}: nobody waits for the answer any more"


def _when(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"at {at_ms} ms"
