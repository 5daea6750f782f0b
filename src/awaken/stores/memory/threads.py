"""Reading threads, runs, tickets, and what models were asked, from the memory store."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from heapq import merge
from itertools import chain, islice, takewhile

import msgspec

from awaken.core.event import RunEvent
from awaken.core.lifecycle import RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.message import Message, MessageRecord
from awaken.core.request_manifest import RequestManifest
from awaken.core.rewind import Hidden, begin_of_tail, end_of_page, positions, stretches
from awaken.core.run import PersistedState, RunMessageOutput, RunRecord
from awaken.core.store.commits import CallEntry, StreamLogEntry, ThreadCommit
from awaken.core.store.threads import (
    CommitView,
    Page,
    RunQuery,
    ThreadContext,
    ThreadQuery,
    TicketQuery,
)
from awaken.core.suspension import Ticket, TicketStatus
from awaken.core.thread import Thread, label_filter
from awaken.errors import NotFound, RequestNotKept, TextGone
from awaken.stores.memory.history import (
    RewoundView,
    calls_of_last_turn,
    calls_since,
    compute_rewind,
    find_rewind,
)
from awaken.stores.memory.paging import SortKey, cut_page, first_page, parse_cursor
from awaken.stores.memory.tables import CommitRow, RunRow, Tables, ThreadRow, to_persisted_state
from awaken.stores.request_rebuild import complete_manifest, rebuild_request
from awaken.stores.rules import is_expired

_MAX_SORTED_ROWS = 1000
"""A page sorts up to so many threads; with more, it walks the list's own order instead."""

_replace = msgspec.structs.replace


class MemoryReads(Tables):
    """The reading part of the memory store. Later commits do not change what was returned."""

    # -- threads ------------------------------------------------------------------------------

    async def load_thread(self, thread_id: str) -> Thread | None:
        thread = self._threads.get(thread_id)
        return self._head(thread) if thread else None

    def _head(self, thread: ThreadRow) -> Thread:
        held = self._owners.get(thread.id)
        return Thread(
            id=thread.id,
            parent_thread_id=thread.parent_thread_id,
            latest_run_id=thread.latest_run_id,
            open_run_id=thread.open_run_id,
            active_run_id=thread.active_run_id,
            message_count=len(thread.messages),
            event_count=len(thread.events),
            created_at=thread.created_at,
            updated_at=thread.updated_at,
            active_at=thread.active_at,
            forked_from=thread.forked_from,
            forked_at=thread.forked_at,
            owner=held.owner if held else None,
            scope=thread.place.scope,
            family=thread.place.family,
            metadata=thread.metadata,
        )

    async def list_threads(self, query: ThreadQuery) -> Page[Thread]:
        few = self._few_for(query)
        if few is not None:
            listed = (thread for thread in few if self._is_listed(thread, query))
            return cut_page((_with_sort_key(thread) for thread in listed), query, self._head)
        last = parse_cursor(query)
        scopes = self._activity if query.scope is None else {query.scope} & self._activity.keys()
        walks = [self._activity[scope].after(last[:2] if last else None) for scope in scopes]
        walk = walks[0] if len(walks) == 1 else merge(*walks)
        threads = (self._threads[name] for _, name in walk)
        rows = (_with_sort_key(thread) for thread in threads if self._is_listed(thread, query))
        return first_page(rows, query, self._head)

    def _few_for(self, query: ThreadQuery) -> Iterable[ThreadRow] | None:
        """The threads to filter and sort for a list, or `None` if they may be more than
        `_MAX_SORTED_ROWS`."""
        if query.ancestor_thread_id is not None:
            return self._descendants(query.ancestor_thread_id)
        if query.parent_thread_id is not None:
            return self._children.get(query.parent_thread_id, {}).values()
        if not query.prefix:
            return None
        begin = chain((query.prefix,), self._names.after(query.prefix))
        named = takewhile(lambda name: name.startswith(query.prefix), begin)
        names = list(islice(named, _MAX_SORTED_ROWS))
        if len(names) == _MAX_SORTED_ROWS:
            return None
        return [self._threads[name] for name in names if name in self._threads]

    def _is_listed(self, thread: ThreadRow, query: ThreadQuery) -> bool:
        return (
            query.scope in (None, thread.place.scope)
            and query.parent_thread_id in (None, thread.parent_thread_id)
            and not (query.root and thread.parent_thread_id is not None)
            and thread.id.startswith(query.prefix)
            and (query.since is None or thread.active_at >= query.since)
            and (query.user is None or thread.metadata.user == query.user)
            and (query.label is None or _has_label(thread, query.label))
            and ((query.status, query.agent) == (None, None) or self._was_latest(thread, query))
        )

    def _was_latest(self, thread: ThreadRow, query: ThreadQuery) -> bool:
        """Whether the thread's latest run has the status and the agent of the query."""
        run = self._runs.get(thread.latest_run_id or "")
        return (
            run is not None
            and query.status in (None, run.record.status)
            and query.agent in (None, run.record.agent_id)
        )

    def _is_descendant(self, ancestor: str | None, thread: ThreadRow) -> bool:
        """Whether a thread is beneath `ancestor`; true if `ancestor` is `None`."""
        if ancestor is None:
            return True
        return thread.id != ancestor and any(row.id == ancestor for row in self._ancestors(thread))

    async def load_context(
        self, thread_id: str, *, tail: int | None = None
    ) -> ThreadContext | None:
        thread = self._threads.get(thread_id)
        if thread is None:
            return None
        calls = calls_of_last_turn(thread)
        return self._context(thread, tail, RewoundView(thread.hidden, thread.state, None, calls))

    async def load_rewound(
        self, thread_id: str, to: int, *, tail: int | None = None
    ) -> ThreadContext | None:
        thread = self._threads.get(thread_id)
        return None if thread is None else self._context(thread, tail, compute_rewind(thread, to))

    def _context(self, thread: ThreadRow, tail: int | None, left: RewoundView) -> ThreadContext:
        run = self._runs.get(thread.open_run_id or thread.latest_run_id or "")
        hidden, length = left.hidden, len(thread.messages)
        skipped = 0 if tail is None else begin_of_tail(hidden, length, tail)
        return ThreadContext(
            thread=self._head(thread),
            messages=_between(thread, hidden, skipped, length),
            skipped=skipped,
            hidden=hidden,
            open_run=_bare(run.record) if run else None,
            thread_state=to_persisted_state(left.state),
            run_state=to_persisted_state(run.state if run else {}),
            calls=left.calls,
            commands=list(thread.commands.values()),
            stream_log=thread.stream_log if thread.open_run_id is not None else (),
        )

    async def load_messages(
        self, thread_id: str, *, after: int = 0, limit: int | None = None, hidden: bool = False
    ) -> Sequence[Message]:
        thread = self._threads.get(thread_id)
        if thread is None:
            return []
        spans, after, length = () if hidden else thread.hidden, max(after, 0), len(thread.messages)
        stop = length if limit is None else end_of_page(spans, after, length, max(limit, 0))
        return _between(thread, spans, after, stop)

    async def load_records(
        self, thread_id: str, *, after: int = 0, limit: int | None = None, hidden: bool = False
    ) -> Sequence[MessageRecord]:
        thread = self._threads.get(thread_id)
        if thread is None:
            return []
        messages = await self.load_messages(thread_id, after=after, limit=limit, hidden=hidden)
        seqs = positions(() if hidden else thread.hidden, max(after, 0))
        return [
            MessageRecord.from_message(thread_id, seq, message)
            for message, seq in zip(messages, seqs, strict=False)
        ]

    async def find_rewind(self, thread_id: str, message_id: str) -> int:
        return find_rewind(self._threads.get(thread_id), thread_id, message_id)

    async def load_events(
        self, thread_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[RunEvent]:
        thread = self._threads.get(thread_id)
        return _events_of(thread, _span(after, limit)) if thread else []

    async def load_commits(
        self, thread_id: str, *, after: int = 0, limit: int = 200
    ) -> Sequence[CommitView]:
        thread = self._threads.get(thread_id)
        if thread is None:
            return []
        first = 0  # the index of the first commit with an event behind `after`
        if after > 0:
            first = thread.commit_of_event(after) - 1
            if first < len(thread.commits) and thread.commits[first].events == after:
                first += 1
        rows = thread.commits[first : first + limit]
        return [_commit_view(thread, index, row) for index, row in enumerate(rows, start=first)]

    async def load_stream_log(self, thread_id: str) -> Sequence[StreamLogEntry]:
        thread = self._threads.get(thread_id)
        return thread.stream_log if thread else ()

    async def load_thread_state(self, thread_id: str) -> PersistedState:
        thread = self._threads.get(thread_id)
        return to_persisted_state(thread.state if thread else {})

    async def wait_changed(self, thread_id: str, since: int) -> int:
        while True:
            thread = self._threads.get(thread_id)
            # A caller that knew the thread returns once when it was deleted.
            gone = self._first_version if since else 0
            version = thread.version if thread else gone
            if version > since:
                return version
            await self._changes.wait(thread_id)

    # -- runs ---------------------------------------------------------------------------------

    async def load_run(self, run_id: str) -> RunRecord | None:
        run = self._runs.get(run_id)
        return self._full_record(run) if run else None

    async def latest_run(self, thread_id: str) -> RunRecord | None:
        thread = self._threads.get(thread_id)
        run = self._runs.get(thread.latest_run_id or "") if thread else None
        return self._full_record(run) if run else None

    def _full_record(self, run: RunRow) -> RunRecord:
        """The record with its state, and the ids of the messages it wrote."""
        record = _bare(run.record)
        thread = self._threads[record.thread_id]
        output = record.output
        if output is not None and output.range is not None:
            window = islice(thread.messages, output.range.from_seq - 1, output.range.to_seq)
            ids = tuple(m.id for m in window if m.id and m.produced_by_run_id() == record.run_id)
            output = RunMessageOutput(
                thread_id=output.thread_id, range=output.range, message_ids=ids
            )
        return _replace(
            record, output=output, state=to_persisted_state({**thread.state, **run.state})
        )

    async def list_runs(self, query: RunQuery) -> Page[RunRecord]:
        named = self._runs.get(query.run_id) if query.run_id is not None else None
        runs = self._runs.values() if query.run_id is None else [named] if named else []
        rows = (
            ((-run.number, "", ""), run.record)
            for run in runs
            if query.thread_id in (None, run.record.thread_id)
            and query.scope in (None, self._threads[run.record.thread_id].place.scope)
            and _is_after(run.record, query.updated_after_ms)
            and self._is_descendant(query.ancestor_thread_id, self._threads[run.record.thread_id])
            and query.agent_id in (None, run.record.agent_id)
            and query.user in (None, run.record.request and run.record.request.user)
            and query.kind in (None, run.record.kind)
            and query.parent_run_id in (None, run.record.parent_run_id)
            and query.status in (None, run.record.status)
        )
        return cut_page(rows, query, _bare)

    async def list_interrupted(
        self, *, now_ms: int, thread_id: str | None = None, limit: int | None = None
    ) -> Sequence[RunRecord]:
        found = (
            _bare(run.record)
            for run in self._runs.values()
            if thread_id in (None, run.record.thread_id)
            and run.record.thread_id not in self._owners
            and self._is_due(run.record, now_ms)
        )
        return list(islice(found, limit))

    def _is_due(self, run: RunRecord, now_ms: int) -> bool:
        """Whether a run without an owner should be taken over."""
        if run.status is not RunStatus.WAITING:
            return run.status is RunStatus.RUNNING
        thread = self._threads[run.thread_id]
        return (
            any(c.run_id in (None, run.run_id) for c in thread.commands.values())
            or any(
                ticket.run_id == run.run_id
                and ticket.status is TicketStatus.OPEN
                and is_expired(ticket, now_ms)
                for ticket in thread.tickets.values()
            )
            or self._is_orphan(run)
        )

    def _is_orphan(self, run: RunRecord) -> bool:
        """Whether a run is a delegate whose parent run has ended."""
        parent = self._runs.get(run.parent_run_id or "") if run.is_delegated else None
        return parent is not None and parent.record.status is RunStatus.DONE

    async def load_run_state(self, run_id: str) -> PersistedState:
        run = self._runs.get(run_id)
        return to_persisted_state(run.state if run else {})

    async def load_calls(self, run_id: str) -> Sequence[CallEntry]:
        run = self._runs.get(run_id)
        if run is None:
            return []
        ledger = calls_since(self._threads[run.record.thread_id], run.first_commit)
        return [entry for entry in ledger if entry.run_id == run_id]

    async def list_tickets(self, query: TicketQuery) -> Page[Ticket]:
        is_named = query.thread_id is not None or query.run_id is not None
        rows = (
            ((ticket.asked_at, ticket.thread_id, ticket.key), ticket)
            for thread in self._threads.values()
            if query.thread_id in (None, thread.id) and query.scope in (None, thread.place.scope)
            for ticket in thread.tickets.values()
            if query.run_id in (None, ticket.run_id)
            and query.key in (None, ticket.key)
            and query.status in (None, ticket.status)
            and (is_named or not self._is_asked_by_ancestor(ticket.run_id))
        )
        return cut_page(rows, query, lambda ticket: ticket)

    def _is_asked_by_ancestor(self, run_id: str) -> bool:
        """Whether the run above a delegate asks its question too."""
        run = self._runs.get(run_id)
        if run is None or not run.record.is_delegated:
            return False
        above = self._runs.get(run.record.parent_run_id or "")
        return above is not None and not above.record.is_task


class MemoryRequests(Tables):
    """The part of the memory store that keeps what models were asked."""

    async def load_request(self, thread_id: str, message_id: str) -> InferenceRequest:
        thread, manifest = self._find_manifest(thread_id, message_id)

        def text_of(digest: str) -> bytes:
            if digest not in self._texts:
                raise TextGone(thread_id, digest)
            return self._texts[digest]

        return rebuild_request(manifest, lambda low, high: thread.messages[low - 1 : high], text_of)

    async def load_manifest(self, thread_id: str, message_id: str) -> RequestManifest:
        return self._find_manifest(thread_id, message_id)[1]

    def _find_manifest(self, thread_id: str, message_id: str) -> tuple[ThreadRow, RequestManifest]:
        thread = self._threads.get(thread_id)
        if thread is None:
            raise NotFound("thread", thread_id)
        if message_id in thread.requests:
            kept = thread.requests
            manifest = complete_manifest(
                kept[message_id], lambda seq: kept[thread.messages[seq - 1].id or ""]
            )
            return thread, manifest
        if any(message.id == message_id for message in thread.messages):
            raise RequestNotKept(thread_id, message_id)
        raise NotFound("message", message_id)

    def _store_requests(self, thread: ThreadRow, commit: ThreadCommit) -> None:
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


def _with_sort_key(thread: ThreadRow) -> tuple[SortKey, ThreadRow]:
    return (-thread.active_at, thread.id, ""), thread


def _has_label(thread: ThreadRow, label: str) -> bool:
    name, value = label_filter(label)
    known = thread.metadata.labels
    return name in known and value in (None, known[name])


def _is_after(record: RunRecord, time_ms: int | None) -> bool:
    return time_ms is None or record.updated_at_ms > time_ms


def _between(thread: ThreadRow, hidden: Hidden, after: int, until: int) -> list[Message]:
    """The messages in view behind position `after`, up to `until`."""
    if not hidden:
        return thread.messages[after:until]
    parts = [thread.messages[low:high] for low, high in stretches(hidden, after, until)]
    return list(chain.from_iterable(parts))


def _span(after: int, limit: int | None) -> slice:
    return slice(after, None if limit is None else after + limit)


def _commit_view(thread: ThreadRow, index: int, row: CommitRow) -> CommitView:
    before = thread.commits[index - 1] if index else None
    messages = before.messages if before is not None else 0
    events = before.events if before is not None else 0
    return CommitView(
        position=index + 1,
        first_seq=messages + 1,
        first_event=events + 1,
        at_ms=row.at_ms,
        run_id=row.run_id,
        messages=tuple(thread.messages[messages : row.messages]),
        events=tuple(_events_of(thread, slice(events, row.events))),
        rewinds_to=next((r.after for r in thread.rewinds if r.commit == index + 1), None),
        changed_keys=_list_changed_keys(thread, index + 1),
        calls=tuple(thread.call_lines[before.call_lines if before else 0 : row.call_lines]),
    )


def _list_changed_keys(thread: ThreadRow, number: int) -> tuple[str, ...]:
    """The names of the thread's state keys that a commit wrote."""
    at = bisect_left(thread.state_changes, number, key=lambda change: change[0])
    if at == len(thread.state_changes) or thread.state_changes[at][0] != number:
        return ()
    return tuple(sorted(thread.state_changes[at][1]))


def _events_of(thread: ThreadRow, span: slice) -> list[RunEvent]:
    # A fork has events of its origin, so the thread id and `seq` are set here.
    return [
        _replace(event, thread_id=thread.id, seq=seq, ahead=False, live=None)
        for seq, event in enumerate(thread.events[span], start=span.start + 1)
    ]


def _bare(record: RunRecord) -> RunRecord:
    """The record without the message ids and state, which are added on reading."""
    output = record.output
    if output is not None and output.message_ids:
        output = _replace(output, message_ids=())
    elif record.state is None:
        return record
    return _replace(record, output=output, state=None)
