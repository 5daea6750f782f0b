"""Reading, listing, forking and deleting threads and runs of the Postgres store."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from awaken.clock import Clock
from awaken.core.event import RunEvent
from awaken.core.llm import InferenceRequest
from awaken.core.message import Message, MessageRecord
from awaken.core.request_manifest import RequestManifest
from awaken.core.run import PersistedState, RunRecord
from awaken.core.store.commits import CallEntry, StreamLogEntry
from awaken.core.store.threads import (
    ChildStrategy,
    CommitView,
    DeleteResult,
    Page,
    RunQuery,
    ThreadContext,
    ThreadQuery,
    TicketQuery,
)
from awaken.core.suspension import Ticket
from awaken.core.thread import Thread, ThreadPatch
from awaken.stores.batch_delete import delete_in_batches
from awaken.stores.postgres import listing, maintenance, requests, rows, runs, thread_reads
from awaken.stores.postgres.engine import EngineOpener
from awaken.stores.postgres.rows import find_thread
from awaken.stores.postgres.writer import MAX_WAIT_SECONDS


class PostgresThreads:
    """Reads everything that was committed."""

    _opener: EngineOpener
    _clock: Clock

    async def load_thread(self, thread_id: str) -> Thread | None:
        engine = await self._opener.engine()
        row = await engine.read(lambda db: find_thread(db, thread_id))
        return row.thread(engine.unreadable) if row is not None else None

    async def update_thread(
        self, thread_id: str, patch: ThreadPatch, *, expected_revision: int | None = None
    ) -> Thread:
        engine = await self._opener.engine()
        return await engine.write(
            lambda db: rows.update_thread(db, thread_id, patch, expected_revision),
            channels=(thread_id,),
        )

    async def list_threads(self, query: ThreadQuery) -> Page[Thread]:
        engine = await self._opener.engine()
        return await engine.read(lambda db: listing.list_threads(db, engine.unreadable, query))

    async def load_context(
        self, thread_id: str, *, tail: int | None = None
    ) -> ThreadContext | None:
        engine = await self._opener.engine()
        return await engine.read(
            lambda db: thread_reads.load_context(db, engine.unreadable, thread_id, tail),
            patience=MAX_WAIT_SECONDS,
        )

    async def load_rewound(
        self, thread_id: str, to: int, *, tail: int | None = None
    ) -> ThreadContext | None:
        engine = await self._opener.engine()
        return await engine.read(
            lambda db: thread_reads.load_rewound(db, engine.unreadable, thread_id, to, tail)
        )

    async def load_messages(
        self, thread_id: str, *, after: int = 0, limit: int | None = None, hidden: bool = False
    ) -> Sequence[Message]:
        engine = await self._opener.engine()
        messages, _ = await engine.read(
            lambda db: thread_reads.load_messages(db, thread_id, after, limit, hidden)
        )
        return messages

    async def load_records(
        self, thread_id: str, *, after: int = 0, limit: int | None = None, hidden: bool = False
    ) -> Sequence[MessageRecord]:
        engine = await self._opener.engine()
        messages, seqs = await engine.read(
            lambda db: thread_reads.load_messages(db, thread_id, after, limit, hidden)
        )
        return [
            MessageRecord.from_message(thread_id, seq, message)
            for message, seq in zip(messages, seqs, strict=False)
        ]

    async def find_rewind(self, thread_id: str, message_id: str) -> int:
        engine = await self._opener.engine()
        return await engine.read(lambda db: thread_reads.find_rewind(db, thread_id, message_id))

    async def load_events(
        self, thread_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[RunEvent]:
        engine = await self._opener.engine()
        return await engine.read(lambda db: thread_reads.load_events(db, thread_id, after, limit))

    async def load_commits(
        self, thread_id: str, *, after: int = 0, limit: int = 200
    ) -> Sequence[CommitView]:
        engine = await self._opener.engine()
        return await engine.read(lambda db: thread_reads.load_commits(db, thread_id, after, limit))

    async def load_stream_log(self, thread_id: str) -> Sequence[StreamLogEntry]:
        engine = await self._opener.engine()
        return await engine.read(
            lambda db: thread_reads.load_stream_log(db, engine.unreadable, thread_id)
        )

    async def wait_changed(self, thread_id: str, since: int) -> int:
        engine = await self._opener.engine()
        return await engine.wait(thread_id, since)

    async def load_thread_state(self, thread_id: str) -> PersistedState:
        engine = await self._opener.engine()
        return await engine.read(lambda db: thread_reads.load_thread_state(db, thread_id))

    async def state_at(self, thread_id: str, seq: int) -> PersistedState:
        engine = await self._opener.engine()
        return await engine.read(lambda db: thread_reads.state_at(db, thread_id, seq))

    async def fork(
        self,
        thread_id: str,
        new_id: str,
        *,
        at: int | None = None,
        at_ms: int,
        by: str | None = None,
    ) -> Thread:
        engine = await self._opener.engine()
        return await engine.write(
            lambda db: maintenance.fork(db, thread_id, new_id, at, at_ms, by), channels=(new_id,)
        )

    async def delete_thread(
        self,
        thread_id: str,
        *,
        children: ChildStrategy = ChildStrategy.REJECT,
        force: bool = False,
        at_ms: int,
    ) -> DeleteResult:
        engine = await self._opener.engine()
        freed = await engine.write(
            lambda db: maintenance.delete_thread(db, thread_id, children, force, at_ms)
        )
        engine.watch.mark_all()
        return freed

    async def prune(self, *, before_ms: int) -> DeleteResult:
        engine = await self._opener.engine()
        now = self._clock.now_ms()
        old = await engine.read(lambda db: maintenance.find_old(db, before_ms))
        freed = await delete_in_batches(
            old,
            lambda batch: engine.write(
                lambda db: maintenance.delete_old(db, batch, before_ms, now)
            ),
        )
        await engine.write(lambda db: maintenance.forget_expired(db, now))
        engine.watch.mark_all()
        return freed

    async def forget_scope(self, scope: str, *, at_ms: int) -> DeleteResult:
        engine = await self._opener.engine()
        found = await engine.read(lambda db: maintenance.find_in_scope(db, scope))
        freed = await delete_in_batches(
            found, lambda batch: engine.write(lambda db: maintenance.delete_free(db, batch, at_ms))
        )
        engine.watch.mark_all()
        return freed

    async def filter_used_blobs(
        self, ids: Collection[str], *, thread_id: str | None = None
    ) -> frozenset[str]:
        engine = await self._opener.engine()
        return await engine.read(lambda db: thread_reads.filter_used_blobs(db, ids, thread_id))

    async def load_request(self, thread_id: str, message_id: str) -> InferenceRequest:
        engine = await self._opener.engine()
        return await engine.read(lambda db: requests.load_request(db, thread_id, message_id))

    async def load_manifest(self, thread_id: str, message_id: str) -> RequestManifest:
        engine = await self._opener.engine()
        return await engine.read(lambda db: requests.load_manifest(db, thread_id, message_id))

    # -- runs and tickets ---------------------------------------------------------------------

    async def load_run(self, run_id: str) -> RunRecord | None:
        engine = await self._opener.engine()
        return await engine.read(lambda db: runs.load_run(db, run_id))

    async def latest_run(self, thread_id: str) -> RunRecord | None:
        engine = await self._opener.engine()
        return await engine.read(lambda db: runs.latest_run(db, thread_id))

    async def list_runs(self, query: RunQuery) -> Page[RunRecord]:
        engine = await self._opener.engine()
        return await engine.read(lambda db: listing.list_runs(db, engine.unreadable, query))

    async def list_interrupted(
        self, *, now_ms: int, thread_id: str | None = None, limit: int | None = None
    ) -> Sequence[RunRecord]:
        engine = await self._opener.engine()
        return await engine.read(
            lambda db: runs.list_interrupted(db, engine.unreadable, now_ms, thread_id, limit)
        )

    async def load_run_state(self, run_id: str) -> PersistedState:
        engine = await self._opener.engine()
        return await engine.read(lambda db: runs.load_run_state(db, run_id))

    async def load_calls(self, run_id: str) -> Sequence[CallEntry]:
        engine = await self._opener.engine()
        return await engine.read(lambda db: runs.load_calls(db, run_id))

    async def list_tickets(self, query: TicketQuery) -> Page[Ticket]:
        engine = await self._opener.engine()
        return await engine.read(lambda db: listing.list_tickets(db, engine.unreadable, query))
