"""The search index of a Postgres store: tables `search_…` in its schema, made when they are first
used, and dropped and made anew at will.

The index of words is a `tsvector` and a GIN index, which every managed Postgres has.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import asyncpg

from awaken.core.search.index import FORMAT, FoundPage, IndexedHead, IndexState, ThreadUpdate
from awaken.core.search.query import SearchKind, SearchTerms
from awaken.core.search.usage import UsageQuery, UsageRow, load_zone
from awaken.core.search.words import split_words
from awaken.errors import SearchUnavailable, StoreUnavailable
from awaken.stores.postgres.connections import Db
from awaken.stores.postgres.engine import EngineOpener
from awaken.stores.sql import search
from awaken.stores.sql.search_find import find
from awaken.stores.sql.search_sums import sum_usage
from awaken.stores.sql.search_tables import NAMES, Dialect, ManyRows, Work

T = TypeVar("T")

_VERSION = f"{FORMAT} postgres 1 {unicodedata.unidata_version}"
_TABLE = re.compile(rf"\b(search_(?:{'|'.join(NAMES)}))\b")
_LOCK = 0x5EA2C4  # one process makes the tables
_NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"


class TextSearch(Dialect):
    """The Postgres side of the index; see `Dialect`."""

    tables = (
        "CREATE TABLE search_docs (key BIGINT PRIMARY KEY, body TEXT NOT NULL, terms TSVECTOR)",
        "CREATE INDEX search_docs_terms ON search_docs USING gin (terms)",
    )
    keyed = ""
    collate = 'COLLATE "C"'
    like_ids = "{} = ANY (?)"
    doc_key = "d.key"
    cross_join = "JOIN"
    docs_first = "search_docs AS d JOIN search_entries AS e ON e.key = (d.key & -1024)"
    entries_first = (
        "search_entries AS e JOIN search_docs AS d ON d.key >= e.key AND d.key < e.key + 1024"
    )
    fits = "d.terms @@ CAST(CAST(? AS text) AS tsquery)"

    has_key = "d.key = ANY (?)"

    def list_keys(self, terms: SearchTerms) -> Work[Sequence[int] | None]:
        # For a page in order, the planner may read all texts instead of the few that have a word.
        rows = yield _KEYS_OF_WORDS, (self.match(terms, None), _FEW + 1)
        return [row[0] for row in rows] if len(rows) <= _FEW else None

    def ids(self, ids: Sequence[str]) -> list[str]:
        return list(ids)

    def match(self, terms: SearchTerms, scope: str | None) -> str:
        parts = []
        for phrase in terms.phrases:
            words = [f"'{word}'" for word in phrase.words]
            if phrase.is_prefix:
                words[-1] += ":*"
            parts.append(f"({' <-> '.join(words)})")
        return " & ".join(parts)  # a scope is found by the entries' own index

    def write_doc(self, key: int, scope: str, body: str, replaced: str | None) -> Work[None]:
        yield _SET_DOC, (key, body, _terms(body))

    def delete_doc(self, key: int, scope: str, body: str) -> Work[None]:
        yield "DELETE FROM search_docs WHERE key = ?", (key,)


_FEW = 2_000
_KEYS_OF_WORDS = f"SELECT d.key FROM search_docs AS d WHERE {TextSearch.fits} LIMIT ?"
_SET_DOC = """
INSERT INTO search_docs (key, body, terms) VALUES (?, ?, CAST(CAST(? AS text) AS tsvector))
ON CONFLICT (key) DO UPDATE SET body = excluded.body, terms = excluded.terms
"""


def _terms(body: str) -> str:
    words = [f"'{word}':{at}" for at, word in enumerate(split_words(body), start=1)]
    return " ".join(words)


class PostgresSearchIndex:
    """The index in the database of a store; see `SearchIndex`."""

    def __init__(self, opener: EngineOpener) -> None:
        self._opener = opener
        self._dialect = TextSearch()
        self._is_ready = False
        self._statements: dict[str, str] = {}

    async def claim(self, owner: str, seconds: float, state: IndexState) -> bool:
        def work(now: int) -> Work[bool]:
            # One owner at a time looks at the row.
            yield "SELECT pg_advisory_xact_lock(?)", (_LOCK,)
            return (yield from search.claim(owner, now, seconds, state))

        return await self._do_now(work)

    async def release(self, owner: str) -> None:
        await self._do(lambda: search.release(owner))

    async def load_state(self) -> IndexState:
        return await self._do_now(search.load_state)

    async def load_heads(self, thread_ids: Sequence[str]) -> Mapping[str, IndexedHead]:
        return await self._do(lambda: search.load_heads(self._dialect, thread_ids))

    async def list_heads(self, after: str, until: str | None) -> Mapping[str, IndexedHead]:
        return await self._do(lambda: search.list_heads(after, until))

    async def apply(self, updates: Sequence[ThreadUpdate]) -> int:
        return await self._do(lambda: _alone(search.apply(self._dialect, updates)))

    async def remove(self, thread_ids: Sequence[str]) -> None:
        await self._do(lambda: _alone(search.remove(self._dialect, thread_ids)))

    async def find(
        self,
        terms: SearchTerms,
        *,
        scope: str | None,
        kind: SearchKind,
        before_key: int | None,
        limit: int,
    ) -> FoundPage:
        return await self._do(lambda: find(self._dialect, terms, scope, kind, before_key, limit))

    async def sum_usage(self, query: UsageQuery) -> Sequence[UsageRow]:
        return await self._do(lambda: sum_usage(query))

    async def rebuild(self, zone: str | None = None) -> None:
        if zone is not None:
            load_zone(zone)
        await self._run(lambda db: self._create(db, zone, is_forced=True))
        self._is_ready = True

    async def exists(self) -> bool:
        return await self._run(_has_tables)

    async def close(self) -> None:
        self._is_ready = False

    # -- statements -----------------------------------------------------------------------------

    async def _do(self, work: Callable[[], Work[T]]) -> T:
        return await self._do_now(lambda now: work())

    async def _do_now(self, work: Callable[[int], Work[T]]) -> T:
        """Do `work` in a transaction, with the time of the database."""

        async def on(db: Db) -> T:
            if not self._is_ready:
                await self._create(db, None)
            now = await db.connection.fetchval(_NOW)
            return await self._drive(db, work(now))

        try:
            answer = await self._run(on)
        except SearchUnavailable as error:
            if not isinstance(error.__cause__, asyncpg.UndefinedTableError):
                raise
            self._is_ready = False  # another process drops and makes the tables
            answer = await self._run(on)
        self._is_ready = True
        return answer

    async def _run(self, work: Callable[[Db], Awaitable[T]]) -> T:
        engine = await self._opener.engine()
        try:
            answer: T = await engine.write(work)
            return answer
        except SearchUnavailable:
            raise
        except (StoreUnavailable, asyncpg.PostgresError) as error:
            cause = error.__cause__ if isinstance(error, StoreUnavailable) else error
            # The text goes to clients: it leaves out the address of the database.
            why = cause if isinstance(cause, asyncpg.PostgresError) else "the database is away"
            raise SearchUnavailable(f"the search index cannot be used: {why}") from cause

    async def _drive(self, db: Db, work: Work[T]) -> T:
        try:
            text, values = next(work)
            while True:
                named = self._statement(db, text)
                if isinstance(values, ManyRows):  # all of them in one round trip
                    await db.connection.executemany(named, values)
                    text, values = work.send(())
                else:
                    text, values = work.send(await db.connection.fetch(named, *values))
        except StopIteration as end:
            answer: T = end.value
            return answer

    def _statement(self, db: Db, text: str) -> str:
        """The text with the schema's tables, and with numbered values."""
        known = self._statements.get(text)
        if known is None:
            named = _TABLE.sub(rf'"{db.schema.name}".\1', text)
            first, *parts = named.split("?")
            known = first + "".join(f"${n}{part}" for n, part in enumerate(parts, start=1))
            self._statements[text] = known
        return known

    async def _create(self, db: Db, zone: str | None, *, is_forced: bool = False) -> None:
        """Make the tables, or make them anew if they are of another version."""
        await db.connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        found: dict[str, str] = {}
        if await _has_tables(db):
            rows = await db.rows("SELECT name, value FROM @search_meta WHERE name <> 'owner'")
            found = dict(rows)
        if found.get("version") == _VERSION and not is_forced:
            return
        for name in NAMES:
            await db.run(f"DROP TABLE IF EXISTS @search_{name}")
        work = search.create(self._dialect, _VERSION, zone or found.get("zone", "UTC"))
        await self._drive(db, work)


async def _has_tables(db: Db) -> bool:
    name = f'"{db.schema.name}".search_meta'
    found: bool = await db.connection.fetchval("SELECT to_regclass($1) IS NOT NULL", name)
    return found


def _alone(work: Work[T]) -> Work[T]:
    """The same work, while no other process writes to the index."""
    yield "SELECT pg_advisory_xact_lock(?)", (_LOCK,)
    return (yield from work)
