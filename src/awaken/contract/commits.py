"""The one door to durable state."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from awaken.codec import Json
from awaken.domain.event import RunEvent
from awaken.domain.lifecycle import RunStatus
from awaken.domain.message import Message, MessageRecord
from awaken.domain.run import PersistedState, RunRecord
from awaken.domain.thread import Thread
from awaken.domain.value import Value


class CallPhase(StrEnum):
    """What the ledger knows of a call."""

    INTENT = "intent"
    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNKNOWN = "unknown"


class CallEntry(Value, frozen=True, kw_only=True):
    """A line of the call ledger: keyed by the assistant message and the call's index in it."""

    key: str
    run_id: str
    call_id: str
    tool_name: str
    phase: CallPhase
    arguments: Json = None


def call_key(message_id: str, index: int) -> str:
    """The stable name of a call; provider call ids repeat, this does not."""
    return f"{message_id}:{index}"


class Fence(Value, frozen=True, kw_only=True):
    """Who may write the thread now."""

    owner: str
    epoch: int


class ThreadCommit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Everything that becomes true at once.

    `messages` follow the `expected_length` messages already there. State is given as JSON text of
    the keys that changed. Events get their `seq` when the commit is made.
    """

    thread_id: str
    expected_length: int
    messages: tuple[Message, ...] = ()
    run: RunRecord | None = None
    run_state: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    thread_state: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    events: tuple[RunEvent, ...] = ()
    calls: tuple[CallEntry, ...] = ()
    parent_thread_id: str | None = None
    at_ms: int = 0
    fence: Fence | None = None


class Committed(msgspec.Struct, frozen=True, gc=False):
    """The answer: how long the log is now, and the `seq` of the commit's first event."""

    length: int
    first_event_seq: int


class RunQuery(Value, frozen=True, kw_only=True):
    """Which runs to list, newest first."""

    thread_id: str | None = None
    agent_id: str | None = None
    status: RunStatus | None = None
    limit: int = 50
    before: str | None = None


class Commits(Protocol):
    """Durable threads: one way to write them, several to read."""

    async def commit(self, commit: ThreadCommit) -> Committed:
        """Write all of `commit` or none of it.

        Raises:
            VersionConflict: the log is not `expected_length` long; read again.
            StaleFence: another owner took the thread over.
            CommitUnknown: the answer was lost; read before retrying.
        """
        ...

    async def load_thread(self, thread_id: str) -> Thread | None: ...

    async def load_messages(
        self, thread_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Message]:
        """Messages in order, from position `after` + 1."""
        ...

    async def load_records(
        self, thread_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[MessageRecord]: ...

    async def load_run(self, run_id: str) -> RunRecord | None:
        """The record, with its run-scoped and thread-scoped state put together."""
        ...

    async def latest_run(self, thread_id: str) -> RunRecord | None: ...

    async def list_runs(self, query: RunQuery) -> Sequence[RunRecord]: ...

    async def load_thread_state(self, thread_id: str) -> PersistedState: ...

    async def load_run_state(self, run_id: str) -> PersistedState: ...

    async def load_events(
        self, thread_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[RunEvent]: ...

    async def load_calls(self, run_id: str) -> Sequence[CallEntry]:
        """The ledger of a run, the latest entry of each call."""
        ...

    async def close(self) -> None: ...
