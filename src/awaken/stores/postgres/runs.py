"""Reading runs: their records, state and call ledger, and the interrupted ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from awaken.contract.commits import CallEntry
from awaken.domain.run import PersistedState, RunMessageOutput, RunRecord
from awaken.stores.postgres.connections import Db
from awaken.stores.postgres.read import messages_between
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
from awaken.stores.sql.delta import calls_in
from awaken.stores.sql.fold import enter, persisted
from awaken.stores.sql.unreadable import Unreadable

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
  AND (r.status <> 'waiting'
       OR EXISTS (SELECT 1 FROM @commands AS c
                  WHERE c.thread = t.pk AND (c.run_id IS NULL OR c.run_id = r.id))
       OR EXISTS (SELECT 1 FROM @tickets AS k
                  WHERE k.status = 'open' AND k.thread = t.pk AND k.run_id = r.id
                    AND k.expires_at < $2))
ORDER BY r.pk LIMIT $3
"""


async def load_run(db: Db, run_id: str) -> RunRecord | None:
    return await _whole(db, await db.row(_RUN, run_id))


async def latest_run(db: Db, thread_id: str) -> RunRecord | None:
    return await _whole(db, await db.row(_LATEST, thread_id))


async def _whole(db: Db, found: Sequence[Any] | None) -> RunRecord | None:
    if found is None:
        return None
    columns = len(RunRow._fields)
    values = list(found)
    row = RunRow(*values[:columns])
    thread = ThreadRow(*values[columns:])
    record = row.record()
    output = record.output
    if output is not None and output.range is not None:
        stop = min(output.range.to_seq, thread.length)
        written = await messages_between(db, thread, output.range.from_seq - 1, stop)
        ids = tuple(m.id for m in written if m.id and m.produced_by_run_id() == record.run_id)
        output = RunMessageOutput(thread_id=output.thread_id, range=output.range, message_ids=ids)
    of_thread = (await fold_at(db, thread.pk, thread.position)).thread
    state = {**of_thread, **await run_state(db, row)}
    return _replace(record, output=output, state=persisted(state))


async def load_run_state(db: Db, run_id: str) -> PersistedState:
    row = await find_run(db, run_id)
    return persisted(await run_state(db, row) if row else {})


async def load_calls(db: Db, run_id: str) -> Sequence[CallEntry]:
    row = await find_run(db, run_id)
    ledger: dict[str, CallEntry] = {}
    if row is not None:
        for commit in await commits(db, row.thread, row.first_position, row.last_position, row.pk):
            for entry in calls_in(commit.delta):
                enter(ledger, entry)
    return tuple(ledger.values())


async def list_interrupted(
    db: Db, unreadable: Unreadable, now_ms: int, thread_id: str | None, limit: int | None
) -> Sequence[RunRecord]:
    """The first `limit` open runs without a live owner that a worker should take over."""
    if limit is not None and limit <= 0:
        return []
    found: list[RunRecord] = []
    rows = await db.rows(_INTERRUPTED, thread_id, now_ms, limit)
    for run_id, by, body in rows:
        record = unreadable.read(f"run {run_id}", body, RunRecord)
        if record is not None:
            found.append(with_canceller(record, by))
    return found
