"""Reading threads: their messages, their events, their state, and what a run starts from."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence

from awaken.contract.stream_log import StreamLogEntry
from awaken.contract.threads import CommitView, ThreadContext
from awaken.domain.event import RunEvent
from awaken.domain.message import Message
from awaken.domain.run import PersistedState
from awaken.stores.sql import queries
from awaken.stores.sqlite.commands import all_commands
from awaken.stores.sqlite.delta import events_in, messages_in, run_in
from awaken.stores.sqlite.owners import Owners
from awaken.stores.sqlite.rows import (
    CommitRow,
    ThreadRow,
    commits,
    find_run,
    find_thread,
    position_of,
)
from awaken.stores.sqlite.state import fold_at, persisted, run_state
from awaken.stores.sqlite.stream_log import load_stream_log


def load_context(
    db: sqlite3.Connection, owners: Owners, thread_id: str, tail: int | None
) -> ThreadContext | None:
    thread = find_thread(db, thread_id)
    if thread is None:
        return None
    skipped = 0 if tail is None else max(thread.length - tail, 0)
    fold = fold_at(db, thread.pk, thread.position)
    run = find_run(db, thread.open_run or thread.latest_run)
    state = PersistedState()
    if run is not None:
        # The fold has the state of all open runs; a finished run may have ended before it.
        state = persisted(fold.runs[run.pk] if run.pk in fold.runs else run_state(db, run))
    return ThreadContext(
        thread=thread.thread(owners),
        messages=messages_between(db, thread, skipped, thread.length),
        skipped=skipped,
        open_run=run.record() if run else None,
        thread_state=persisted(fold.thread),
        run_state=state,
        calls=fold.calls,
        commands=all_commands(db, thread.pk),
        stream_log=load_stream_log(db, thread.pk) if thread.open_run else (),
    )


def load_messages(
    db: sqlite3.Connection, thread_id: str, after: int, limit: int | None
) -> Sequence[Message]:
    thread = find_thread(db, thread_id)
    if thread is None:
        return []
    after = max(after, 0)
    stop = thread.length if limit is None else min(after + max(limit, 0), thread.length)
    return messages_between(db, thread, after, stop)


def messages_between(
    db: sqlite3.Connection, thread: ThreadRow, after: int, stop: int
) -> list[Message]:
    """The messages from position `after` + 1 to `stop`; the thread must be that long."""
    found: list[Message] = []
    if after >= stop:
        return found
    first = position_of(db, thread, queries.FIRST_SEQ, after + 1)
    for row in commits(db, thread.pk, first, thread.position):
        if row.first_seq > stop:
            break
        messages = messages_in(row.delta)
        found.extend(messages[max(after + 1 - row.first_seq, 0) : stop + 1 - row.first_seq])
    return found


def load_events(
    db: sqlite3.Connection, thread_id: str, after: int, limit: int | None
) -> Sequence[RunEvent]:
    thread = find_thread(db, thread_id)
    if thread is None:
        return []
    after = max(after, 0)
    stop = thread.events if limit is None else min(after + max(limit, 0), thread.events)
    found: list[RunEvent] = []
    if after >= stop:
        return found
    first = position_of(db, thread, queries.FIRST_EVENT, after + 1)
    for row in commits(db, thread.pk, first, thread.position):
        if row.first_event > stop:
            break
        events = events_in(row.delta, thread_id, row.first_event)
        found.extend(events[max(after + 1 - row.first_event, 0) : stop + 1 - row.first_event])
    return found


def load_commits(
    db: sqlite3.Connection, thread_id: str, after: int, limit: int
) -> Sequence[CommitView]:
    thread = find_thread(db, thread_id)
    if thread is None or limit <= 0:
        return []
    # The position of the commit that holds event `after`.
    held = position_of(db, thread, queries.FIRST_EVENT, after) if after > 0 else 0
    found = list(commits(db, thread.pk, max(held, 1), held + limit))
    if held and (found[1].first_event if len(found) > 1 else thread.events + 1) <= after + 1:
        del found[0]  # that event is its last
    return [_view(row, thread_id) for row in found[:limit]]


def _view(row: CommitRow, thread_id: str) -> CommitView:
    return CommitView(
        position=row.position,
        first_seq=row.first_seq,
        first_event=row.first_event,
        at_ms=row.at_ms,
        run_id=run_in(row.delta) if row.run is not None else None,
        messages=messages_in(row.delta),
        events=tuple(events_in(row.delta, thread_id, row.first_event)),
    )


def load_open_stream(db: sqlite3.Connection, thread_id: str) -> Sequence[StreamLogEntry]:
    thread = find_thread(db, thread_id)
    return load_stream_log(db, thread.pk) if thread is not None else ()


def load_thread_state(db: sqlite3.Connection, thread_id: str) -> PersistedState:
    thread = find_thread(db, thread_id)
    return persisted(fold_at(db, thread.pk, thread.position).thread if thread else {})


def used_blobs(
    db: sqlite3.Connection, ids: Collection[str], thread_id: str | None
) -> frozenset[str]:
    """Those of the blobs that a thread uses, or any thread if none is given."""
    if thread_id is None:
        return frozenset(id for id in ids if db.execute(queries.IS_BLOB_USED, (id,)).fetchone())
    return frozenset(
        id for id in ids if db.execute(queries.IS_BLOB_USED_BY, (id, thread_id)).fetchone()
    )
