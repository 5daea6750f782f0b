"""Searching a runtime's store, and summing what its runs have used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, Never

from awaken.clock import Clock
from awaken.core.storable import Count, parse_argument
from awaken.ids import Ids
from awaken.runtime import lazy_engine as engine

if TYPE_CHECKING:
    from awaken.core.search.query import SearchKind
    from awaken.core.search.usage import UsagePart, UsageRow
    from awaken.core.store.store import Store
    from awaken.runtime.search.service import SearchPage, SearchService


class SearchMethods:
    """The part of a runtime that searches. Nothing of it is loaded, and no file is made, before it
    is used."""

    _store: Store
    _clock: Clock
    _ids: Ids
    _search: SearchService | None = None

    async def search(
        self,
        text: str = "",
        *,
        kind: SearchKind = "threads",
        scope: str | None = None,
        zone: str = "UTC",
        limit: int = 50,
        cursor: str | None = None,
    ) -> SearchPage:
        """Threads, or runs, by what was said in them and by filters, the newest run first.

        `text` has words, "phrases" and filters such as `agent:desk`, `status:failed`, `after:7d` or
        `cost:>1`; all of it must fit one run. `scope` selects one tenant (the default scope is the
        empty text), `None` all. Dates in the text are days of the time zone `zone`.

        The index lies beside the store and is built when it is first used. If no server keeps it up
        to date, the search first waits, up to five seconds, until it has what was committed; the
        page's `state` says how far it is.

        Raises:
            InvalidSearch: a part of the text is wrong.
            InvalidRecord: the cursor is not one of this search.
            SearchUnavailable: the index cannot be used. Everything else works.
        """
        parse_argument("text", text, str)
        parse_argument("kind", kind, Literal["threads", "runs"])
        parse_argument("scope", scope, str | None)
        parse_argument("zone", zone, str)
        parse_argument("limit", limit, Count)
        parse_argument("cursor", cursor, str | None)
        query = engine.SearchQuery(
            text=text, kind=kind, scope=scope, zone=zone, limit=limit, cursor=cursor
        )
        return await self._searching().search(query)

    async def usage(
        self,
        by: Iterable[UsagePart] = ("day",),
        *,
        scope: str | None = None,
        agent: str | None = None,
        model: str | None = None,
        user: str | None = None,
        after: str | None = None,
        before: str | None = None,
        zone: str | None = None,
        limit: int = 1000,
    ) -> Sequence[UsageRow]:
        """What runs have used: how many, how many failed, tokens and cost, each run once.

        `by` says which parts to sum by: any of `day`, `agent`, `model`, `user` and `scope`. `after`
        and `before` are days such as `2026-11-19`, the first included, the second not; days are
        those of the time zone `zone`, by default that of the index. Days come in order, and within
        them the greatest cost first.

        Raises:
            ConfigError: a part, a day or the time zone is not one.
            SearchUnavailable: the index cannot be used. Everything else works.
        """
        given: object = by  # what a caller without a type checker may pass
        if isinstance(given, Iterable) and not isinstance(given, str):
            given = tuple(given)
        parts = parse_argument("by", given, tuple[engine.UsagePart, ...], "by=['day', 'agent']")
        for name, value in (("after", after), ("before", before), ("zone", zone)):
            parse_argument(name, value, str | None)
        for name, value in (("scope", scope), ("agent", agent), ("model", model), ("user", user)):
            parse_argument(name, value, str | None)
        parse_argument("limit", limit, Count)
        query = engine.UsageQuery(
            by=tuple(dict.fromkeys(parts)),
            scope=scope,
            agent=agent,
            model=model,
            user=user,
            after=after,
            before=before,
            zone=zone,
            limit=limit,
        )
        return await self._searching().usage(query)

    async def rebuild_search(self, *, zone: str | None = None) -> None:
        """Throw the search index away and build it anew. With `zone`, such as `Europe/Vienna`, the
        days of sums are those of this time zone from then on.

        Raises:
            ConfigError: there is no such time zone.
            SearchUnavailable: the index cannot be used.
        """
        parse_argument("zone", zone, str | None)
        await self._searching().rebuild(zone)

    async def keep_search(self) -> Never:
        """Keep the search index up to date until the task that calls this is cancelled. A server
        does so; of several processes on one store, one indexes and the others stand by."""
        await self._searching().keep()

    async def _forget_deleted(self) -> None:
        """Take what was deleted out of the index, if the store has one."""
        if hasattr(self._store, "search_index"):
            await self._searching().forget_deleted()

    def _searching(self) -> SearchService:
        if self._search is None:
            self._search = engine.SearchService(self._store, self._clock, self._ids)
        return self._search

    async def _close_search(self) -> None:
        if self._search is not None:
            search, self._search = self._search, None
            await search.close()
