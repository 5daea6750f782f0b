"""The metadata of threads in the SQLite store."""

from __future__ import annotations

import sqlite3

from awaken.codec import dumps_text
from awaken.core.metadata import ThreadMetadata, ThreadPatch
from awaken.core.thread import Thread
from awaken.errors import NotFound
from awaken.stores.metadata import changed_metadata
from awaken.stores.sql import queries
from awaken.stores.sqlite.owners import Owners
from awaken.stores.sqlite.rows import find_thread, thread_of


def update_thread(
    db: sqlite3.Connection,
    owners: Owners,
    thread_id: str,
    patch: ThreadPatch,
    expected_revision: int | None,
) -> Thread:
    """Change a thread's metadata; returns the thread."""
    thread = find_thread(db, thread_id)
    if thread is None:
        raise NotFound("thread", thread_id)
    metadata, text = changed_metadata(thread_id, thread.metadata(), patch, expected_revision)
    write_metadata(db, thread.pk, metadata, text)
    return thread_of(db, thread.pk).thread(owners)


def write_metadata(
    db: sqlite3.Connection, thread: int, metadata: ThreadMetadata, text: bytes
) -> None:
    labels = dumps_text(metadata.labels) if metadata.labels else None
    db.execute(queries.SET_METADATA, (thread, metadata.user, labels, text))
