"""The metadata of threads in the Postgres store."""

from __future__ import annotations

from awaken.codec import dumps
from awaken.core.metadata import ThreadMetadata, ThreadPatch
from awaken.core.thread import Thread
from awaken.errors import NotFound
from awaken.stores.metadata import changed_metadata
from awaken.stores.postgres.connections import Db
from awaken.stores.postgres.rows import lock_thread, thread_of

_SET = """
INSERT INTO @thread_metadata (thread, user_id, labels, record) VALUES (?, ?, ?, ?)
ON CONFLICT (thread) DO UPDATE
SET user_id = excluded.user_id, labels = excluded.labels, record = excluded.record
"""


async def update_thread(
    db: Db, thread_id: str, patch: ThreadPatch, expected_revision: int | None
) -> Thread:
    """Change a thread's metadata; returns the thread."""
    thread = await lock_thread(db, thread_id)
    if thread is None:
        raise NotFound("thread", thread_id)
    metadata, text = changed_metadata(thread_id, thread.metadata(), patch, expected_revision)
    await write_metadata(db, thread.pk, metadata, text)
    return (await thread_of(db, thread.pk)).thread()


async def write_metadata(db: Db, thread: int, metadata: ThreadMetadata, text: bytes) -> None:
    labels = [bytes for label in metadata.labels.items() for bytes in label_bytes(*label)]
    await db.run(_SET, thread, user_bytes(metadata.user), labels, text)


def user_bytes(user: str | None) -> bytes | None:
    """The id of an end user as it is stored: it may be a text that Postgres does not take."""
    return user.encode() if user is not None else None


def label_bytes(name: str, value: str) -> tuple[bytes, bytes]:
    """What is stored of a label: its name, and its name with its value. One is never the other."""
    return dumps(name), dumps([name, value])
