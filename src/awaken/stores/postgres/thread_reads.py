"""Reading threads: their messages, their events, their state, and what a run starts from.

A reader begins with the thread's head and everything that can change, in one statement. Commits
never change, so what it reads after that belongs to the same instant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

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
from awaken.errors import NotFound, RewindRefused
from awaken.stores.postgres.connections import Db
from awaken.stores.postgres.rows import (
    COMMIT_COLUMNS,
    RUN_COLUMNS,
    THREAD_COLUMNS,
    CommitRow,
    RunRow,
    ThreadRow,
    commits,
    find_head,
    find_thread,
    with_canceller,
)
from awaken.stores.postgres.state import fold_at, fold_rewound, fold_rows, run_state
from awaken.stores.sql.cursors import UnreadableRows
from awaken.stores.sql.delta import events_within, find_message, messages_within, to_commit_view
from awaken.stores.sql.fold import to_persisted_state

# Everything that changes, and the commits that most callers need: those behind the last snapshot,
# and those that hold the last messages, as long as none is out of view.
_CONTEXT = f"""
SELECT {THREAD_COLUMNS}, w.lows, w.highs, {RUN_COLUMNS}, s.position, s.state,
       c.ids, c.bodies, p.pieces, l.positions, l.first_seqs, l.runs, l.deltas
FROM @threads AS t
LEFT JOIN @runs AS r ON r.id = coalesce(t.open_run, t.latest_run)
LEFT JOIN LATERAL (
    SELECT position, state FROM @snapshots AS s WHERE s.thread = t.pk ORDER BY position DESC LIMIT 1
) AS s ON true
CROSS JOIN LATERAL (
    SELECT array_agg(low ORDER BY position) AS lows, array_agg(high ORDER BY position) AS highs
    FROM @rewinds AS w WHERE w.thread = t.pk
) AS w
CROSS JOIN LATERAL (
    SELECT array_agg(id ORDER BY id) AS ids, array_agg(body ORDER BY id) AS bodies
    FROM @commands AS c WHERE c.thread = t.pk
) AS c
CROSS JOIN LATERAL (
    SELECT array_agg(piece ORDER BY number) AS pieces
    FROM @streams AS p WHERE p.thread = t.pk AND t.open_run IS NOT NULL
) AS p
CROSS JOIN LATERAL (
    SELECT array_agg(l.position ORDER BY l.position) AS positions,
           array_agg(l.first_seq ORDER BY l.position) AS first_seqs,
           array_agg(l.run ORDER BY l.position) AS runs,
           array_agg(l.delta ORDER BY l.position) AS deltas
    FROM @commits AS l WHERE l.thread = t.pk AND l.position >= least(
        coalesce(s.position, 0) + 1,
        @commit_of_seq_v1(t.pk, t.position, greatest(t.length - ?::int, 0) + 1))
) AS l
WHERE t.id = ? AND t.position > 0
"""
_MESSAGES = f"""
SELECT {COMMIT_COLUMNS} FROM @commits WHERE thread = ?1
AND position BETWEEN @commit_of_seq_v1(?1, ?2, ?3) AND @commit_of_seq_v1(?1, ?2, ?4)
ORDER BY position
""".replace("?", "$")
_EVENTS = _MESSAGES.replace("commit_of_seq_v1", "commit_of_event_v1")
_COMMITS_NAMING = f"""
SELECT {COMMIT_COLUMNS} FROM @commits
WHERE thread = ? AND position <= ? AND position(? IN delta) > 0 ORDER BY position DESC
"""
_COMMIT_OF_EVENT = "SELECT @commit_of_event_v1(?, ?, ?)"
_OPEN_STREAM = """
SELECT s.piece FROM @streams AS s JOIN @threads AS t ON t.pk = s.thread WHERE t.id = ?
ORDER BY s.number
"""
_HAS_OWNER = "SELECT @is_alive_v1(owner) FROM @threads WHERE id = ?"
_USED = "SELECT DISTINCT blob FROM @blob_uses WHERE blob = ANY (?::text[])"
_USED_BY = """
SELECT u.blob FROM @blob_uses AS u JOIN @threads AS t ON t.pk = u.thread
WHERE u.blob = ANY (?::text[]) AND t.id = ?
"""
_ALL = 2**31 - 1
"""As the length of a tail: all messages."""


async def has_owner(db: Db, thread_id: str) -> bool:
    """Whether a thread has a live owner."""
    return bool(await db.value(_HAS_OWNER, thread_id))


async def load_context(
    db: Db, unreadable: UnreadableRows, thread_id: str, tail: int | None
) -> ThreadContext | None:
    row = await db.row(_CONTEXT, _ALL if tail is None else max(0, min(tail, _ALL)), thread_id)
    if row is None:
        return None
    read = _ContextRow(row, unreadable)
    thread, hidden = read.thread, read.hidden
    behind = [commit for commit in read.commits if commit.position > read.snapshot]
    fold = await fold_rows(db, thread.pk, read.snapshot, read.state, behind)
    skipped = 0 if tail is None else begin_of_tail(hidden, thread.length, tail)
    if hidden:
        messages = await messages_in_view(db, thread, hidden, skipped, thread.length)
    else:
        messages = cut_messages(read.commits, skipped, thread.length)
    state = PersistedState()
    if (run := read.run) is not None:
        # The fold has the state of all open runs; a finished run may have ended before it.
        state = to_persisted_state(
            fold.runs[run.pk] if run.pk in fold.runs else await run_state(db, run)
        )
    return read.context(
        messages=messages,
        skipped=skipped,
        hidden=hidden,
        thread_state=to_persisted_state(fold.thread),
        run_state=state,
        calls=fold.calls,
    )


async def load_rewound(
    db: Db, unreadable: UnreadableRows, thread_id: str, to: int, tail: int | None
) -> ThreadContext | None:
    row = await db.row(_CONTEXT, 0, thread_id)
    if row is None:
        return None
    read = _ContextRow(row, unreadable)
    thread = read.thread
    fold = await fold_rewound(db, thread.pk, read.hidden, thread.position, to)
    hidden = find_hidden_spans([*read.spans, (to, thread.length)])
    skipped = 0 if tail is None else begin_of_tail(hidden, thread.length, tail)
    state = PersistedState()
    if (run := read.run) is not None:
        state = to_persisted_state(
            fold.runs[run.pk] if run.pk in fold.runs else await run_state(db, run)
        )
    return read.context(
        messages=await messages_in_view(db, thread, hidden, skipped, thread.length),
        skipped=skipped,
        hidden=hidden,
        thread_state=to_persisted_state(fold.thread),
        run_state=state,
        calls=fold.calls,
    )


class _ContextRow:
    """A row of `_CONTEXT`."""

    def __init__(self, row: Sequence[Any], unreadable: UnreadableRows) -> None:
        values = list(row)
        self._unreadable = unreadable
        heads, runs = len(ThreadRow._fields), len(RunRow._fields)
        self.thread = ThreadRow(*values[:heads])
        lows, highs, *rest = values[heads:]
        self.spans: list[tuple[int, int]] = list(zip(lows or (), highs or (), strict=True))
        self.hidden: Hidden = find_hidden_spans(self.spans)
        self.run = RunRow(*rest[:runs]) if rest[0] is not None else None
        at, self.state, ids, bodies, pieces, *columns = rest[runs:]
        self.snapshot: int = at or 0
        self._commands = zip(ids or (), bodies or (), strict=True)
        self._pieces: Sequence[bytes] = pieces or ()
        arrays = zip(*[column or () for column in columns], strict=True)
        self.commits = [
            CommitRow(self.thread.pk, position, first_seq, 0, 0, run, delta)
            for position, first_seq, run, delta in arrays
        ]

    def _latest(self) -> RunRecord | None:
        """The record of the thread's open run, or of its latest one; `None` if that has ended and
        its record cannot be read."""
        run = self.run
        if run is None or self.thread.open_run is not None:
            return run.record() if run is not None else None
        record = self._unreadable.read(RowKind.RUN, run.id, run.data, RunRecord)
        return with_canceller(record, run.cancelled_by) if record is not None else None

    def context(self, **read: Any) -> ThreadContext:
        """The context, with what was computed from the commits."""
        commands = [self._unreadable.read_command(id, body) for id, body in self._commands]
        return ThreadContext(
            thread=self.thread.thread(self._unreadable),
            open_run=self._latest(),
            commands=tuple([command for command in commands if command is not None]),
            stream_log=self._unreadable.read_stream(self.thread.id, self._pieces),
            **read,
        )


# -- messages ---------------------------------------------------------------------------------


async def load_messages(
    db: Db, thread_id: str, after: int, limit: int | None, with_hidden: bool
) -> tuple[Sequence[Message], Iterator[int]]:
    """The messages of a page, and their positions in the log; more positions may follow."""
    thread, hidden = await find_head(db, thread_id)
    after, length = max(after, 0), thread.length if thread is not None else 0
    if with_hidden:
        hidden = ()
    seqs = positions(hidden, after)
    if thread is None:
        return [], seqs
    stop = length if limit is None else end_of_page(hidden, after, length, max(limit, 0))
    return await messages_in_view(db, thread, hidden, after, stop), seqs


async def messages_in_view(
    db: Db, thread: ThreadRow, hidden: Hidden, after: int, until: int
) -> list[Message]:
    """The messages in view behind position `after`, up to `until`; the thread must be that long."""
    return [
        message
        for low, high in stretches(hidden, after, until)
        for message in await messages_between(db, thread, low, high)
    ]


async def messages_between(db: Db, thread: ThreadRow, after: int, stop: int) -> list[Message]:
    """The messages from position `after` + 1 to `stop`; the thread must be that long."""
    if after >= stop:
        return []
    rows = await db.rows(_MESSAGES, thread.pk, thread.position, after + 1, stop)
    return cut_messages([CommitRow(*row) for row in rows], after, stop)


def cut_messages(rows: Sequence[CommitRow], after: int, stop: int) -> list[Message]:
    """The messages from position `after` + 1 to `stop`, of rows that hold them and maybe more."""
    found: list[Message] = []
    for place, row in enumerate(rows):
        following = rows[place + 1].first_seq if place + 1 < len(rows) else stop + 1
        if following > after + 1 and row.first_seq <= stop:
            found.extend(messages_within(row, after, stop))
    return found


async def find_rewind(db: Db, thread_id: str, message_id: str) -> int:
    """See `Threads.find_rewind`."""
    thread, hidden = await find_head(db, thread_id)
    is_known = False
    for row in await find_commits_naming(db, thread, message_id) if thread is not None else ():
        for seq in find_message(row, message_id):
            if not is_hidden(hidden, seq):
                return seq - 1
            is_known = True
    raise RewindRefused(thread_id, message_id, is_hidden=is_known)


async def find_commits_naming(db: Db, thread: ThreadRow, message_id: str) -> list[CommitRow]:
    """The commits in whose rows the id of a message stands, the last one first."""
    rows = await db.rows(_COMMITS_NAMING, thread.pk, thread.position, dumps(message_id))
    return [CommitRow(*row) for row in rows]


# -- events and commits -----------------------------------------------------------------------


async def load_events(db: Db, thread_id: str, after: int, limit: int | None) -> Sequence[RunEvent]:
    thread = await find_thread(db, thread_id)
    if thread is None:
        return []
    after = max(after, 0)
    stop = thread.events if limit is None else min(after + max(limit, 0), thread.events)
    found: list[RunEvent] = []
    if after >= stop:
        return found
    for line in await db.rows(_EVENTS, thread.pk, thread.position, after + 1, stop):
        found.extend(events_within(CommitRow(*line), thread_id, after, stop))
    return found


async def load_commits(db: Db, thread_id: str, after: int, limit: int) -> Sequence[CommitView]:
    thread = await find_thread(db, thread_id)
    if thread is None or limit <= 0:
        return []
    # The position of the commit that holds event `after`.
    held = 0
    if after > 0:
        held = await db.value(_COMMIT_OF_EVENT, thread.pk, thread.position, min(after, _ALL))
    last = min(held + limit, thread.position)
    found = await commits(db, thread.pk, max(held, 1), last)
    following = found[1].first_event if len(found) > 1 else thread.events + 1
    if held and found and following <= after + 1:
        del found[0]  # that event is its last
    return [to_commit_view(row, thread_id) for row in found[:limit]]


async def load_stream_log(
    db: Db, unreadable: UnreadableRows, thread_id: str
) -> Sequence[StreamLogEntry]:
    rows = await db.rows(_OPEN_STREAM, thread_id)
    return unreadable.read_stream(thread_id, [piece for (piece,) in rows])


# -- state ------------------------------------------------------------------------------------


async def load_thread_state(db: Db, thread_id: str) -> PersistedState:
    thread = await find_thread(db, thread_id)
    if thread is None:
        return to_persisted_state({})
    return to_persisted_state((await fold_at(db, thread.pk, thread.position)).thread)


async def state_at(db: Db, thread_id: str, seq: int) -> PersistedState:
    thread = await find_thread(db, thread_id)
    if thread is None:
        raise NotFound("thread", thread_id)
    position, _, _ = await find_position(db, thread, seq)
    return to_persisted_state((await fold_at(db, thread.pk, position)).thread)


async def find_position(db: Db, source: ThreadRow, at: int | None) -> tuple[int, int, int]:
    """The position of the commit that holds event `at`, and how many messages and events there
    are up to it; those of the last commit without `at`."""
    if at is None:
        return source.position, source.length, source.events
    if not 1 <= at <= source.events:
        raise NotFound("event", f"{at} of thread {source.id}")
    position = await db.value(_COMMIT_OF_EVENT, source.pk, source.position, at)
    if position == source.position:
        return position, source.length, source.events
    (behind,) = await commits(db, source.pk, position + 1, position + 1)
    return position, behind.first_seq - 1, behind.first_event - 1


async def filter_used_blobs(db: Db, ids: Collection[str], thread_id: str | None) -> frozenset[str]:
    """Those of the blobs that a thread uses, or any thread if none is given."""
    if thread_id is None:
        rows = await db.rows(_USED, list(ids))
    else:
        rows = await db.rows(_USED_BY, list(ids), thread_id)
    return frozenset(blob for (blob,) in rows)
