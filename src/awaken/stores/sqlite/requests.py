"""Kept requests in the SQLite store: their texts, and building a request again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from functools import partial

from awaken.codec import dumps
from awaken.core.llm import InferenceRequest
from awaken.core.request_manifest import RequestManifest, StoredText
from awaken.errors import NotFound, RequestNotKept, TextGone
from awaken.stores.request_rebuild import complete_manifest, rebuild_request
from awaken.stores.sql import queries
from awaken.stores.sql.delta import requests_in
from awaken.stores.sqlite.rows import (
    CommitRow,
    ThreadRow,
    commit_id,
    commits,
    find_thread,
    position_of,
)
from awaken.stores.sqlite.threads import messages_between


def add_texts(
    db: sqlite3.Connection, texts: Iterable[StoredText], thread: int, position: int
) -> None:
    """Keep texts, and note that the commit at this position uses them."""
    for text in texts:
        digest = bytes.fromhex(text.digest)
        db.execute(queries.ADD_TEXT, (digest, text.body))
        # The first commit that uses a text is the one that counts, as with blobs.
        db.execute(queries.ADD_TEXT_USE, (thread, digest, position))


def load_request(db: sqlite3.Connection, thread_id: str, message_id: str) -> InferenceRequest:
    thread, manifest = _find_manifest(db, thread_id, message_id)

    def text_of(digest: str) -> bytes:
        row = db.execute(queries.TEXT, (bytes.fromhex(digest),)).fetchone()
        if row is None:
            raise TextGone(thread_id, digest)
        return bytes(row[0])

    return rebuild_request(
        manifest, lambda low, high: messages_between(db, thread, low - 1, high), text_of
    )


def load_manifest(db: sqlite3.Connection, thread_id: str, message_id: str) -> RequestManifest:
    return _find_manifest(db, thread_id, message_id)[1]


def _find_manifest(
    db: sqlite3.Connection, thread_id: str, message_id: str
) -> tuple[ThreadRow, RequestManifest]:
    thread = find_thread(db, thread_id)
    if thread is None:
        raise NotFound("thread", thread_id)
    between = (commit_id(thread.pk, 1), commit_id(thread.pk, thread.position))
    is_known = False
    for found in db.execute(queries.COMMITS_NAMING, (*between, dumps(message_id))):
        ids, kept = requests_in(CommitRow._make(found))
        for manifest in kept:
            if manifest.message_id == message_id:
                return thread, complete_manifest(manifest, partial(_of_answer, db, thread))
        is_known = is_known or message_id in ids
    if is_known:
        raise RequestNotKept(thread_id, message_id)
    raise NotFound("message", message_id)


def _of_answer(db: sqlite3.Connection, thread: ThreadRow, seq: int) -> RequestManifest:
    """The manifest of the answer at this position in the log."""
    position = position_of(db, thread, queries.FIRST_SEQ, seq)
    (row,) = commits(db, thread.pk, position, position)
    ids, kept = requests_in(row)
    answer = ids[seq - row.first_seq]
    return next(manifest for manifest in kept if manifest.message_id == answer)
