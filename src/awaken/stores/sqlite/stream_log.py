"""The stream log: unfinished model answers, kept until a commit ends them."""

from __future__ import annotations

import sqlite3

from awaken.core.store.commits import Fence
from awaken.core.store.stream_log import StreamLogEntry
from awaken.errors import StaleFence
from awaken.stores.sql import queries
from awaken.stores.sql.unreadable import UnreadableRows
from awaken.stores.sqlite.rows import ThreadRow


def append_stream(db: sqlite3.Connection, fence: Fence, number: int, body: bytes) -> None:
    """
    Raises:
        StaleFence: another owner has claimed the thread.
    """
    row = db.execute(queries.OWNER, (fence.thread_id,)).fetchone()
    pk, owner, epoch, position = row if row is not None else (0, None, 0, 0)
    if (owner, epoch) != (fence.owner, fence.epoch):
        raise StaleFence(fence.thread_id, epoch=fence.epoch, current=epoch)
    if position == 0:
        return  # there is no thread before its first commit
    if number == 1:
        delete_stream_log(db, pk)
    db.execute(queries.ADD_STREAM_ENTRY, (pk, number, body))


def delete_stream_log(db: sqlite3.Connection, thread: int) -> None:
    db.execute(queries.DELETE_STREAM_LOG, (thread,))


def load_stream_log(
    db: sqlite3.Connection, unreadable: UnreadableRows, thread: ThreadRow
) -> tuple[StreamLogEntry, ...]:
    rows = db.execute(queries.STREAM_LOG, (thread.pk,)).fetchall()
    return unreadable.read_stream(thread.id, [body for (body,) in rows])
