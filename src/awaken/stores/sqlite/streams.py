"""Answers that are still being written: pieces in order, until a commit ends them."""

from __future__ import annotations

import sqlite3

from awaken.codec import loads
from awaken.contract.commits import Fence
from awaken.contract.streams import StreamPiece
from awaken.errors import StaleFence
from awaken.stores.sql import queries


def keep_piece(db: sqlite3.Connection, fence: Fence, number: int, body: bytes) -> None:
    """
    Raises:
        StaleFence: another owner has the thread.
    """
    row = db.execute(queries.OWNER, (fence.thread_id,)).fetchone()
    pk, owner, epoch, position = row if row is not None else (0, None, 0, 0)
    if (owner, epoch) != (fence.owner, fence.epoch):
        raise StaleFence(fence.thread_id, epoch=fence.epoch, current=epoch)
    if position == 0:
        return  # a thread begins with its first commit
    if number == 1:
        drop_stream(db, pk)
    db.execute(queries.ADD_PIECE, (pk, number, body))


def drop_stream(db: sqlite3.Connection, thread: int) -> None:
    db.execute(queries.DROP_STREAM, (thread,))


def load_stream(db: sqlite3.Connection, thread: int) -> tuple[StreamPiece, ...]:
    rows = db.execute(queries.STREAM, (thread,))
    return tuple(loads(body, StreamPiece) for (body,) in rows)
