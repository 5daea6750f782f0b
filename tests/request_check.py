"""07/CO-12, for every test that runs an agent with a scripted model.

After each commit of an answer, the request that is built again from the store equals the one that
the model has received.
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from awaken.codec import dumps
from awaken.core.llm import InferenceRequest, LlmStreamEvent, RoutingKey
from awaken.core.request_manifest import RequestManifest
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.models.output_tool import with_output_tool
from awaken.stores.memory import MemoryStore
from awaken.stores.sqlite import SqliteStore
from awaken.stores.sqlite.address import MEMORY
from awaken.stores.sqlite.requests import load_request
from awaken.testing import FunctionModel, ScriptedModel

MANY = 300
"""Of longer conversations, one request in ten is built again."""


class RequestCheck:
    """What the scripted models of one test have received, and what was wrong with the log."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.checked = 0
        self._received: defaultdict[Any, list[InferenceRequest]] = defaultdict(list)

    def hear(self, request: InferenceRequest) -> None:
        copy = msgspec.structs.replace(request, messages=list(request.messages))
        self._received[request.routing_key].append(copy)

    def look(self, store: MemoryStore | SqliteStore, commit: ThreadCommit) -> None:
        """Build the requests of a commit again, if a scripted model has received them. The event
        loop waits, so that the test takes the same course as without this check."""
        run_id = commit.run.run_id if commit.run is not None else None
        if not self._received[RoutingKey(thread_id=commit.thread_id, run_id=run_id)]:
            return
        for manifest in commit.requests:
            if len(commit.requests) == 1 and commit.expected_length > MANY and self.checked % 10:
                self.checked += 1
                continue
            try:
                built = _load(store, commit.thread_id, manifest.message_id)
            except Exception as error:
                self.wrong.append(f"{manifest}: {error!r}")
                continue
            if built is not None:
                self._compare(built, manifest)

    def _compare(self, built: InferenceRequest, manifest: RequestManifest) -> None:
        received = self._received[built.routing_key]
        if b'"source":{"type":"blob"' in dumps(built):
            return  # media are loaded by the runtime: see test_kept_requests
        self.checked += 1
        for index, request in enumerate(received):
            if _is_same(built, request):
                del received[: index + 1]
                return
        all_received = "\n".join(f"received: {_shown(request)}" for request in received)
        self.wrong.append(f"{manifest}\nbuilt:    {_shown(built)}\n{all_received}")


def _load(
    store: MemoryStore | SqliteStore, thread_id: str, message_id: str
) -> InferenceRequest | None:
    if isinstance(store, MemoryStore):
        loading = store.load_request(thread_id, message_id)
        try:
            loading.send(None)
        except StopIteration as done:
            built: InferenceRequest = done.value
            return built
        raise AssertionError("the memory store never waits")
    if store.path == MEMORY:
        return None
    db = sqlite3.connect(store.path)
    try:
        return load_request(db, thread_id, message_id)
    finally:
        db.close()


def _is_same(built: InferenceRequest, received: InferenceRequest) -> bool:
    if received.output is None and built.output is not None:
        built = with_output_tool(built)
    return built == received or dumps(built) == dumps(received)


def _shown(request: InferenceRequest) -> str:
    """The request as JSON, with long texts cut."""
    return re.sub(r'"text":"([^"]{24})[^"]*"', r'"text":"\1…"', dumps(request).decode())


@pytest.fixture(autouse=True)
def request_check(monkeypatch: pytest.MonkeyPatch) -> Any:
    check = RequestCheck()
    for model in (ScriptedModel, FunctionModel):
        monkeypatch.setattr(model, "execute_stream", _heard(model.execute_stream, check))
    for store in (MemoryStore, SqliteStore):
        monkeypatch.setattr(store, "commit", _looked_at(store.commit, check))
    yield check
    assert not check.wrong, "\n".join(check.wrong[:3])


def _heard(execute_stream: Any, check: RequestCheck) -> Any:
    def execute(self: Any, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        check.hear(request)
        stream: AsyncIterator[LlmStreamEvent] = execute_stream(self, request)
        return stream

    return execute


def _looked_at(commit: Any, check: RequestCheck) -> Any:
    async def commit_and_look(self: Any, written: ThreadCommit) -> Committed:
        committed: Committed = await commit(self, written)
        if written.requests:
            check.look(self, written)
        return committed

    return commit_and_look
