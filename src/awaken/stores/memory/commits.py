"""The commit door in memory: append-only logs, small heads, state by changed key."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import msgspec

from awaken.codec import loads
from awaken.contract.commits import CallEntry, Committed, RunQuery, ThreadCommit
from awaken.domain.event import RunEvent
from awaken.domain.message import Message, MessageRecord
from awaken.domain.run import PersistedState, RunMessageOutput, RunRecord
from awaken.domain.thread import Thread, project_run
from awaken.errors import InvalidRecord, StaleFence, VersionConflict

_replace = msgspec.structs.replace


class _Thread:
    """One thread: its head, its log, its events, its state."""

    __slots__ = (
        "active_run_id",
        "created_at",
        "epoch",
        "events",
        "id",
        "latest_run_id",
        "messages",
        "open_run_id",
        "parent_thread_id",
        "state",
        "updated_at",
    )

    def __init__(self, thread_id: str, created_at: int) -> None:
        self.id = thread_id
        self.created_at = self.updated_at = created_at
        self.parent_thread_id: str | None = None
        self.latest_run_id: str | None = None
        self.open_run_id: str | None = None
        self.active_run_id: str | None = None
        self.messages: list[Message] = []
        self.events: list[RunEvent] = []
        self.state: dict[str, msgspec.Raw] = {}
        self.epoch = 0

    def head(self) -> Thread:
        return Thread(
            id=self.id,
            parent_thread_id=self.parent_thread_id,
            latest_run_id=self.latest_run_id,
            open_run_id=self.open_run_id,
            active_run_id=self.active_run_id,
            message_count=len(self.messages),
            created_at=self.created_at,
            updated_at=self.updated_at,
        )


class _Run:
    """One run: its record, its state, its calls."""

    __slots__ = ("calls", "order", "record", "state")

    def __init__(self, record: RunRecord) -> None:
        self.record = record
        self.order = 0
        self.state: dict[str, msgspec.Raw] = {}
        self.calls: dict[str, CallEntry] = {}


class MemoryCommits:
    """Everything a process knows, as long as it lives. A commit never waits for anything."""

    def __init__(self) -> None:
        self._threads: dict[str, _Thread] = {}
        self._runs: dict[str, _Run] = {}
        self._order = 0

    # -- writing ------------------------------------------------------------------------------

    async def commit(self, commit: ThreadCommit) -> Committed:
        thread = self._checked(commit)
        self._threads[commit.thread_id] = thread
        thread.messages.extend(commit.messages)
        first_seq = len(thread.events) + 1
        thread.events.extend(commit.events)
        if commit.thread_state:
            thread.state.update(commit.thread_state)
        thread.updated_at = commit.at_ms
        if commit.parent_thread_id is not None and thread.parent_thread_id is None:
            thread.parent_thread_id = commit.parent_thread_id
        if commit.run is not None:
            thread.latest_run_id = commit.run.run_id
            thread.open_run_id, thread.active_run_id = project_run(
                commit.run, thread.open_run_id, thread.active_run_id
            )
            self._write_run(commit, commit.run)
        return Committed(len(thread.messages), first_seq)

    def _checked(self, commit: ThreadCommit) -> _Thread:
        """The thread to write, after every refusal has had its chance."""
        thread = self._threads.get(commit.thread_id)
        if thread is None:
            thread = _Thread(commit.thread_id, commit.at_ms)
        actual = len(thread.messages)
        if commit.expected_length != actual:
            raise VersionConflict(commit.thread_id, expected=commit.expected_length, actual=actual)
        fence = commit.fence
        if fence is not None and fence.epoch < thread.epoch:
            raise StaleFence(commit.thread_id, epoch=fence.epoch, current=thread.epoch)
        run = commit.run
        if run is not None:
            known = self._runs.get(run.run_id)
            if run.thread_id != commit.thread_id or (
                known is not None and known.record.thread_id != commit.thread_id
            ):
                raise InvalidRecord(f"run {run.run_id!r} belongs to another thread")
        elif commit.run_state or commit.calls:
            raise InvalidRecord("run state and calls need the run's record beside them")
        if fence is not None:
            thread.epoch = fence.epoch
        return thread

    def _write_run(self, commit: ThreadCommit, record: RunRecord) -> None:
        run = self._runs.get(record.run_id)
        if run is None:
            run = self._runs[record.run_id] = _Run(record)
        self._order += 1
        run.record, run.order = record, self._order
        run.state.update(commit.run_state)
        for entry in commit.calls:
            known = run.calls.get(entry.key)
            if known is not None and entry.arguments is None:
                entry = _replace(entry, arguments=known.arguments)
            run.calls[entry.key] = entry

    # -- reading ------------------------------------------------------------------------------

    async def load_thread(self, thread_id: str) -> Thread | None:
        thread = self._threads.get(thread_id)
        return thread.head() if thread else None

    async def load_messages(
        self, thread_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Message]:
        thread = self._threads.get(thread_id)
        stop = None if limit is None else after + limit
        return thread.messages[after:stop] if thread else []

    async def load_records(
        self, thread_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[MessageRecord]:
        messages = await self.load_messages(thread_id, after=after, limit=limit)
        return [
            MessageRecord.from_message(thread_id, seq, message)
            for seq, message in enumerate(messages, start=after + 1)
        ]

    async def load_run(self, run_id: str) -> RunRecord | None:
        run = self._runs.get(run_id)
        return self._assembled(run) if run else None

    async def latest_run(self, thread_id: str) -> RunRecord | None:
        thread = self._threads.get(thread_id)
        run = self._runs.get(thread.latest_run_id or "") if thread else None
        return self._assembled(run) if run else None

    async def list_runs(self, query: RunQuery) -> Sequence[RunRecord]:
        newest_first = sorted(self._runs.values(), key=lambda run: run.order, reverse=True)
        found = [
            run.record
            for run in newest_first
            if query.thread_id in (None, run.record.thread_id)
            and query.agent_id in (None, run.record.agent_id)
            and query.status in (None, run.record.status)
        ]
        ids = [record.run_id for record in found]
        start = ids.index(query.before) + 1 if query.before in ids else 0
        return found[start : start + query.limit]

    def _assembled(self, run: _Run) -> RunRecord:
        """The record with its state, and the ids of the messages it wrote."""
        record = run.record
        thread = self._threads[record.thread_id]
        output = record.output
        if output is not None and output.range is not None:
            window = islice(thread.messages, output.range.from_seq - 1, output.range.to_seq)
            ids = tuple(m.id for m in window if m.id and m.produced_by_run_id() == record.run_id)
            output = RunMessageOutput(
                thread_id=output.thread_id, range=output.range, message_ids=ids
            )
        return _replace(record, output=output, state=_state({**thread.state, **run.state}))

    async def load_thread_state(self, thread_id: str) -> PersistedState:
        thread = self._threads.get(thread_id)
        return _state(thread.state if thread else {})

    async def load_run_state(self, run_id: str) -> PersistedState:
        run = self._runs.get(run_id)
        return _state(run.state if run else {})

    async def load_events(
        self, thread_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[RunEvent]:
        thread = self._threads.get(thread_id)
        stop = None if limit is None else after + limit
        events = thread.events[after:stop] if thread else []
        return [_replace(event, seq=seq) for seq, event in enumerate(events, start=after + 1)]

    async def load_calls(self, run_id: str) -> Sequence[CallEntry]:
        run = self._runs.get(run_id)
        return list(run.calls.values()) if run else []

    async def close(self) -> None:
        return


def _state(raw: dict[str, msgspec.Raw]) -> PersistedState:
    return PersistedState(extensions={name: loads(value) for name, value in sorted(raw.items())})
