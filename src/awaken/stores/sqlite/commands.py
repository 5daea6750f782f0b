"""Commands to a thread's owner: rows with ids that are never used twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from awaken.codec import dumps, loads
from awaken.contract.commands import ThreadCommand
from awaken.errors import NotFound
from awaken.stores.answers import check_sent
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
    check_sent(command)
    with writable(f"command to thread {command.thread_id!r}"):
        return dumps(command)


def send(db: sqlite3.Connection, command: ThreadCommand, body: bytes) -> int:
    """Keep a command for a thread that was written.

    Raises:
        NotFound: there is no such thread.
    """
    number = send_if_there(db, command, body)
    if number is None:
        raise NotFound("thread", command.thread_id)
    return number


def send_if_there(db: sqlite3.Connection, command: ThreadCommand, body: bytes) -> int | None:
    """The same, where a thread that is not there needs no command."""
    thread = find_thread(db, command.thread_id)
    return add_command(db, thread.pk, command, body) if thread else None


def add_command(db: sqlite3.Connection, thread: int, command: ThreadCommand, body: bytes) -> int:
    values = (thread, command.run_id, command.kind.value, body)
    return db.execute(queries.ADD_COMMAND, values).lastrowid or 0


def load_commands(db: sqlite3.Connection, thread: int) -> Sequence[ThreadCommand]:
    return _read(db.execute(queries.COMMANDS, (thread,)))


def commands_after(db: sqlite3.Connection, after: int) -> Sequence[ThreadCommand]:
    return _read(db.execute(queries.COMMANDS_AFTER, (after,)))


def _read(rows: sqlite3.Cursor) -> Sequence[ThreadCommand]:
    return tuple(_replace(loads(body, ThreadCommand), id=id) for id, body in rows)
