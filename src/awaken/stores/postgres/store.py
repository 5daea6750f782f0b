"""The Postgres store: hands each operation of the contract to a connection."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Self

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.store.commands import Submission, SubmitMode, Submitted, ThreadCommand
from awaken.core.store.store import Process
from awaken.core.suspension import Decision
from awaken.core.thread import Thread
from awaken.core.unreadable import RowKind
from awaken.stores.postgres import commands, row_check, submissions
from awaken.stores.postgres.access import PostgresAccess
from awaken.stores.postgres.address import parse_address
from awaken.stores.postgres.blobs import PostgresBlobs
from awaken.stores.postgres.commit import PostgresCommits
from awaken.stores.postgres.engine import EngineOpener
from awaken.stores.postgres.lease import PostgresLease
from awaken.stores.postgres.notifications import COMMANDS
from awaken.stores.postgres.profiles import PostgresProfiles
from awaken.stores.postgres.rows import owner_name
from awaken.stores.postgres.threads import PostgresThreads
from awaken.stores.sql.delta import encode_row
from awaken.stores.sql.row_check import RowChange, StoredRow
from awaken.stores.sql.submissions import pack_submission
from awaken.stores.waiting import CommandPoller

_CHECK = "SELECT floor FROM @epochs"
_PROCESSES = """
SELECT id, pid, host, (extract(epoch FROM started_at) * 1000)::bigint FROM @nodes
WHERE lease_until > clock_timestamp()
"""


class PostgresStore(PostgresCommits, PostgresThreads):
    """Threads, runs, tickets, commands, profiles and blobs in one schema of a Postgres database.

    The constructor does not connect; the first operation does. A store is used by one event loop.
    A thread that was claimed and never written is invisible to readers, but it has an owner: other
    claims and writes without a fence are refused.
    """

    def __init__(self, address: str, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._opener = EngineOpener(parse_address(address))
        self._clock = clock
        self._profiles = PostgresProfiles(self._opener, clock)
        self._access = PostgresAccess(self._opener)
        self.blobs = PostgresBlobs(self._opener, clock)
        self._finalizer = self._abandon_when_freed()

    @classmethod
    def from_address(cls, address: str, *, clock: Clock = SYSTEM_CLOCK) -> Self:
        """
        Raises:
            ConfigError: the address is not one of Postgres; the text shows how to write one.
        """
        return cls(address, clock=clock)

    @property
    def owner(self) -> str:
        return self._opener.owner

    @property
    def lease(self) -> PostgresLease:
        return self._opener.lease

    @property
    def profiles(self) -> PostgresProfiles:
        return self._profiles

    @property
    def access(self) -> PostgresAccess:
        return self._access

    async def open(self) -> None:
        if not self._finalizer.alive:
            self._finalizer = self._abandon_when_freed()
        await self._opener.open()

    async def check(self) -> None:
        await (await self._opener.engine()).read(lambda db: db.value(_CHECK))

    @property
    def is_refusing_writes(self) -> bool:
        return self._opener.writes.is_refusing

    async def check_write(self) -> None:
        await (await self._opener.engine()).check_write()

    def add_batch_callback(self, callback: Callable[[int, float], object]) -> None:
        self._opener.batches.subscribe(lambda batch: callback(*batch))

    def count_unreadable(self) -> Mapping[str, int]:
        return self._opener.unreadable.count()

    async def load_rows(
        self, kind: RowKind, after: tuple[Any, ...] | None, limit: int
    ) -> Sequence[StoredRow]:
        engine = await self._opener.engine()
        return await engine.read(lambda db: row_check.load_rows(db, kind, after, limit))

    async def replace_rows(self, changes: Sequence[RowChange]) -> Sequence[str | None]:
        engine = await self._opener.engine()
        return await engine.write(lambda db: row_check.replace_rows(db, changes))

    async def processes(self) -> Sequence[Process]:
        engine = await self._opener.engine()
        found = [
            Process(owner=owner_name(node), pid=pid, host=host, since_ms=since)
            for node, pid, host, since in await engine.read(lambda db: db.rows(_PROCESSES))
        ]
        return sorted(found, key=lambda process: process.owner)

    async def close(self) -> None:
        await self._opener.close()
        self._finalizer.detach()  # it keeps what the store's listeners know: this store, perhaps

    def _abandon_when_freed(self) -> weakref.finalize[..., Self]:
        """A store that is never closed still releases its threads."""
        finalizer = weakref.finalize(self, self._opener.abandon)
        finalizer.atexit = False
        return finalizer

    # -- commands -----------------------------------------------------------------------------

    async def send(self, command: ThreadCommand) -> int:
        body = commands.pack_command(command)
        engine = await self._opener.engine()
        return await engine.write(
            lambda db: commands.send(db, command, body),
            channels=(COMMANDS, command.thread_id),
            tells=(command.thread_id,),
        )

    async def submit(self, submission: Submission) -> Submitted:
        packed = pack_submission(submission)
        engine = await self._opener.engine()
        answer = await engine.write(
            lambda db: submissions.submit(db, engine.unreadable, packed),
            channels=(COMMANDS, submission.thread_id),
            tells=(submission.thread_id,),
        )
        if submission.mode is SubmitMode.INTERRUPT:
            engine.watch.mark_all()
        return answer

    async def decide(
        self, thread_id: str, decisions: Sequence[Decision], *, at_ms: int
    ) -> int | None:
        encode_row(tuple(decisions), f"decisions for thread {thread_id!r}", tuple[Decision, ...])
        engine = await self._opener.engine()
        return await engine.write(
            lambda db: commands.decide(db, engine.unreadable, thread_id, decisions, at_ms),
            channels=(COMMANDS, thread_id),
            tells=(thread_id,),
        )

    async def cancel_tree(
        self, thread_id: str, *, at_ms: int, by: str | None = None
    ) -> Sequence[Thread]:
        engine = await self._opener.engine()
        cancelled = await engine.write(
            lambda db: commands.cancel_tree(db, engine.unreadable, thread_id, at_ms, by)
        )
        if cancelled:
            engine.hint_later([thread.id for thread in cancelled])
        engine.watch.mark([COMMANDS, *[thread.id for thread in cancelled]])
        return cancelled

    async def load_commands(
        self, thread_id: str, *, skip: Collection[int] = ()
    ) -> Sequence[ThreadCommand]:
        engine = await self._opener.engine()
        return await engine.read(
            lambda db: commands.load_commands(db, engine.unreadable, thread_id, skip)
        )

    async def is_pending(self, id: int) -> bool:
        engine = await self._opener.engine()
        return await engine.read(lambda db: commands.is_pending(db, id))

    async def list_outboxes(self) -> Sequence[str]:
        return await (await self._opener.engine()).read(commands.list_outboxes)

    async def watch_commands(self) -> AsyncGenerator[set[str], None]:
        poller = CommandPoller(asyncio.get_running_loop().time)
        number: int | None = None
        while True:
            engine, after = await self._opener.engine(), poller.read_after
            freed = engine.watch.list_freed(number) if number is not None else []
            is_first, number = number is None, engine.watch.number(COMMANDS)
            waiting = await engine.read(
                partial(
                    commands.waiting, node=engine.node, after=after, now_ms=self._clock.now_ms()
                )
            )
            threads = poller.select_threads(waiting, after)
            if freed:
                threads |= await engine.read(partial(commands.filter_unowned, threads=freed))
            if threads or is_first:
                yield threads
                continue
            await engine.wait_for_commands(poller, number)
