"""Tickets and their answers in the Postgres store."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from awaken.codec import dumps
from awaken.core.suspension import Decision
from awaken.core.ticket import Ticket
from awaken.core.unreadable import RowKind
from awaken.stores.postgres.commands import add_command
from awaken.stores.postgres.connections import Db
from awaken.stores.postgres.rows import lock_thread
from awaken.stores.rules import answered, command_of
from awaken.stores.sql.unreadable import UnreadableRows, load_ticket

# A key is unique; ticket ids and call ids may repeat.
_NAMED = """
SELECT key, status, record FROM @tickets
WHERE thread = $1 AND (key = $2 OR ticket_id = $2 OR call_id = $2)
ORDER BY asked_at, pk
"""
_OPEN = """
SELECT key, status, record FROM @tickets WHERE status = 'open' AND thread = ? ORDER BY asked_at, pk
"""
_ANSWER = "UPDATE @tickets SET status = 'answered', record = ? WHERE thread = ? AND key = ?"


async def decide(
    db: Db,
    unreadable: UnreadableRows,
    thread_id: str,
    decisions: Sequence[Decision],
    at_ms: int,
) -> int | None:
    """Answer tickets, all or none; returns the id of the command with the answers, or `None`."""
    thread = await lock_thread(db, thread_id)
    pk = thread.pk if thread is not None else 0
    rows = await db.rows(_OPEN, pk)
    waiting, _ = unreadable.collect(
        RowKind.TICKET, ((row[0], partial(load_ticket, *row)) for row in rows)
    )
    taken: dict[str, Ticket] = {}
    for target, answer in decisions:
        meant = [taken.get(ticket.key, ticket) for ticket in await _meant(db, pk, target)]
        ticket = answered(target, answer, meant, lambda: waiting, at_ms)
        if ticket is not None:
            taken[ticket.key] = ticket
    if not taken or thread is None:
        return None
    for ticket in taken.values():
        await db.run(_ANSWER, dumps(ticket), pk, ticket.key)
    command = command_of(thread_id, taken.values(), at_ms)
    return await add_command(db, pk, command, dumps(command))


async def _meant(db: Db, thread: int, target: str) -> list[Ticket]:
    found = [load_ticket(*row) for row in await db.rows(_NAMED, thread, target)]
    return [ticket for ticket in found if ticket.key == target] or found
