"""Reading threads: their messages, their events, their state, and what a run starts from."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence

from awaken.contract.threads import ThreadContext
from awaken.domain.event import RunEvent
from awaken.domain.message import Message
from awaken.domain.run import PersistedState
from awaken.stores.sql import queries
from awaken.stores.sqlite.commands import load_commands
from awaken.stores.sqlite.delta import events_in, messages_in
from awaken.stores.sqlite.owners import Owners
from awaken.stores.sqlite.rows import ThreadRow, commits, find_run, find_thread, position_of
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
        commands=load_commands(db, thread.pk),
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
