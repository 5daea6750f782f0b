"""Reading runs: their records, state and call ledger, and the interrupted ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from awaken.core.run import PersistedState, RunMessageOutput, RunRecord
from awaken.core.store.commits import CallEntry
from awaken.stores.postgres.connections import Db
from awaken.stores.postgres.rows import (
    RUN_COLUMNS,
    THREAD_COLUMNS,
    RunRow,
    ThreadRow,
    commits,
    find_run,
    with_canceller,
)
from awaken.stores.postgres.state import fold_at, run_state
from awaken.stores.postgres.thread_reads import messages_between
from awaken.stores.sql.cursors import UnreadableRows
from awaken.stores.sql.delta import calls_in
from awaken.stores.sql.fold import enter, to_persisted_state

_replace = msgspec.structs.replace

_RUN_AND_THREAD = f"""
SELECT {RUN_COLUMNS}, {THREAD_COLUMNS} FROM @runs AS r JOIN @threads AS t ON t.pk = r.thread
"""
_RUN = f"{_RUN_AND_THREAD} WHERE r.id = ?"
_LATEST = f"{_RUN_AND_THREAD} WHERE t.id = ? AND r.id = t.latest_run"
# Most open runs are live. There may be thousands, and every node looks once a second: who is dead
# is found out once, not for each of them.
_INTERRUPTED = """
SELECT r.id, r.cancelled_by, r.record FROM @runs AS r JOIN @threads AS t ON t.pk = r.thread
WHERE r.status <> 'done' AND r.status <> 'created'
  AND ($1::text IS NULL OR t.id = $1)
  AND (t.owner IS NULL OR t.owner = ANY (ARRAY(SELECT @dead_owners_v1())))
  AND r.id <> ALL ($4::text[])
  AND (r.status <> 'waiting'
       OR EXISTS (SELECT 1 FROM @commands AS c
                  WHERE c.thread = t.pk AND (c.run_id IS NULL OR c.run_id = r.id)
                    AND c.id <> ALL ($5::bigint[]))
       OR EXISTS (SELECT 1 FROM @tickets AS k
                  WHERE k.status = 'open' AND k.thread = t.pk AND k.run_id = r.id
                    AND k.expires_at < $2)
       OR (r.delegated AND EXISTS (SELECT 1 FROM @runs AS p
                                   WHERE p.id = r.parent AND p.status = 'done')))
ORDER BY r.pk LIMIT $3
"""


# Rows that a worker could not decode, to see whether they were mended.
_RECORDS_OF = "SELECT id, record FROM @runs WHERE id = ANY (?::text[])"
_BODIES_OF = """
SELECT c.id, c.body, r.record FROM @commands AS c LEFT JOIN @runs AS r ON r.id = c.run_id
WHERE c.id = ANY (?::bigint[])
"""


async def load_run(db: Db, run_id: str) -> RunRecord | None:
    return await _to_record(db, await db.row(_RUN, run_id))


async def latest_run(db: Db, thread_id: str) -> RunRecord | None:
    return await _to_record(db, await db.row(_LATEST, thread_id))


async def _to_record(db: Db, found: Sequence[Any] | None) -> RunRecord | None:
    if found is None:
        return None
    columns = len(RunRow._fields)
    values = list(found)
    row = RunRow(*values[:columns])
    thread = ThreadRow(*values[columns:])
    record = row.record(thread.id)
    output = record.output
    if output is not None and output.range is not None:
        stop = min(output.range.to_seq, thread.length)
        written = await messages_between(db, thread, output.range.from_seq - 1, stop)
        ids = tuple(m.id for m in written if m.id and m.produced_by_run_id() == record.run_id)
        output = RunMessageOutput(thread_id=output.thread_id, range=output.range, message_ids=ids)
    of_thread = (await fold_at(db, thread.pk, thread.position)).thread
    state = {**of_thread, **await run_state(db, row)}
    return _replace(record, output=output, state=to_persisted_state(state))


async def load_run_state(db: Db, run_id: str) -> PersistedState:
    row = await find_run(db, run_id)
    return to_persisted_state(await run_state(db, row) if row else {})


async def load_calls(db: Db, run_id: str) -> Sequence[CallEntry]:
    row = await find_run(db, run_id)
    ledger: dict[str, CallEntry] = {}
    if row is not None:
        for commit in await commits(db, row.thread, row.first_position, row.last_position, row.pk):
            for entry in calls_in(commit):
                enter(ledger, entry)
    return tuple(ledger.values())


async def list_interrupted(
    db: Db, unreadable: UnreadableRows, now_ms: int, thread_id: str | None, limit: int | None
) -> Sequence[RunRecord]:
    """The first `limit` open runs without a live owner that a worker should take over."""
    if limit is not None and limit <= 0:
        return []
    await recheck(db, unreadable)
    while True:
        known = len(unreadable.runs)
        found: list[RunRecord] = []
        passed_over = (list(unreadable.runs), list(unreadable.commands))
        for run_id, by, body in await db.rows(_INTERRUPTED, thread_id, now_ms, limit, *passed_over):
            record = unreadable.read_run(run_id, body)
            if record is not None:
                found.append(with_canceller(record, by))
        # Runs that cannot be read have taken the place of others only if there is a limit.
        if limit is None or len(unreadable.runs) == known:
            return found


async def recheck(db: Db, unreadable: UnreadableRows) -> None:
    """Read the runs and commands again that could not be decoded."""
    if unreadable.runs or unreadable.commands:
        unreadable.recheck(
            await db.rows(_RECORDS_OF, list(unreadable.runs)),
            await db.rows(_BODIES_OF, list(unreadable.commands)),
        )
