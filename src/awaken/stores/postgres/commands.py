"""Commands to thread owners, tickets and their answers, and outboxes, in the Postgres store.

Command ids are never reused.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from awaken.codec import dumps
from awaken.core.run import RunRecord
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.suspension import Decision, Ticket
from awaken.core.thread import Thread
from awaken.core.unreadable import RowKind
from awaken.errors import NotFound, UnreadableRecord
from awaken.stores.postgres.connections import Db
from awaken.stores.postgres.rows import THREAD_COLUMNS, ThreadRow, lock_thread
from awaken.stores.rules import (
    answer_ticket,
    can_withdraw,
    cancel_submitted_run,
    check_send,
    decisions_command,
)
from awaken.stores.sql.cursors import UnreadableRows, load_row, load_ticket
from awaken.stores.sql.delta import encode_row

_ADD = "SELECT @add_command_v1(?, ?, ?, ?, ?, ?, ?)"
_IS_OVER = "SELECT 1 FROM @runs WHERE id = ? AND thread = ? AND status = 'done'"
_WITHDRAW = "DELETE FROM @commands WHERE kind = 'run' AND thread = ? AND run_id = ?"
_RECORD = "SELECT record FROM @runs WHERE id = ?"
_END_RUN = """
UPDATE @runs SET record = $1, updated_at_ms = $2, changed_at = $2, status = 'done' WHERE id = $3
"""
_HAS_CANCEL = """
SELECT 1 FROM @commands WHERE thread = ? AND kind = 'cancel' AND (run_id IS NULL OR run_id = ?)
"""
# The threads with open runs at or beneath a thread: from each open run up to that thread.
_OPEN_TREE = f"""
WITH RECURSIVE above(pk, at) AS (
    SELECT o.pk, o.id FROM @runs AS r JOIN @threads AS o ON o.pk = r.thread
    WHERE r.status <> 'done' AND o.open_run IS NOT NULL
    UNION
    SELECT a.pk, o.parent FROM above AS a JOIN @threads AS o ON o.id = a.at
    WHERE o.parent IS NOT NULL AND a.at <> ?
)
SELECT {THREAD_COLUMNS} FROM @threads AS t
WHERE t.pk IN (SELECT pk FROM above WHERE at = ?) ORDER BY t.created_at, t.id
"""
_LOCK = "SELECT pk FROM @threads WHERE pk = ANY (?::bigint[]) ORDER BY id FOR UPDATE"
_COMMANDS = """
SELECT c.id, c.body FROM @commands AS c JOIN @threads AS t ON t.pk = c.thread
WHERE t.id = ? AND t.position > 0 AND c.id <> ALL (?::bigint[]) ORDER BY c.id
"""
_IS_PENDING = "SELECT 1 FROM @commands WHERE id = ?"
# The commands that are due, of threads that the node owns or that have no live owner.
_WAITING = """
SELECT c.id, t.id FROM @commands AS c JOIN @threads AS t ON t.pk = c.thread
LEFT JOIN @nodes AS n ON n.id = t.owner AND n.lease_until > clock_timestamp()
WHERE c.id > ? AND (c.not_before IS NULL OR c.not_before <= ?) AND (n.id IS NULL OR n.id = ?)
"""
_WITHOUT_OWNER = "SELECT id FROM @threads WHERE pk = ANY (?::bigint[]) AND owner IS NULL"
_OUTBOXES = """
SELECT t.id FROM @outboxes AS o JOIN @threads AS t ON t.pk = o.thread
WHERE NOT @is_alive_v1(t.owner) ORDER BY t.id
"""


def pack_command(command: ThreadCommand) -> bytes:
    """
    Raises:
        InvalidRecord: the command holds decisions.
        Serialization: a value in it cannot be encoded, or could not be read back.
    """
    check_send(command)
    return encode_row(command, f"command to thread {command.thread_id!r}")


async def send(db: Db, command: ThreadCommand, body: bytes) -> int:
    """Store a command and return its id; see `Commands.send`.

    Raises:
        NotFound: there is no such thread.
    """
    number = await send_if_there(db, command, body)
    if number is None:
        raise NotFound("thread", command.thread_id)
    return number


async def send_if_there(db: Db, command: ThreadCommand, body: bytes) -> int | None:
    """Store a command and return its id, or `None` if there is no such thread."""
    thread = await lock_thread(db, command.thread_id)
    if thread is None:
        return None
    if command.kind is CommandKind.CANCEL and command.run_id is not None:
        if await db.value(_IS_OVER, command.run_id, thread.pk):
            return 0  # that run has no later commit that would delete the cancel
        await _withdraw(db, thread, command.run_id, command.at_ms)
    return await add_command(db, thread.pk, command, body)


async def _withdraw(db: Db, thread: ThreadRow, run_id: str, at_ms: int) -> None:
    """End a submitted run that has not started, unless the thread's owner may be starting it. The
    cancel stays until the run's events are in the log."""
    if not can_withdraw(thread.owner, thread.open_run):
        return
    body = await db.value(_RECORD, run_id)
    if body is None:
        return
    try:
        record = load_row(RowKind.RUN, run_id, body, RunRecord)
    except UnreadableRecord:
        return  # the cancel waits until the record can be read
    if not await db.run(_WITHDRAW, thread.pk, run_id):
        return
    ended = cancel_submitted_run(record, at_ms)
    await db.run(_END_RUN, dumps(ended), ended.updated_at_ms, run_id)


async def add_command(
    db: Db, thread: int, command: ThreadCommand, body: bytes, not_before: int | None = None
) -> int:
    """Store a command and return its id.

    If its key was used before, nothing is stored: returns the id of that command if it is still
    pending, else 0. The thread must be locked.
    """
    number: int = await db.value(
        _ADD,
        *(thread, command.run_id, command.kind.value, command.by, not_before),
        *(command.key, body),
    )
    return number


async def cancel_tree(
    db: Db, unreadable: UnreadableRows, thread_id: str, at_ms: int, by: str | None
) -> Sequence[Thread]:
    """Send a cancel to each open run of a thread and beneath it, unless one is pending already."""
    found = [ThreadRow(*row) for row in await db.rows(_OPEN_TREE, thread_id, thread_id)]
    await db.rows(_LOCK, [row.pk for row in found])
    # Between the two statements a run may have ended.
    rows = [ThreadRow(*row) for row in await db.rows(_OPEN_TREE, thread_id, thread_id)]
    for row in rows:
        run_id = row.open_run or ""
        if await db.value(_HAS_CANCEL, row.pk, run_id) is None:
            command = ThreadCommand.cancel(row.id, run_id, at_ms=at_ms, by=by)
            await add_command(db, row.pk, command, pack_command(command))
    return [row.thread(unreadable) for row in rows]


async def load_commands(
    db: Db, unreadable: UnreadableRows, thread_id: str, skip: Collection[int]
) -> Sequence[ThreadCommand]:
    """The readable pending commands of a thread but for `skip`, whose bodies are not read."""
    found: list[ThreadCommand] = []
    for id, body in await db.rows(_COMMANDS, thread_id, list(skip)):
        command = unreadable.read_command(id, body)
        if command is not None:
            found.append(command)
    return found


async def is_pending(db: Db, id: int) -> bool:
    return await db.value(_IS_PENDING, id) is not None


async def waiting(db: Db, node: int, after: int, now_ms: int) -> dict[int, str]:
    """The threads of the pending commands that are due, with ids above `after`, by id: those that
    the node owns, and those without a live owner."""
    rows = await db.rows(_WAITING, after, now_ms, node)
    return dict(map(tuple, rows))


async def filter_unowned(db: Db, threads: Sequence[int]) -> set[str]:
    """The ids of those of the threads that have no owner."""
    return {id for (id,) in await db.rows(_WITHOUT_OWNER, threads)}


async def list_outboxes(db: Db) -> Sequence[str]:
    return [id for (id,) in await db.rows(_OUTBOXES)]


# -- tickets ----------------------------------------------------------------------------------


# A key is unique; ticket ids and call ids may repeat.
_TICKETS_BY_NAME = """
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
        meant = [taken.get(ticket.key, ticket) for ticket in await _find_candidates(db, pk, target)]
        ticket = answer_ticket(target, answer, meant, lambda: waiting, at_ms)
        if ticket is not None:
            taken[ticket.key] = ticket
    if not taken or thread is None:
        return None
    for ticket in taken.values():
        await db.run(_ANSWER, dumps(ticket), pk, ticket.key)
    command = decisions_command(thread_id, taken.values(), at_ms)
    return await add_command(db, pk, command, dumps(command))


async def _find_candidates(db: Db, thread: int, target: str) -> list[Ticket]:
    found = [load_ticket(*row) for row in await db.rows(_TICKETS_BY_NAME, thread, target)]
    return [ticket for ticket in found if ticket.key == target] or found
