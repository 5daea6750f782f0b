"""Kept requests in the Postgres store: building a request again."""

from __future__ import annotations

from awaken.core.llm import InferenceRequest
from awaken.core.message import Message
from awaken.core.request_manifest import RequestManifest, UnloggedMessage
from awaken.errors import NotFound, RequestNotKept, TextGone
from awaken.stores.postgres.connections import Db
from awaken.stores.postgres.rows import CommitRow, ThreadRow, find_thread
from awaken.stores.postgres.thread_reads import find_commits_naming, messages_between
from awaken.stores.request_rebuild import complete_manifest, rebuild_request
from awaken.stores.sql.delta import requests_in

_TEXTS = "SELECT digest, body FROM @texts WHERE digest = ANY (?::bytea[])"
_COMMIT = """
SELECT thread, position, first_seq, first_event, at_ms, run, delta FROM @commits
WHERE thread = $1 AND position = @commit_of_seq_v1($1, $2, $3)
"""


async def load_request(db: Db, thread_id: str, message_id: str) -> InferenceRequest:
    thread, manifest = await _find_manifest(db, thread_id, message_id)
    spans = [
        (entry.seq or 0, entry.seq or 0) if isinstance(entry, UnloggedMessage) else tuple(entry)
        for entry in manifest.shown
    ]
    messages: dict[tuple[int, int], list[Message]] = {}
    for low, high in spans:
        if low:
            messages[low, high] = await messages_between(db, thread, low - 1, high)
    digests = [bytes.fromhex(digest) for digest in _digests(manifest)]
    texts = {digest.hex(): body for digest, body in await db.rows(_TEXTS, digests)}

    def text_of(digest: str) -> bytes:
        if digest not in texts:
            raise TextGone(thread_id, digest)
        return bytes(texts[digest])

    return rebuild_request(manifest, lambda low, high: messages[low, high], text_of)


def _digests(manifest: RequestManifest) -> list[str]:
    """The digests of the texts that a complete manifest names."""
    settings = manifest.settings
    assert settings is not None, "a complete manifest has settings"
    named = [entry.text for entry in manifest.shown if isinstance(entry, UnloggedMessage)]
    return [*named, *filter(None, (settings.system, settings.tools, settings.output))]


async def load_manifest(db: Db, thread_id: str, message_id: str) -> RequestManifest:
    return (await _find_manifest(db, thread_id, message_id))[1]


async def _find_manifest(
    db: Db, thread_id: str, message_id: str
) -> tuple[ThreadRow, RequestManifest]:
    thread = await find_thread(db, thread_id)
    if thread is None:
        raise NotFound("thread", thread_id)
    is_known = False
    for row in await find_commits_naming(db, thread, message_id):
        ids, kept = requests_in(row)
        for manifest in kept:
            if manifest.message_id == message_id:
                return thread, await _complete(db, thread, manifest)
        is_known = is_known or message_id in ids
    if is_known:
        raise RequestNotKept(thread_id, message_id)
    raise NotFound("message", message_id)


async def _complete(db: Db, thread: ThreadRow, manifest: RequestManifest) -> RequestManifest:
    """The manifest with what it leaves out, which earlier answers have."""
    earlier: dict[int, RequestManifest] = {}
    like = manifest.like
    while like is not None:
        row = CommitRow(*await db.row(_COMMIT, thread.pk, thread.position, like))
        ids, kept = requests_in(row)
        answer = ids[like - row.first_seq]
        earlier[like] = next(found for found in kept if found.message_id == answer)
        like = earlier[like].like
    return complete_manifest(manifest, earlier.__getitem__)
