"""Commands to thread owners, tickets and their answers, and outboxes, in the SQLite store.

Command ids are never reused.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from functools import partial

import msgspec

from awaken.codec import dumps
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.suspension import Decision, Ticket, TicketStatus
from awaken.core.thread import Thread
from awaken.core.unreadable import RowKind
from awaken.errors import NotFound, UnreadableRecord
from awaken.stores.rules import (
    answer_ticket,
    can_withdraw,
    cancel_submitted_run,
    check_send,
    decisions_command,
    has_pending,
)
from awaken.stores.sql import queries
from awaken.stores.sql.cursors import UnreadableRows, load_ticket
from awaken.stores.sql.delta import encode_row
from awaken.stores.sqlite.owners import Owners
from awaken.stores.sqlite.rows import ThreadRow, find_run, find_thread


def pack_command(command: ThreadCommand) -> bytes:
    """
    Raises:
        InvalidRecord: the command holds decisions.
        Serialization: a value in it cannot be encoded, or could not be read back.
    """
    check_send(command)
    return encode_row(command, f"command to thread {command.thread_id!r}")


def send(db: sqlite3.Connection, command: ThreadCommand, body: bytes) -> int:
    """Store a command and return its id; see `Commands.send`.

    Raises:
        NotFound: there is no such thread.
    """
    number = send_if_there(db, command, body)
    if number is None:
        raise NotFound("thread", command.thread_id)
    return number


def send_if_there(db: sqlite3.Connection, command: ThreadCommand, body: bytes) -> int | None:
    """Store a command and return its id, or `None` if there is no such thread."""
    thread = find_thread(db, command.thread_id)
    if thread is None:
        return None
    if command.kind is CommandKind.CANCEL and command.run_id is not None:
        if _is_over(db, thread.pk, command.run_id):
            return 0  # that run has no later commit that would delete the cancel
        _withdraw(db, thread, command.run_id, command.at_ms)
    return add_command(db, thread.pk, command, body)


def _is_over(db: sqlite3.Connection, thread: int, run_id: str) -> bool:
    """Whether a run of a thread has ended."""
    return db.execute(queries.RUN_IS_OVER, (run_id, thread)).fetchone() is not None


def _withdraw(db: sqlite3.Connection, thread: ThreadRow, run_id: str, at_ms: int) -> None:
    """End a submitted run that has not started, unless the thread's owner may be starting it. The
    cancel stays until the run's events are in the log."""
    if not can_withdraw(thread.owner, thread.open_run):
        return
    run = find_run(db, run_id)
    try:
        record = run.record() if run is not None else None
    except UnreadableRecord:
        return  # the cancel waits until the record can be read
    if not db.execute(queries.WITHDRAW, (thread.pk, run_id)).rowcount:
        return
    assert run is not None, "a submission has a record"
    assert record is not None, "a submission has a record"
    ended = cancel_submitted_run(record, at_ms)
    listed = (ended.status.value, ended.agent_id, ended.parent_run_id, ended.kind.value)
    values = (0, dumps(ended), ended.updated_at_ms, *listed, run.pk)
    db.execute(queries.CHANGE_RUN, values)


def add_command(db: sqlite3.Connection, thread: int, command: ThreadCommand, body: bytes) -> int:
    """Store a command and return its id.

    If its key was used before, nothing is stored: returns the id of that command if it is still
    pending, else 0.
    """
    if command.key is not None:
        known = db.execute(queries.KNOWN_KEY, (thread, command.key)).fetchone()
        if known is not None:
            return known[0] or 0
    values = (thread, command.run_id, command.kind.value, body)
    number = db.execute(queries.ADD_COMMAND, values).lastrowid or 0
    if command.key is not None:
        db.execute(queries.ADD_KEY, (thread, command.key, number))
    return number


def cancel_tree(
    db: sqlite3.Connection,
    owners: Owners,
    unreadable: UnreadableRows,
    thread_id: str,
    at_ms: int,
    by: str | None,
) -> Sequence[Thread]:
    """Send a cancel to each open run of a thread and beneath it, unless one is pending already."""
    rows = [ThreadRow._make(row) for row in db.execute(queries.OPEN_TREE, (thread_id, thread_id))]
    for row in rows:
        run_id = row.open_run or ""
        if db.execute(queries.HAS_CANCEL, (row.pk, run_id)).fetchone() is None:
            command = ThreadCommand.cancel(row.id, run_id, at_ms=at_ms, by=by)
            add_command(db, row.pk, command, pack_command(command))
    return [row.thread(owners, unreadable) for row in rows]


def all_commands(
    db: sqlite3.Connection, unreadable: UnreadableRows, thread: int
) -> Sequence[ThreadCommand]:
    """The readable pending commands of a thread."""
    rows = db.execute(queries.COMMANDS, (thread,)).fetchall()
    found = [unreadable.read_command(id, body) for id, body in rows]
    return tuple([command for command in found if command is not None])


def load_commands(
    db: sqlite3.Connection, unreadable: UnreadableRows, thread_id: str, skip: Collection[int]
) -> Sequence[ThreadCommand]:
    """The readable pending commands of a thread but for `skip`, whose bodies are not read."""
    thread = find_thread(db, thread_id)
    found: list[ThreadCommand] = []
    for (id,) in db.execute(queries.COMMAND_IDS, (thread.pk,)).fetchall() if thread else ():
        if id not in skip:
            (body,) = db.execute(queries.COMMAND, (id,)).fetchone()
            command = unreadable.read_command(id, body)
            if command is not None:
                found.append(command)
    return found


def waiting(db: sqlite3.Connection, owners: Owners, after: int, now_ms: int) -> dict[int, str]:
    """The threads of the pending commands that are due, with ids above `after`, by id: those that
    `owners.me` owns, and those without a live owner."""
    alive: dict[str, bool] = {owners.me: False}
    found: dict[int, str] = {}
    for id, thread_id, owner in db.execute(queries.WAITING, (after, now_ms)).fetchall():
        if owner is not None and owner not in alive:
            alive[owner] = owners.is_alive(owner)
        if owner is None or not alive[owner]:
            found[id] = thread_id
    return found


# -- outboxes ---------------------------------------------------------------------------------


def note_outbox(db: sqlite3.Connection, thread: int, outbox: msgspec.Raw) -> None:
    """Record whether a thread has unsent messages."""
    db.execute(queries.ADD_OUTBOX if has_pending(outbox) else queries.DROP_OUTBOX, (thread,))


def list_outboxes(db: sqlite3.Connection, owners: Owners) -> Sequence[str]:
    rows = db.execute(queries.OUTBOXES).fetchall()
    return [id for id, owner in rows if owner is None or not owners.is_alive(owner)]


# -- tickets ----------------------------------------------------------------------------------


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
        meant = [taken.get(ticket.key, ticket) for ticket in _find_candidates(db, pk, target)]
        ticket = answer_ticket(target, answer, meant, lambda: _open(db, unreadable, pk), at_ms)
        if ticket is not None:
            taken[ticket.key] = ticket
    if not taken or thread is None:
        return None
    for ticket in taken.values():
        db.execute(queries.ANSWER_TICKET, (dumps(ticket), pk, ticket.key))
    command = decisions_command(thread_id, taken.values(), at_ms)
    return add_command(db, pk, command, dumps(command))


def _find_candidates(db: sqlite3.Connection, thread: int, target: str) -> list[Ticket]:
    rows = db.execute(queries.TICKETS_NAMED, (thread, target) * 3)
    found = [load_ticket(*row) for row in rows]
    return [ticket for ticket in found if ticket.key == target] or found


def _open(db: sqlite3.Connection, unreadable: UnreadableRows, thread: int) -> Sequence[Ticket]:
    rows = db.execute(queries.OPEN_TICKETS, (thread,)).fetchall()
    return unreadable.collect(
        RowKind.TICKET, ((row[0], partial(load_ticket, *row)) for row in rows)
    )[0]
