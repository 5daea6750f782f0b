"""Searching a runtime's store: one index, one indexer, and the answers."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
from collections.abc import Sequence
from typing import Never

import msgspec

from awaken.clock import Clock
from awaken.codec import digest, dumps, loads
from awaken.core.search.index import FoundEntry, IndexState, Searchable, SearchIndex
from awaken.core.search.query import SearchQuery, parse_search
from awaken.core.search.usage import UsageQuery, UsageRow, check_day, load_zone
from awaken.core.search.words import cut_snippet
from awaken.core.store.store import Store
from awaken.core.store.threads import Page
from awaken.core.thread import Thread
from awaken.core.value import Value
from awaken.errors import InvalidRecord, SearchUnavailable, StoreUnavailable
from awaken.ids import Ids
from awaken.runtime.search.indexer import LOOK_SECONDS, Indexer

log = logging.getLogger("awaken.search")

WAIT_SECONDS = 5.0
"""How long a search waits until the index has what was committed, if no process keeps it."""
MAX_LIMIT = 500
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
_replace = msgspec.structs.replace


class SearchHit(Value, frozen=True, kw_only=True):
    """A run that was found, with its thread; without `run_id`, the thread was found by its title,
    its id or messages that no run has.

    `question` is the beginning of what the run was asked, `snippet` the text around the first of
    the words. `status` is `created`, `running`, `waiting` or, of a run that has ended, `finished`,
    `failed`, `cancelled`, `stopped` or `blocked`.
    """

    thread_id: str
    run_id: str | None = None
    title: str | None = None
    agent_id: str | None = None
    model: str | None = None
    user: str | None = None
    status: str | None = None
    started_at_ms: int = 0
    updated_at_ms: int = 0
    tokens: int = 0
    cost: float | None = None
    question: str = ""
    snippet: str = ""


class SearchState(Value, frozen=True, kw_only=True):
    """How far the index is behind the store: `pending` threads have commits that are not in it, the
    oldest from `behind_ms` milliseconds ago. Until it `is_complete` it is being built, and a search
    finds a part."""

    threads: int = 0
    pending: int = 0
    behind_ms: int = 0
    is_complete: bool = False


class SearchPage(Page[SearchHit], frozen=True, kw_only=True):
    """A page of what was found, and how far the index is."""

    state: SearchState = SearchState()


class SearchService:
    """The search of one runtime. Nothing is opened before it is used."""

    def __init__(self, store: Store, clock: Clock, ids: Ids) -> None:
        if not isinstance(store, Searchable):
            raise SearchUnavailable(
                f"{type(store).__name__} cannot be searched: it has no `search_index`"
            )
        self._store, self._clock = store, clock
        self._index: SearchIndex = store.search_index()
        self._indexer = Indexer(store, self._index, clock, f"indexer-{ids.new()}")
        self._lock = asyncio.Lock()

    # -- keeping the index ----------------------------------------------------------------------

    async def keep(self) -> Never:
        """Keep the index up to date, as its owner or until the owner dies. It never returns; an
        index or a store that cannot be used is logged, and tried again."""
        pause = _FIRST_PAUSE
        while True:
            try:
                async with self._lock:
                    await self._indexer.look()
                pause = _FIRST_PAUSE
                await asyncio.sleep(LOOK_SECONDS)
            except StoreUnavailable as error:
                if pause == _FIRST_PAUSE:
                    log.warning("nothing new is found by searches for now: %s", error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)

    async def update(self) -> bool:
        """Index everything that was committed before. Returns false if another process keeps the
        index."""
        async with self._lock:
            try:
                return await self._indexer.catch_up()
            finally:
                with contextlib.suppress(SearchUnavailable):
                    await self._indexer.release()

    async def forget_deleted(self) -> None:
        """Drop what the store no longer has, if there is an index. Nothing is raised: what remains
        is not found, and is dropped later."""
        try:
            if await self._index.exists():
                await self.update()
        except SearchUnavailable as error:
            log.warning("texts of deleted threads are still in the search index: %s", error)

    async def rebuild(self, zone: str | None) -> None:
        """Drop the index, and fill it anew. Its days are those of `zone` from then on.

        Raises:
            ConfigError: there is no such time zone.
        """
        if zone is not None:
            load_zone(zone)
        await self._index.rebuild(zone)
        await self.update()

    async def close(self) -> None:
        with contextlib.suppress(SearchUnavailable):
            await self._indexer.release()
        await self._index.close()

    async def _refresh(self) -> IndexState:
        """Wait for what was committed, if no process keeps the index; returns how far it is."""
        state = await self._index.load_state()
        if state.owner is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WAIT_SECONDS):
                    await self.update()
            state = await self._index.load_state()
        return state

    # -- answers --------------------------------------------------------------------------------

    async def search(self, query: SearchQuery) -> SearchPage:
        """
        Raises:
            InvalidSearch: a part of the text is wrong.
            InvalidRecord: the cursor is not one of this search.
            SearchUnavailable: the index cannot be used.
        """
        terms = parse_search(query.text, zone=load_zone(query.zone), now_ms=self._clock.now_ms())
        if not 1 <= query.limit <= MAX_LIMIT:
            raise InvalidRecord(f"a page limit of {query.limit} is not between 1 and {MAX_LIMIT}")
        before_key = _key_of(query)
        state = await self._refresh()
        found = await self._index.find(
            terms,
            scope=query.scope,
            kind=query.kind,
            before_key=before_key,
            limit=query.limit,
        )
        phrases = [phrase.words for phrase in terms.phrases]
        return SearchPage(
            items=tuple(await self._hits(query, found.entries, phrases)),
            cursor=None if found.next_key is None else _cursor(query, found.next_key),
            state=self._to_search_state(state),
        )

    async def usage(self, query: UsageQuery) -> Sequence[UsageRow]:
        """
        Raises:
            ConfigError: a day or the zone is not one.
            SearchUnavailable: the index cannot be used.
        """
        check_day("after", query.after)
        check_day("before", query.before)
        if query.zone is not None:
            load_zone(query.zone)
        await self._refresh()
        return await self._index.sum_usage(query)

    async def state(self) -> SearchState:
        """How far the index is."""
        return self._to_search_state(await self._index.load_state())

    def _to_search_state(self, state: IndexState) -> SearchState:
        behind = state.behind_ms
        if state.owner is None and state.seen_ms:
            behind = max(behind, self._clock.now_ms() - state.seen_ms)
        return SearchState(
            threads=state.threads,
            pending=state.pending,
            behind_ms=behind,
            is_complete=state.is_complete,
        )

    async def _hits(
        self, query: SearchQuery, entries: Sequence[FoundEntry], phrases: list[tuple[str, ...]]
    ) -> list[SearchHit]:
        """What was found, without what was deleted since."""
        hits: list[SearchHit] = []
        gone: list[str] = []
        for entry in entries:
            thread = await self._store.load_thread(entry.thread_id)
            if thread is None:
                gone.append(entry.thread_id)
            elif query.scope in (None, thread.scope):
                hits.append(_hit(entry, thread, phrases))
        if gone:
            await self._index.remove(gone)
        return hits


def _hit(entry: FoundEntry, thread: Thread, phrases: list[tuple[str, ...]]) -> SearchHit:
    return SearchHit(
        thread_id=thread.id,
        run_id=entry.run_id,
        title=thread.metadata.title,
        agent_id=entry.agent or None,
        model=entry.model or None,
        user=entry.user or None,
        status=entry.status or None,
        started_at_ms=entry.started_ms,
        updated_at_ms=entry.updated_ms,
        tokens=entry.tokens,
        cost=None if entry.cost is None else entry.cost / 1_000_000_000,
        question=entry.question,
        snippet=cut_snippet(entry.body, phrases) if phrases else "",
    )


# -- cursors --------------------------------------------------------------------------------------


def _cursor(query: SearchQuery, key: int) -> str:
    return base64.urlsafe_b64encode(dumps([_name(query), key])).decode()


def _key_of(query: SearchQuery) -> int | None:
    """The key at which the previous page ended.

    Raises:
        InvalidRecord: the cursor does not belong to this search.
    """
    if query.cursor is None:
        return None
    try:
        text = base64.b64decode(query.cursor, b"-_", validate=True)
        name, key = loads(text, tuple[str, int])
    except (ValueError, msgspec.DecodeError) as error:
        raise InvalidRecord(f"{query.cursor!r} is not a cursor: use the one a page gave") from error
    if name != _name(query) or not 0 <= key < 2**63:
        raise InvalidRecord(
            f"cursor {query.cursor!r} belongs to another search: use it with the one that gave it"
        )
    return key


def _name(query: SearchQuery) -> str:
    """A digest of the query without cursor and limit: the size of the pages may change."""
    return digest([query.text, query.scope, query.kind, query.zone])
