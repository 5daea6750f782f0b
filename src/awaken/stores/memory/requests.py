"""Kept requests in the memory store."""

from __future__ import annotations

from awaken.core.llm import InferenceRequest
from awaken.core.request_manifest import RequestManifest
from awaken.core.store.commits import ThreadCommit
from awaken.errors import NotFound, RequestNotKept, TextGone
from awaken.stores.memory.tables import Tables, ThreadRow
from awaken.stores.request_rebuild import completed, rebuilt


class MemoryRequests(Tables):
    """The part of the memory store that keeps what models were asked."""

    async def load_request(self, thread_id: str, message_id: str) -> InferenceRequest:
        thread, manifest = self._kept(thread_id, message_id)

        def text_of(digest: str) -> bytes:
            if digest not in self._texts:
                raise TextGone(thread_id, digest)
            return self._texts[digest]

        return rebuilt(manifest, lambda low, high: thread.messages[low - 1 : high], text_of)

    async def load_manifest(self, thread_id: str, message_id: str) -> RequestManifest:
        return self._kept(thread_id, message_id)[1]

    def _kept(self, thread_id: str, message_id: str) -> tuple[ThreadRow, RequestManifest]:
        thread = self._threads.get(thread_id)
        if thread is None:
            raise NotFound("thread", thread_id)
        if message_id in thread.requests:
            kept = thread.requests
            manifest = completed(
                kept[message_id], lambda seq: kept[thread.messages[seq - 1].id or ""]
            )
            return thread, manifest
        if any(message.id == message_id for message in thread.messages):
            raise RequestNotKept(thread_id, message_id)
        raise NotFound("message", message_id)

    def _keep_requests(self, thread: ThreadRow, commit: ThreadCommit) -> None:
        """Keep the requests of a commit, their texts, and which blobs it uses."""
        if commit.blobs:
            thread.use_blobs(commit.blobs)
        for manifest in commit.requests:
            thread.requests[manifest.message_id] = manifest
        for text in commit.texts:
            if text.digest not in thread.texts:
                thread.texts[text.digest] = len(thread.commits)
                self._texts[text.digest] = text.body
                self._text_uses[text.digest] += 1
