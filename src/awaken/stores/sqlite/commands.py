"""Commands to a thread's owner: rows with ids that are never used twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from awaken.codec import dumps, loads
from awaken.contract.commands import CommandKind, ThreadCommand
from awaken.errors import InvalidRecord, NotFound
from awaken.stores.sql import queries
from awaken.stores.sqlite.delta import writable
from awaken.stores.sqlite.rows import find_thread

_replace = msgspec.structs.replace


def pack_command(command: ThreadCommand) -> bytes:
    """
    Raises:
        InvalidRecord: it holds decisions.
        Serialization: a value in it cannot be written.
    """
    if command.kind is CommandKind.DECISIONS:
        raise InvalidRecord("decisions are not sent: `decide` checks them against their tickets")
    with writable(f"command to thread {command.thread_id!r}"):
        return dumps(command)


def send(db: sqlite3.Connection, command: ThreadCommand, body: bytes) -> int:
    """Keep a command for a thread that was written."""
    thread = find_thread(db, command.thread_id)
    if thread is None:
        raise NotFound("thread", command.thread_id)
    return add_command(db, thread.pk, command, body)


def add_command(db: sqlite3.Connection, thread: int, command: ThreadCommand, body: bytes) -> int:
    values = (thread, command.run_id, command.kind.value, body)
    return db.execute(queries.ADD_COMMAND, values).lastrowid or 0


def load_commands(db: sqlite3.Connection, thread: int) -> Sequence[ThreadCommand]:
    return _read(db.execute(queries.COMMANDS, (thread,)))


def commands_after(db: sqlite3.Connection, after: int) -> Sequence[ThreadCommand]:
    return _read(db.execute(queries.COMMANDS_AFTER, (after,)))


def _read(rows: sqlite3.Cursor) -> Sequence[ThreadCommand]:
    return tuple(_replace(loads(body, ThreadCommand), id=id) for id, body in rows)
