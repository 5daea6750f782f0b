"""Finding entries of the search index in SQL, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from awaken.core.search.index import FoundEntry, FoundPage
from awaken.core.search.query import SearchKind, SearchTerms
from awaken.stores.sql.search_tables import (
    KEY_BITS,
    KEYS,
    MAX_MS,
    Dialect,
    Statement,
    Work,
    clean,
    where_clause,
)

MAX_SCANNED = 2_000
"""How many entries are looked at for one page; a page may end early, and says so."""
MAX_COUNTED = 10_000
"""How far entries are counted to find out with which filter to begin."""
_BATCH = 200
replace = msgspec.structs.replace


def find(
    dialect: Dialect,
    terms: SearchTerms,
    scope: str | None,
    kind: SearchKind,
    before_key: int | None,
    limit: int,
) -> Work[FoundPage]:
    rarest = None if terms.phrases else (yield from _rarest_tag(terms.tags, scope))
    keys = (yield from dialect.list_keys(terms)) if terms.phrases else None
    if keys is not None and not keys:
        return FoundPage()
    search = _Search(dialect, terms, scope, kind, rarest, keys)
    found: list[FoundEntry] = []
    seen: set[int | str] = set()
    behind, scanned = before_key, 0
    while scanned < MAX_SCANNED:
        rows = yield search.page(behind, _BATCH)
        for row in rows:
            previous, behind, scanned = behind, row[0], scanned + 1
            entry = _entry(row)
            name = entry.thread_id if kind == "threads" else entry.key
            if name in seen:
                continue
            if before_key is not None and (yield search.on_earlier_page(entry, before_key)):
                continue
            if len(found) == limit:
                return FoundPage(entries=tuple(found), next_key=previous)
            seen.add(name)
            bodies = yield _BODY, (row[0],)
            found.append(replace(entry, body=bodies[0][0]) if bodies else entry)
        if len(rows) < _BATCH:
            return FoundPage(entries=tuple(found))
    return FoundPage(entries=tuple(found), next_key=behind)


_BODY = "SELECT body FROM search_docs WHERE key = ?"


def _rarest_tag(tags: Sequence[str], scope: str | None) -> Work[str | None]:
    """The tag that fewest entries have, as far as that is quickly counted; `None` if the whole
    tenant has fewer."""
    if not tags or (scope is None and len(tags) == 1):
        return next(iter(tags), None)
    found: list[tuple[int, str | None]] = []
    if scope is not None:
        rows = yield _COUNT_SCOPE, (scope, MAX_COUNTED)
        found.append((rows[0][0], None))
    for tag in tags:
        rows = yield _COUNT_TAG, (clean(tag), MAX_COUNTED)
        found.append((rows[0][0], tag))
    return min(found, key=lambda one: (one[0], one[1] is None))[1]


_COUNT_TAG = "SELECT count(*) FROM (SELECT 1 FROM search_tags WHERE tag = ? LIMIT ?) AS counted"
_COUNT_SCOPE = (
    "SELECT count(*) FROM (SELECT 1 FROM search_entries WHERE scope = ? LIMIT ?) AS counted"
)
_ENTRY = (
    "e.key, e.thread, e.run, e.agent, e.model, e.user_id, e.status, e.started_ms, e.updated_ms, "
    "e.input_tokens + e.output_tokens, e.cost, e.question"
)


def _entry(row: Sequence[Any]) -> FoundEntry:
    _, key, thread, run, agent, model, user, status, started, updated, tokens, cost, question = row
    return FoundEntry(
        key=key,
        thread_id=thread,
        run_id=run,
        agent=agent,
        model=model,
        user=user,
        status=status,
        started_ms=started,
        updated_ms=updated,
        tokens=tokens,
        cost=cost,
        question=question,
    )


class _Search:
    """The statements of one query.

    It begins with the words, else with the rarest tag, else with the entries of a scope.
    """

    def __init__(
        self,
        dialect: Dialect,
        terms: SearchTerms,
        scope: str | None,
        kind: SearchKind,
        rarest: str | None,
        keys: Sequence[int] | None,
    ) -> None:
        self._kind = kind
        self._key, self._source, self._back = "e.key", _ENTRIES, _ENTRIES
        self._where: list[tuple[str, tuple[Any, ...]]] = []
        if terms.phrases:
            self._key = dialect.doc_key
            self._source, self._back = dialect.docs_first, dialect.entries_first
            if keys is not None:
                self._add(dialect.has_key, keys)
            else:
                self._add(dialect.fits, dialect.match(terms, scope))
        elif rarest is not None:
            tags_first = (
                f"search_tags AS t {dialect.cross_join} search_entries AS e ON e.key = t.key"
            )
            self._key, self._source, self._back = "t.key", tags_first, _TAGS_OF_ENTRY
            self._add("t.tag = ?", clean(rarest))
        for tag in terms.tags:
            if terms.phrases or tag != rarest:
                self._add(_HAS_TAG, clean(tag))
        if scope is not None:
            self._add("e.scope = ?", scope)
        if kind == "runs":
            self._add("e.run IS NOT NULL")
        for bound in terms.bounds:
            column = "e.cost" if bound.field == "cost" else "(e.input_tokens + e.output_tokens)"
            self._add(f"{column} {bound.sign} ?", bound.value)
        if terms.before_ms is not None:
            self._add("e.started_ms < ?", terms.before_ms)
            self._add(f"{self._key} < ?", _key_of(terms.before_ms) + KEYS)
        if terms.after_ms is not None:
            self._add("e.started_ms >= ?", terms.after_ms)
            self._add(f"{self._key} >= ?", _key_of(terms.after_ms))

    def _add(self, condition: str, *values: Any) -> None:
        self._where.append((condition, values))

    def page(self, behind: int | None, limit: int) -> Statement:
        """The entries that fit, behind a key, the latest first."""
        more = [(f"{self._key} < ?", (behind,))] if behind is not None else []
        where, values = _join([*self._where, *more])
        order = f"ORDER BY {self._key} DESC LIMIT ?"
        return (
            f"SELECT {self._key}, {_ENTRY} FROM {self._source}{where} {order}",
            (*values, limit),
        )

    def on_earlier_page(self, entry: FoundEntry, before_key: int) -> Statement:
        """Has a row if an earlier page has shown the entry, or its thread."""
        mine: tuple[str, tuple[Any, ...]]
        if self._kind == "threads":
            mine = ("e.thread = ?", (entry.thread_id,))
        else:
            mine = ("e.key = ?", (entry.key,))
        where, values = _join([*self._where, mine, (f"{self._key} >= ?", (before_key,))])
        return f"SELECT {self._key} FROM {self._back}{where} LIMIT 1", values


def _join(conditions: Sequence[tuple[str, tuple[Any, ...]]]) -> tuple[str, list[Any]]:
    texts = [text for text, _ in conditions]
    return where_clause(texts), [value for _, values in conditions for value in values]


_ENTRIES = "search_entries AS e"
_TAGS_OF_ENTRY = "search_entries AS e JOIN search_tags AS t ON t.key = e.key"
_HAS_TAG = "EXISTS (SELECT 1 FROM search_tags AS g WHERE g.tag = ? AND g.key = e.key)"


def _key_of(at_ms: int) -> int:
    """The first key of the entries that began at this time."""
    return min(max(at_ms, 0), MAX_MS) << KEY_BITS
