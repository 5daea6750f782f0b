"""Reading threads: their messages, their events, their state, and what a run starts from."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Sequence

from awaken.codec import dumps
from awaken.core.event import RunEvent
from awaken.core.message import Message
from awaken.core.rewind import (
    Hidden,
    begin_of_tail,
    end_of_page,
    find_hidden_spans,
    is_hidden,
    positions,
    stretches,
)
from awaken.core.run import PersistedState, RunRecord
from awaken.core.store.commits import StreamLogEntry
from awaken.core.store.threads import CommitView, ThreadContext
from awaken.core.unreadable import RowKind
from awaken.errors import RewindRefused
from awaken.stores.sql import queries
from awaken.stores.sql.cursors import UnreadableRows
from awaken.stores.sql.delta import events_within, find_message, messages_within, to_commit_view
from awaken.stores.sql.fold import to_persisted_state
from awaken.stores.sqlite.commands import all_commands
from awaken.stores.sqlite.owners import Owners
from awaken.stores.sqlite.rows import (
    CommitRow,
    RunRow,
    ThreadRow,
    commit_id,
    commits,
    find_run,
    find_thread,
    load_stream_log,
    position_of,
)
from awaken.stores.sqlite.state import fold_at, fold_rewound, load_hidden, run_state


def has_owner(db: sqlite3.Connection, owners: Owners, thread_id: str) -> bool:
    """Whether a thread has a live owner."""
    row = db.execute(queries.OWNER, (thread_id,)).fetchone()
    return row is not None and row[1] is not None and owners.is_alive(row[1])


def load_context(
    db: sqlite3.Connection,
    owners: Owners,
    unreadable: UnreadableRows,
    thread_id: str,
    tail: int | None,
    rewinds_to: int | None = None,
) -> ThreadContext | None:
    thread = find_thread(db, thread_id)
    if thread is None:
        return None
    hidden = load_hidden(db, thread.pk)
    if rewinds_to is None:
        fold = fold_at(db, thread.pk, thread.position)
    else:
        hidden = find_hidden_spans([*hidden, (rewinds_to, thread.length)])
        fold = fold_rewound(db, thread.pk, thread.position, rewinds_to)
    skipped = 0 if tail is None else begin_of_tail(hidden, thread.length, tail)
    run = find_run(db, thread.open_run or thread.latest_run)
    state = PersistedState()
    if run is not None:
        # The fold has the state of all open runs; a finished run may have ended before it.
        state = to_persisted_state(fold.runs[run.pk] if run.pk in fold.runs else run_state(db, run))
    return ThreadContext(
        thread=thread.thread(owners, unreadable),
        messages=messages_in_view(db, thread, hidden, skipped, thread.length),
        skipped=skipped,
        hidden=hidden,
        open_run=_latest(thread, run, unreadable),
        thread_state=to_persisted_state(fold.thread),
        run_state=state,
        calls=fold.calls,
        commands=all_commands(db, unreadable, thread.pk),
        stream_log=load_stream_log(db, unreadable, thread) if thread.open_run else (),
    )


def _latest(thread: ThreadRow, run: RunRow | None, unreadable: UnreadableRows) -> RunRecord | None:
    """The record of a thread's open run, or of its latest one; `None` if that has ended and its
    record cannot be read."""
    if run is None or thread.open_run is not None:
        return run.record() if run is not None else None
    return unreadable.read(RowKind.RUN, run.id, run.data, RunRecord)


def load_messages(
    db: sqlite3.Connection, thread_id: str, after: int, limit: int | None, with_hidden: bool
) -> tuple[Sequence[Message], Iterator[int]]:
    """The messages of a page, and their positions in the log; more positions may follow."""
    thread = find_thread(db, thread_id)
    after, length = max(after, 0), thread.length if thread is not None else 0
    hidden = () if with_hidden or thread is None else load_hidden(db, thread.pk)
    seqs = positions(hidden, after)
    if thread is None:
        return [], seqs
    stop = length if limit is None else end_of_page(hidden, after, length, max(limit, 0))
    return messages_in_view(db, thread, hidden, after, stop), seqs


def messages_in_view(
    db: sqlite3.Connection, thread: ThreadRow, hidden: Hidden, after: int, until: int
) -> list[Message]:
    """The messages in view behind position `after`, up to `until`; the thread must be that long."""
    parts = [
        messages_between(db, thread, low, high) for low, high in stretches(hidden, after, until)
    ]
    return parts[0] if len(parts) == 1 else [message for part in parts for message in part]


def find_rewind(db: sqlite3.Connection, thread_id: str, message_id: str) -> int:
    """See `Threads.find_rewind`."""
    thread = find_thread(db, thread_id)
    is_known = False
    if thread is not None:
        hidden = load_hidden(db, thread.pk)
        for seq in _positions_of(db, thread, message_id):
            if not is_hidden(hidden, seq):
                return seq - 1
            is_known = True
    raise RewindRefused(thread_id, message_id, is_hidden=is_known)


def _positions_of(db: sqlite3.Connection, thread: ThreadRow, message_id: str) -> Iterator[int]:
    """The positions of the messages with an id, from the end of the log to its begin."""
    # Most rows are passed over by a search for the id's text, which is much cheaper than decoding.
    text = dumps(message_id)
    between = (commit_id(thread.pk, 1), commit_id(thread.pk, thread.position))
    for row in map(CommitRow._make, db.execute(queries.COMMITS_BACK, between)):
        if text in row.delta:
            yield from find_message(row, message_id)


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
        found.extend(messages_within(row, after, stop))
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
        found.extend(events_within(row, thread_id, after, stop))
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
    return [to_commit_view(row, thread_id) for row in found[:limit]]


def load_open_stream(
    db: sqlite3.Connection, unreadable: UnreadableRows, thread_id: str
) -> Sequence[StreamLogEntry]:
    thread = find_thread(db, thread_id)
    return load_stream_log(db, unreadable, thread) if thread is not None else ()


def load_thread_state(db: sqlite3.Connection, thread_id: str) -> PersistedState:
    thread = find_thread(db, thread_id)
    return to_persisted_state(fold_at(db, thread.pk, thread.position).thread if thread else {})


def filter_used_blobs(
    db: sqlite3.Connection, ids: Collection[str], thread_id: str | None
) -> frozenset[str]:
    """Those of the blobs that a thread uses, or any thread if none is given."""
    if thread_id is None:
        return frozenset(id for id in ids if db.execute(queries.IS_BLOB_USED, (id,)).fetchone())
    return frozenset(
        id for id in ids if db.execute(queries.IS_BLOB_USED_BY, (id, thread_id)).fetchone()
    )
