"""The search index of a memory store: its entries are gone through one by one."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Any

from awaken.clock import Clock
from awaken.core.search.index import (
    EntryUpdate,
    FoundEntry,
    FoundPage,
    IndexedHead,
    IndexState,
    ThreadUpdate,
)
from awaken.core.search.query import COMPARE, END_WORDS, NANOS, EndWord, SearchKind, SearchTerms
from awaken.core.search.usage import UsageQuery, UsageRow, day_of, load_zone
from awaken.core.search.words import split_words

_KEY_BITS = 20
_SHOWN_QUESTION = 200


class _IndexedText:
    """What the index has of a run, or of a thread apart from its runs."""

    def __init__(self, key: int, thread_id: str, scope: str, update: EntryUpdate) -> None:
        self.key, self.thread_id, self.scope = key, thread_id, scope
        self.started_ms, self.question = update.started_ms, ""
        self.body, self.words = "", " "
        self.tags: set[str] = set()
        self.model = ""
        self.update = update

    def write(self, update: EntryUpdate) -> None:
        self.tags.discard(f"s:{self.update.status}")
        self.update = update
        if update.is_title:
            self.body, self.words, self.question = "", " ", ""
        self.model = update.model or self.model
        self.question = self.question or update.question[:_SHOWN_QUESTION]
        self.tags |= {*update.tags, f"s:{update.status}"}
        if update.status in END_WORDS:
            self.tags.add("s:done")
        for text in update.texts:
            self.body += f"{text}\n"
            self.words += "".join(f"{word} " for word in split_words(text))

    def fits(self, terms: SearchTerms, thread_tags: Sequence[str]) -> bool:
        mine = self.update
        amounts = {"tokens": mine.input_tokens + mine.output_tokens, "cost": mine.cost}
        return (
            all(tag in self.tags or tag in thread_tags for tag in terms.tags)
            and (terms.before_ms is None or self.started_ms < terms.before_ms)
            and (terms.after_ms is None or self.started_ms >= terms.after_ms)
            and all(_is_within(amounts[b.field], b.sign, b.value) for b in terms.bounds)
            and all(
                f" {' '.join(phrase.words)}{'' if phrase.is_prefix else ' '}" in self.words
                for phrase in terms.phrases
            )
        )

    def to_found_entry(self) -> FoundEntry:
        mine = self.update
        return FoundEntry(
            key=self.key,
            thread_id=self.thread_id,
            run_id=mine.run_id,
            agent=mine.agent,
            model=self.model,
            user=mine.user,
            status=mine.status,
            started_ms=self.started_ms,
            updated_ms=mine.updated_ms,
            tokens=mine.input_tokens + mine.output_tokens,
            cost=mine.cost,
            question=self.question,
            body=self.body,
        )


def _is_within(amount: int | None, sign: str, value: int) -> bool:
    return amount is not None and COMPARE[sign](amount, value)


class MemorySearchIndex:
    """See `SearchIndex`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._zone = "UTC"
        self._clear()

    def _clear(self) -> None:
        self._made = token_hex(8)
        self._owner, self._until, self._state = "", 0, IndexState()
        self._heads: dict[str, tuple[IndexedHead, tuple[str, ...]]] = {}
        self._entries: dict[str, _IndexedText] = {}
        self._threads: dict[str, list[str]] = {}
        self._order: list[int] = []
        self._by_key: dict[int, _IndexedText] = {}

    async def claim(self, owner: str, seconds: float, state: IndexState) -> bool:
        now = self._clock.now_ms()
        if self._owner != owner and self._until > now:
            return False
        self._owner, self._until = owner, now + round(seconds * 1000)
        is_complete = state.is_complete or self._state.is_complete
        self._state = IndexState(
            threads=state.threads if state.is_complete else self._state.threads,
            seen_ms=now,
            pending=state.pending,
            behind_ms=state.behind_ms,
            is_complete=is_complete,
        )
        return True

    async def release(self, owner: str) -> None:
        if self._owner == owner:
            self._until = 0

    async def load_state(self) -> IndexState:
        said = self._state
        return IndexState(
            made=self._made,
            zone=self._zone,
            threads=said.threads,
            owner=self._owner if self._until > self._clock.now_ms() else None,
            seen_ms=said.seen_ms,
            pending=said.pending,
            behind_ms=said.behind_ms,
            is_complete=said.is_complete,
        )

    async def load_heads(self, thread_ids: Sequence[str]) -> Mapping[str, IndexedHead]:
        return {id: self._heads[id][0] for id in thread_ids if id in self._heads}

    async def list_heads(self, after: str, until: str | None) -> Mapping[str, IndexedHead]:
        return {
            id: head
            for id, (head, _) in self._heads.items()
            if id > after and (until is None or id <= until)
        }

    async def apply(self, updates: Sequence[ThreadUpdate]) -> int:
        return sum([self._apply(update) for update in updates])

    def _apply(self, update: ThreadUpdate) -> bool:
        id = update.thread_id
        known, tags = self._heads.get(id, (None, ()))
        if known != update.before:
            return False
        if update.is_reset:
            self._remove(id)
        for entry in update.entries:
            name = entry.id_in(id)
            found = self._entries.get(name)
            if found is None:
                found = self._entries[name] = self._new_entry(update, entry)
                self._threads.setdefault(id, []).append(name)
            found.write(entry)
        self._heads[id] = (update.after, tags if update.tags is None else update.tags)
        return True

    def _new_entry(self, update: ThreadUpdate, entry: EntryUpdate) -> _IndexedText:
        key = entry.started_ms << _KEY_BITS
        while key in self._by_key:
            key += 1
        made = self._by_key[key] = _IndexedText(key, update.thread_id, update.scope, entry)
        insort(self._order, key)
        return made

    def _remove(self, thread_id: str) -> None:
        for name in self._threads.pop(thread_id, ()):
            key = self._entries.pop(name).key
            del self._by_key[key]
            del self._order[bisect_left(self._order, key)]

    async def remove(self, thread_ids: Sequence[str]) -> None:
        for id in thread_ids:
            self._remove(id)
            self._heads.pop(id, None)

    async def find(
        self,
        terms: SearchTerms,
        *,
        scope: str | None,
        kind: SearchKind,
        before_key: int | None,
        limit: int,
    ) -> FoundPage:
        found: list[FoundEntry] = []
        seen: set[str] = set()
        behind: int | None = None
        for key in reversed(self._order):
            entry = self._by_key[key]
            is_listed = kind == "threads" or entry.update.run_id is not None
            if not is_listed or (scope is not None and entry.scope != scope):
                continue
            if kind == "threads" and entry.thread_id in seen:
                continue
            if not entry.fits(terms, self._heads[entry.thread_id][1]):
                continue
            if kind == "threads":
                seen.add(entry.thread_id)
            if before_key is not None and key >= before_key:
                continue
            if len(found) == limit:
                return FoundPage(entries=tuple(found), next_key=behind)
            found.append(entry.to_found_entry())
            behind = key
        return FoundPage(entries=tuple(found))

    async def sum_usage(self, query: UsageQuery) -> Sequence[UsageRow]:
        zone = load_zone(query.zone or self._zone)
        totals: dict[tuple[Any, ...], list[int]] = {}
        for entry in self._entries.values():
            run = entry.update
            if run.run_id is None:
                continue
            names = {
                "day": day_of(entry.started_ms, zone),
                "scope": entry.scope,
                "agent": run.agent,
                "model": entry.model,
                "user": run.user,
            }
            if not _is_asked(query, names):
                continue
            is_unpriced = run.cost is None and run.input_tokens + run.output_tokens > 0
            failed = run.status == EndWord.FAILED
            more = (1, failed, run.input_tokens, run.output_tokens, run.cost or 0, is_unpriced)
            known = totals.setdefault(tuple(names[part] for part in query.by), [0] * 6)
            known[:] = [one + other for one, other in zip(known, more, strict=True)]
        rows = [_usage_row(query, parts, sums) for parts, sums in totals.items()]
        rows.sort(key=lambda row: (row.day or "", -row.cost, -row.input_tokens))
        return rows[: query.limit]

    async def rebuild(self, zone: str | None = None) -> None:
        if zone is not None:
            load_zone(zone)
        self._zone = zone or self._zone
        self._clear()

    async def exists(self) -> bool:
        return bool(self._heads)

    async def close(self) -> None:
        return


def _is_asked(query: UsageQuery, names: Mapping[str, str]) -> bool:
    asked = {
        "scope": query.scope,
        "agent": query.agent,
        "model": query.model,
        "user": query.user,
    }
    return (
        all(value is None or names[name] == value for name, value in asked.items())
        and (query.after is None or names["day"] >= query.after)
        and (query.before is None or names["day"] < query.before)
    )


def _usage_row(query: UsageQuery, parts: Sequence[str], sums: Sequence[int]) -> UsageRow:
    runs, failed, given, made, cost, unpriced = sums
    return UsageRow(
        **dict(zip(query.by, parts, strict=True)),
        runs=runs,
        failed=failed,
        input_tokens=given,
        output_tokens=made,
        cost=cost / NANOS,
        unpriced=unpriced,
    )
