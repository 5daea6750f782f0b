"""The indexer: it reads what was committed, behind the log, and tells the search index.

It finds commits by comparing how far each thread is in the store and in the index. Threads with a
run that runs, or that started, paused or ended a moment ago, are compared at each look; all others
in turn, some thousands a look. So nothing depends on what an earlier look has seen, and an index
that was thrown away is filled like one that is a second behind.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence

from awaken.clock import Clock
from awaken.core.search.index import (
    IndexedHead,
    IndexState,
    Searchable,
    SearchIndex,
    ThreadHead,
    ThreadUpdate,
)
from awaken.core.store.store import Store
from awaken.errors import SearchUnavailable, UnreadableRecord
from awaken.runtime.search.thread_reading import ThreadReading

log = logging.getLogger("awaken.search")

LOOK_SECONDS = 1.0
"""How long a process that keeps the index waits between two looks."""
OWNER_SECONDS = 5.0
"""After which time without a look another process becomes the owner of the index."""
OVERLAP_MS = 5_000
"""How far the clocks of two processes may differ without delay: beyond that, it is the turn of a
thread that finds its commits."""
_PAGE = 2_500
_PAGES_A_LOOK = 10
_PAGES_AT_REST = 2
"""So few pages of a complete index are compared at a look: a server at rest stays at rest."""
_BATCH = 100
_MAX_BATCH_CHARACTERS = 4_000_000


class Indexer:
    """Keeps the index of a store. Of several, the one that owns the index works."""

    def __init__(self, store: Store, index: SearchIndex, clock: Clock, owner: str) -> None:
        if not isinstance(store, Searchable):
            raise SearchUnavailable(f"{type(store).__name__} has no search index")
        self._store, self._heads = store, store
        self._index, self._clock, self._owner = index, clock, owner
        self._since_ms = 0
        self._after_id = ""
        self._state = IndexState()
        self._is_complete = False
        self._made = ""
        self._threads = self._counted = 0
        self._unreadable: set[str] = set()

    async def look(self) -> bool:
        """Index what is new, and some of what is old. Returns whether this process owns the index.

        Raises:
            SearchUnavailable: the index cannot be used.
            StoreUnavailable: the store cannot be read.
        """
        made = (await self._index.load_state()).made
        if made != self._made:
            self._begin_anew(made)
        if not await self._claim():
            self._begin_anew(made)
            return False
        began = self._clock.now_ms()
        active = await self._heads.list_active_heads(since_ms=self._since_ms or began - OVERLAP_MS)
        known = await self._index.load_heads([head.thread_id for head in active])
        await self._index_threads(active, known)
        self._since_ms = began - OVERLAP_MS
        for _ in range(_PAGES_AT_REST if self._is_complete else _PAGES_A_LOOK):
            if not await self._look_at_page():
                break
        self._state = IndexState(threads=self._threads, is_complete=self._is_complete)
        await self._claim()
        return True

    async def catch_up(self) -> bool:
        """Index everything that was committed before. Returns false if another process does."""
        self._begin_pass()
        self._is_complete = False
        while not self._is_complete:
            if not await self.look():
                return False
        return True

    async def release(self) -> None:
        """Let another process be the owner at once."""
        await self._index.release(self._owner)

    async def _claim(self) -> bool:
        return await self._index.claim(self._owner, OWNER_SECONDS, self._state)

    def _begin_anew(self, made: str) -> None:
        """Begin with an index that this process did not keep until now."""
        self._made, self._since_ms, self._is_complete = made, 0, False
        self._state = IndexState()
        self._begin_pass()

    def _begin_pass(self) -> None:
        self._after_id, self._counted = "", 0

    async def _look_at_page(self) -> bool:
        """Compare the next threads in the order of their ids. Returns whether there are more."""
        heads = await self._heads.list_heads(after=self._after_id, limit=_PAGE)
        until = heads[-1].thread_id if len(heads) == _PAGE else None
        known = await self._index.list_heads(self._after_id, until)
        gone = list(known.keys() - {head.thread_id for head in heads})
        if gone:
            await self._index.remove(gone)
        await self._index_threads(heads, known)
        self._counted += len(heads)
        self._after_id = until or ""
        if until is None:
            # If the index was made anew meanwhile, it lacks what was compared before.
            self._is_complete = (await self._index.load_state()).made == self._made
            self._threads = self._counted
            self._begin_pass()
        return until is not None

    async def _index_threads(
        self, heads: Sequence[ThreadHead], known: Mapping[str, IndexedHead]
    ) -> None:
        """Bring the index to where the store is with these threads."""
        behind = [head for head in heads if not _is_indexed(head, known.get(head.thread_id))]
        batch: list[ThreadUpdate] = []
        size = 0
        for number, head in enumerate(behind):
            async for update in self._read(head, known.get(head.thread_id)):
                batch.append(update)
                size += sum(len(text) for entry in update.entries for text in entry.texts)
                if len(batch) >= _BATCH or size >= _MAX_BATCH_CHARACTERS:
                    await self._index.apply(batch)
                    batch, size = [], 0
                    await self._report(behind[number:])
        if batch:
            await self._index.apply(batch)

    async def _report(self, behind: Sequence[ThreadHead]) -> None:
        """Stay the owner, and say how much there is to do."""
        oldest = min(head.updated_at for head in behind)
        late = max(0, self._clock.now_ms() - oldest)
        self._state = IndexState(
            threads=self._threads or self._counted, pending=len(behind), behind_ms=late
        )
        await self._claim()

    # -- one thread ---------------------------------------------------------------------------

    async def _read(
        self, head: ThreadHead, known: IndexedHead | None
    ) -> AsyncIterator[ThreadUpdate]:
        """What the index lacks of a thread, in one or more updates."""
        reading = ThreadReading(self._store, head, known)
        try:
            async for update in reading.updates():
                yield update
        except UnreadableRecord as error:
            if head.thread_id not in self._unreadable:
                self._unreadable.add(head.thread_id)
                log.warning("thread %s is searched in part: %s", head.thread_id, error)
            yield reading.skip()


def _is_indexed(head: ThreadHead, known: IndexedHead | None) -> bool:
    return known is not None and known.is_at(head)
