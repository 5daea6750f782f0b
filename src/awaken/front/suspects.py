"""Runs and tasks with which a process has died, taken up one at a time.

One of them may be what killed the process, and would do so again: were all taken up at once, each
death would count for all of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from awaken.contract.store import Store
from awaken.control.cancel import first_of
from awaken.domain.lifecycle import RunStatus
from awaken.domain.run import RunRecord
from awaken.errors import StoreError

SUSPECT_FROM = 3
"""After how many takeovers in a row a run waits for its turn. Before that a killed process costs
the others no time: all of its runs are taken up at once."""
PROBATION = 60.0
"""For how many seconds, at most, the others wait for one that does not get ahead."""
log = logging.getLogger("awaken.runtime")


def is_suspect(record: RunRecord) -> bool:
    """Whether so many processes died with the run that it may be what kills them."""
    return record.takeovers is not None and record.takeovers.times >= SUSPECT_FROM


def most_suspect_first(record: RunRecord) -> int:
    """The order in which runs are taken up."""
    return 0 if record.takeovers is None else -record.takeovers.times


class Suspects:
    """Lets one suspect after the other go on, each when the one before it got ahead or ended."""

    def __init__(
        self, store: Store, spawn: Callable[[Awaitable[None]], asyncio.Task[None]]
    ) -> None:
        self._store = store
        self._spawn = spawn
        self._turn = asyncio.Lock()
        self._whose: RunRecord | None = None

    @asynccontextmanager
    async def turn(self, record: RunRecord) -> AsyncIterator[None]:
        """Wait for the turn of a suspect. The next one's comes while the block is still carried
        out, as soon as this one has got ahead."""
        if not is_suspect(record):
            yield
            return
        await self._turn.acquire()
        self._whose = record
        watching = self._spawn(self._watch(record))
        try:
            yield
        finally:
            watching.cancel()
            self._let_next(record)

    async def _watch(self, record: RunRecord) -> None:
        try:
            await first_of(self.gets_ahead(record), asyncio.sleep(PROBATION))
        except StoreError as error:
            log.warning("cannot see whether run %s gets ahead: %s", record.run_id, error)
        self._let_next(record)

    def _let_next(self, record: RunRecord) -> None:
        if self._whose is record:
            self._whose = None
            self._turn.release()

    async def gets_ahead(self, record: RunRecord) -> None:
        """Wait until something new of the run is kept, or it runs no more."""
        since = 0
        while True:
            since = await self._store.changed(record.thread_id, since)
            now = await self._store.load_run(record.run_id)
            if now is None or now.takeovers is None or now.status is not RunStatus.RUNNING:
                return
