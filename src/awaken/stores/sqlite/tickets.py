"""Tickets and their answers in the SQLite store."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import partial

from awaken.codec import dumps
from awaken.core.suspension import Decision
from awaken.core.ticket import Ticket, TicketStatus
from awaken.core.unreadable import RowKind
from awaken.stores.rules import answered, command_of
from awaken.stores.sql import queries
from awaken.stores.sql.unreadable import UnreadableRows, load_ticket
from awaken.stores.sqlite.commands import add_command
from awaken.stores.sqlite.rows import find_thread

_ANSWERED = TicketStatus.ANSWERED


def write_ticket(
    db: sqlite3.Connection, thread: int, scope: str, ticket: Ticket, record: bytes
) -> None:
    """Write the ticket of a commit, unless it was answered: a commit never undoes an answer."""
    row = db.execute(queries.TICKET, (thread, ticket.key)).fetchone()
    values = (
        ticket.ticket_id,
        ticket.call_id,
        ticket.run_id,
        ticket.status.value,
        ticket.asked_at,
        ticket.expires_at,
        record,
    )
    if row is None:
        db.execute(queries.ADD_TICKET, (*values, thread, scope, ticket.key))
    elif row[1] != _ANSWERED:
        db.execute(queries.CHANGE_TICKET, (*values, row[0]))


def decide(
    db: sqlite3.Connection,
    unreadable: UnreadableRows,
    thread_id: str,
    decisions: Sequence[Decision],
    at_ms: int,
) -> int | None:
    """Answer tickets, all or none; returns the id of the command with the answers, or `None`."""
    thread = find_thread(db, thread_id)
    pk = thread.pk if thread is not None else 0
    taken: dict[str, Ticket] = {}
    for target, answer in decisions:
        meant = [taken.get(ticket.key, ticket) for ticket in _meant(db, pk, target)]
        ticket = answered(target, answer, meant, lambda: _open(db, unreadable, pk), at_ms)
        if ticket is not None:
            taken[ticket.key] = ticket
    if not taken or thread is None:
        return None
    for ticket in taken.values():
        db.execute(queries.ANSWER_TICKET, (dumps(ticket), pk, ticket.key))
    command = command_of(thread_id, taken.values(), at_ms)
    return add_command(db, pk, command, dumps(command))


def _meant(db: sqlite3.Connection, thread: int, target: str) -> list[Ticket]:
    rows = db.execute(queries.TICKETS_NAMED, (thread, target) * 3)
    found = [load_ticket(*row) for row in rows]
    return [ticket for ticket in found if ticket.key == target] or found


def _open(db: sqlite3.Connection, unreadable: UnreadableRows, thread: int) -> Sequence[Ticket]:
    rows = db.execute(queries.OPEN_TICKETS, (thread,)).fetchall()
    return unreadable.collect(
        RowKind.TICKET, ((row[0], partial(load_ticket, *row)) for row in rows)
    )[0]
