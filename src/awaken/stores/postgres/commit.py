"""Commits, claims and releases of the Postgres store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Collection, Sequence
from functools import partial
from typing import TypeVar

from awaken.clock import Clock
from awaken.core.lifecycle import RunStatus
from awaken.core.rewind import Hidden
from awaken.core.run import RunRecord
from awaken.core.store.commits import Committed, Fence, StreamLogEntry, ThreadCommit
from awaken.errors import InvalidRecord, StaleFence, StoreUnavailable, ThreadOwned
from awaken.stores.postgres.commands import send_if_there
from awaken.stores.postgres.connections import Db
from awaken.stores.postgres.engine import Engine, EngineOpener
from awaken.stores.postgres.lease import MINE
from awaken.stores.postgres.notifications import COMMANDS, Channel
from awaken.stores.postgres.packing import (
    COMMIT,
    CommitAnswer,
    arguments,
    element_of,
    is_withdrawal,
    to_committed,
)
from awaken.stores.postgres.rows import commits, find_head, find_run, node_of, owner_name
from awaken.stores.postgres.state import write_rewound
from awaken.stores.postgres.submissions import claim_next, find_next
from awaken.stores.postgres.thread_reads import has_owner
from awaken.stores.postgres.writer import MAX_WAIT_SECONDS
from awaken.stores.sql.delta import Packed, encode_row, pack
from awaken.stores.sql.fold import SNAPSHOT_EVERY
from awaken.stores.sql.submissions import Wanted
from awaken.stores.waiting import POLL_SECONDS

T = TypeVar("T")

_CLAIM = "SELECT * FROM @claim_v1(?, ?, ?)"
_LOCK = "SELECT pk FROM @threads WHERE id = ? FOR UPDATE"
_OWNER = "SELECT pk, owner, epoch, position FROM @threads WHERE id = ? FOR UPDATE"
_DROP_CANCELS = """
DELETE FROM @commands WHERE thread = ? AND kind = 'cancel' AND (run_id IS NULL OR run_id = ?)
"""
_DROP_STREAM = "DELETE FROM @streams WHERE thread = ?"
_ADD_PIECE = "INSERT INTO @streams (thread, number, piece) VALUES (?, ?, ?)"


class PostgresCommits:
    """Writes threads, and grants the right to write them."""

    immediate = False
    _opener: EngineOpener
    _clock: Clock

    async def commit(self, commit: ThreadCommit) -> Committed:
        packed = pack(commit)
        engine = await self._opener.engine()
        targets = [command.thread_id for command in commit.sends]
        if commit.rewinds_to is not None or any(map(is_withdrawal, commit.sends)):
            answer = await engine.write(partial(_write_alone, packed=packed))
            has_sent = bool(targets)
        else:
            sends = tuple(zip(commit.sends, packed.sends, strict=True))
            answer = await engine.writer.write(element_of(packed, sends), targets)
            has_sent = answer.has_sent
        written = to_committed(commit, answer)
        if (answer.since_snapshot or 0) >= SNAPSHOT_EVERY and commit.rewinds_to is None:
            engine.snapshot_later(answer.thread or 0, answer.position or 0)
        if has_sent:
            engine.hint_later(targets)
        if commit.release and commit.run is not None and commit.run.status is RunStatus.RUNNING:
            engine.hint_later([commit.thread_id])  # a run was left, which others carry on
        channels: list[Channel] = [commit.thread_id, *targets]
        engine.watch.mark([*channels, COMMANDS] if targets else channels)
        if commit.release and commit.fence is not None:
            engine.forget(commit.fence)
        return written

    async def find_commit(self, commit: ThreadCommit) -> Committed | None:
        if commit.run is None:
            raise InvalidRecord("a commit without a run cannot be found again: read its thread")
        engine = await self._opener.engine()
        await engine.end_lost_sessions()
        return await engine.read(partial(_find_committed, commit=commit), patience=MAX_WAIT_SECONDS)

    async def append_stream(self, fence: Fence, entry: StreamLogEntry) -> None:
        body = encode_row(entry, f"the stream log of thread {fence.thread_id!r}")
        engine = await self._opener.engine()
        await engine.write(partial(_append_stream, fence=fence, number=entry.number, body=body))

    async def claim(self, thread_id: str, *, at_ms: int) -> Fence:
        engine = await self._opener.engine()
        node = engine.node
        claimed: list[Fence] = []

        async def write(db: Db) -> Fence:
            outcome, epoch, before = await db.row(_CLAIM, thread_id, node, at_ms)
            if outcome == "owned":
                raise ThreadOwned(thread_id, owner_name(before))
            fence = Fence(
                thread_id=thread_id,
                owner=owner_name(node),
                epoch=epoch,
                taken_from=owner_name(before) if before is not None else None,
            )
            claimed[:] = [fence]
            return fence

        return await _register_claims(engine, engine.write(write), claimed)

    async def claim_next(
        self,
        agents: Collection[str],
        *,
        limit: int,
        at_ms: int,
        overdue_ms: int,
        skip: Collection[str] = (),
    ) -> Sequence[tuple[Fence, RunRecord]]:
        engine = await self._opener.engine()
        node, unreadable = engine.node, engine.unreadable
        wanted = Wanted(list(agents), limit, at_ms, overdue_ms, list(skip))
        while True:
            known = len(unreadable.commands) + len(unreadable.runs)
            # Most of the time there is nothing to claim, and reading is cheaper than a transaction.
            seen = await engine.read(lambda db: find_next(db, node, unreadable, wanted))
            if not seen:
                return ()
            claimed: list[Fence] = []
            write = partial(_claim_next, engine, wanted, seen, claimed)
            found = await _register_claims(engine, engine.write(write), claimed)
            if found or len(unreadable.commands) + len(unreadable.runs) == known:
                return found

    async def release(self, fence: Fence) -> None:
        await (await self._opener.engine()).release(fence)

    async def list_claims(self) -> Sequence[Fence]:
        engine = await self._opener.engine()
        node = engine.node
        rows = await engine.read(lambda db: db.rows(MINE, node))
        owner = owner_name(node)
        return [Fence(thread_id=row[0], owner=owner, epoch=row[1]) for row in rows]

    async def wait_released(self, thread_id: str) -> None:
        while True:
            engine = await self._opener.engine()
            number = engine.watch.number(thread_id)
            if not await engine.read(lambda db: has_owner(db, thread_id)):
                return
            # The death of an owner is no change of the thread.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await engine.wait(thread_id, number)


async def _claim_next(
    engine: Engine,
    wanted: Wanted,
    seen: Sequence[tuple[int, int]],
    claimed: list[Fence],
    db: Db,
) -> Sequence[tuple[Fence, RunRecord]]:
    found = await claim_next(db, engine.node, engine.unreadable, wanted, seen)
    claimed[:] = [fence for fence, _ in found]
    return found


async def _register_claims(engine: Engine, claiming: Awaitable[T], claimed: list[Fence]) -> T:
    """Do a claim, and note what was claimed. If the caller is cancelled, or the answer is lost, it
    never gets the fences and could not release the threads: then they are released."""
    try:
        answer = await claiming
    except asyncio.CancelledError:
        engine.release_later(claimed)
        raise
    except StoreUnavailable:
        # Before anybody tries again: the next claim may get the same fence if this one is not kept.
        for fence in claimed:
            await engine.release(fence)
        raise
    engine.held.update((fence.thread_id, fence) for fence in claimed)
    return answer


# -- in a transaction -------------------------------------------------------------------------


async def _write_alone(db: Db, packed: Packed) -> CommitAnswer:
    """Write a commit that rewinds its thread, or that cancels runs which may not have started: it
    needs more than the function does."""
    commit, run = packed.commit, packed.commit.run
    hidden: Hidden = ()
    if commit.rewinds_to is not None:
        await db.value(_LOCK, commit.thread_id)
        _, hidden = await find_head(db, commit.thread_id)
    targets = [command.thread_id for command in commit.sends]
    answer = CommitAnswer(*await db.row(COMMIT, *arguments([element_of(packed, ())], targets)))
    if answer.outcome != "written":
        return answer
    if commit.rewinds_to is not None:
        thread, position = answer.thread or 0, answer.position or 0
        await write_rewound(db, thread, hidden, position, commit.rewinds_to)
    for command, body in zip(commit.sends, packed.sends, strict=True):
        await send_if_there(db, command, body)
    if commit.sends and run is not None and run.status is RunStatus.DONE:
        await db.run(_DROP_CANCELS, answer.thread, run.run_id)
    return answer


async def _find_committed(db: Db, commit: ThreadCommit) -> Committed | None:
    """The result of a commit, found by its run's revision, or `None` if it was not written."""
    assert commit.run is not None
    # A session that is still writing the commit has the thread locked.
    await db.value(_LOCK, commit.thread_id)
    run = await find_run(db, commit.run.run_id)
    if run is None or run.record().revision != commit.run.revision:
        return None
    (row,) = await commits(db, run.thread, run.last_position, run.last_position) or (None,)
    # Another owner may have written the same revision with other content.
    if row is None or row.delta != pack(commit).delta:
        return None
    return Committed(commit.expected_length + len(commit.messages), row.first_event)


async def _append_stream(db: Db, fence: Fence, number: int, body: bytes) -> None:
    """
    Raises:
        StaleFence: another owner has claimed the thread.
    """
    row = await db.row(_OWNER, fence.thread_id)
    pk, owner, epoch, position = row if row is not None else (0, None, 0, 0)
    if (owner, epoch) != (node_of(fence.owner), fence.epoch):
        raise StaleFence(fence.thread_id, epoch=fence.epoch, current=epoch)
    if position == 0:
        return  # there is no thread before its first commit
    if number == 1:
        await db.run(_DROP_STREAM, pk)
    await db.run(_ADD_PIECE, pk, number, body)
