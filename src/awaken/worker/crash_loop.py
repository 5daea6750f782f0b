"""Resuming suspects one at a time: runs and background tasks whose processes died several times.

One of them may have killed those processes, and may do so again. If all were resumed at once, each
further death would count against all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from awaken.core.aio.cancel import first_of
from awaken.core.aio.owned_tasks import OwnedTasks
from awaken.core.lifecycle import RunStatus
from awaken.core.run import RunRecord
from awaken.core.store.store import Store

SUSPECT_FROM = 3
"""After this many takeovers in a row, a run is a suspect and waits for its turn. Other runs of a
killed process are resumed at once."""
PROBATION = 60.0
"""The most seconds that a suspect without progress keeps the next one waiting."""


def is_suspect(record: RunRecord) -> bool:
    """Whether so many processes in a row died while they ran it that it may have killed them."""
    return record.takeovers is not None and record.takeovers.times >= SUSPECT_FROM


def most_suspect_first(record: RunRecord) -> int:
    """A sort key: runs with more takeovers come first."""
    return 0 if record.takeovers is None else -record.takeovers.times


class Suspects:
    """Lets suspects run in turn: each starts when the one before has made progress or ended."""

    def __init__(self, store: Store, tasks: OwnedTasks) -> None:
        self._store = store
        self._tasks = tasks
        self._turn = asyncio.Lock()
        self._whose: RunRecord | None = None

    @asynccontextmanager
    async def turn(self, record: RunRecord) -> AsyncIterator[None]:
        """Wait for the turn of a suspect, then run the block. The turn passes to the next suspect
        as soon as this one has made progress, while the block still runs."""
        if not is_suspect(record):
            yield
            return
        await self._turn.acquire()
        self._whose = record
        failed = f"cannot see whether run {record.run_id} makes progress"
        watching = self._tasks.start_logged(self._watch(record), failed)
        try:
            yield
        finally:
            watching.cancel()
            self._let_next(record)

    async def _watch(self, record: RunRecord) -> None:
        try:
            await first_of(self.gets_ahead(record), asyncio.sleep(PROBATION))
        finally:
            self._let_next(record)

    def _let_next(self, record: RunRecord) -> None:
        if self._whose is record:
            self._whose = None
            self._turn.release()

    async def gets_ahead(self, record: RunRecord) -> None:
        """Wait until the run has made progress since it was resumed, or is no longer running.
        Progress resets its takeovers."""
        since = 0
        while True:
            since = await self._store.changed(record.thread_id, since)
            now = await self._store.load_run(record.run_id)
            if now is None or now.takeovers is None or now.status is not RunStatus.RUNNING:
                return
