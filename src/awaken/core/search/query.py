"""The query language of search: words, "phrases" and filters such as `agent:desk`. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from difflib import get_close_matches
from enum import StrEnum
from typing import Literal

from awaken.core.search.words import split_words
from awaken.core.value import Value
from awaken.errors import InvalidSearch

MAX_TEXT = 2_000
"""The most characters of a query."""
MAX_WORDS = 64
"""The most words of a query, those of phrases and of filters included."""

SearchKind = Literal["threads", "runs"]


class EndWord(StrEnum):
    """What `status:` says of a run that has ended; `done` is any of them."""

    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    BLOCKED = "blocked"


END_WORDS = frozenset(word.value for word in EndWord)
STATUS_WORDS = ("created", "running", "waiting", "done", *EndWord)
"""What `status:` may be followed by."""


class SearchQuery(Value, frozen=True, kw_only=True):
    """What to search for, newest run first.

    `text` has words, "phrases" and filters: see `docs/search.md`. `scope` selects one tenant (the
    default scope is the empty text), `None` all. `kind` says whether to find threads, each at its
    newest run that fits, or runs. Dates in the text are days of the time zone `zone`.
    """

    text: str = ""
    scope: str | None = None
    kind: SearchKind = "threads"
    zone: str = "UTC"
    limit: int = 50
    cursor: str | None = None


class Phrase(Value, frozen=True, kw_only=True):
    """Words that stand side by side; the last may be the beginning of a word."""

    words: tuple[str, ...]
    is_prefix: bool = False


class Bound(Value, frozen=True, kw_only=True):
    """A comparison with a number: of the tokens or of the cost of a run."""

    field: Literal["tokens", "cost"]
    sign: Literal["<", "<=", ">", ">=", "="]
    value: int


class SearchTerms(Value, frozen=True, kw_only=True):
    """A query, taken apart. All of it must fit one run: its phrases, its tags (see `tag`), the time
    it began, from `after_ms` until before `before_ms`, and its bounds."""

    phrases: tuple[Phrase, ...] = ()
    tags: tuple[str, ...] = ()
    after_ms: int | None = None
    before_ms: int | None = None
    bounds: tuple[Bound, ...] = ()


def tag(name: str, value: str) -> str:
    """How an index stores what a filter asks for."""
    return f"{_LETTERS[name]}:{value}"


_LETTERS = {"agent": "a", "tool": "t", "model": "m", "status": "s", "label": "l", "user": "u"}
"""The filters that name a value, and what their tags begin with."""
_TIMES = ("before", "after")
_NUMBERS = ("cost", "tokens")
_FILTERS = (*_LETTERS, *_TIMES, *_NUMBERS)

_PART = re.compile(
    r'\s*(?:(?P<name>[^\W\d]\w*):(?P<value>"(?:[^"]*)"?|\S*)|(?P<phrase>"[^"]*"?)|(?P<word>\S+))'
)
_COMPARISON = re.compile(r"(<=|>=|<|>|=)(\d+(?:\.\d+)?)([kKmM]?)")
_AGO = re.compile(r"(\d{1,6})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_FACTORS = {"": 1, "k": 1_000, "m": 1_000_000}
NANOS = 1_000_000_000
"""A cost is stored in billionths, so that sums are exact."""


def parse_search(text: str, *, zone: tzinfo = UTC, now_ms: int = 0) -> SearchTerms:
    """Take a query apart.

    Raises:
        InvalidSearch: a part of it is wrong; the error names the part.
    """
    if len(text) > MAX_TEXT:
        raise InvalidSearch(
            f"{text[:20]}…", f"the query has {len(text)} characters: write at most {MAX_TEXT}"
        )
    parts = _Parts(zone, now_ms)
    for match in _PART.finditer(text):
        parts.add(match)
    return parts.terms()


class _Parts:
    """The parts of a query that were read so far."""

    def __init__(self, zone: tzinfo, now_ms: int) -> None:
        self._zone, self._now_ms = zone, now_ms
        self._phrases: list[Phrase] = []
        self._tags: list[str] = []
        self._times: dict[str, int] = {}
        self._bounds: list[Bound] = []
        self._count = 0

    def terms(self) -> SearchTerms:
        return SearchTerms(
            phrases=tuple(dict.fromkeys(self._phrases)),
            tags=tuple(dict.fromkeys(self._tags)),
            after_ms=self._times.get("after"),
            before_ms=self._times.get("before"),
            bounds=tuple(self._bounds),
        )

    def add(self, match: re.Match[str]) -> None:
        part = match[0].strip()
        name, value = match["name"], match["value"]
        if name is None:
            self._add_phrase(part, match["phrase"] or match["word"])
        elif name in _FILTERS:
            self._count_words(part, 1)
            self._read_filter(name, part, _unquote(part, value))
        elif match["value"] and get_close_matches(name, _FILTERS, 1, 0.75):
            meant = get_close_matches(name, _FILTERS, 1, 0.75)[0]
            raise InvalidSearch(part, f"there is no filter {name!r}: write {meant}:{value}")
        else:  # a colon in a text, as in an address
            self._add_phrase(part, part)

    def _add_phrase(self, part: str, text: str) -> None:
        if text.startswith('"') and (len(text) < 2 or not text.endswith('"')):
            raise InvalidSearch(part, "a quotation mark is missing at the end of the phrase")
        words = split_words(text)
        self._count_words(part, len(words))
        if words:
            self._phrases.append(Phrase(words=tuple(words), is_prefix=text.endswith("*")))

    def _count_words(self, part: str, number: int) -> None:
        self._count += number
        if self._count > MAX_WORDS:
            raise InvalidSearch(part[:40], f"the query has more than {MAX_WORDS} words up to here")

    def _read_filter(self, name: str, part: str, value: str) -> None:
        if not value:
            raise InvalidSearch(part, f"a value is missing: write {_EXAMPLES[name]}")
        if name in _TIMES:
            self._times[name] = self._parse_time(name, part, value)
        elif name in _NUMBERS:
            self._bounds.append(_parse_bound(name, part, value))
        elif name == "status" and value not in STATUS_WORDS:
            raise InvalidSearch(part, f"a status is one of {', '.join(STATUS_WORDS)}")
        else:
            self._tags.append(tag(name, value))

    def _parse_time(self, name: str, part: str, value: str) -> int:
        if (ago := _AGO.fullmatch(value)) is not None:
            return self._now_ms - int(ago[1]) * _SECONDS[ago[2]] * 1000
        try:
            found = datetime.fromisoformat(value)
            if found.tzinfo is None:
                found = found.replace(tzinfo=self._zone)
            return round(found.timestamp() * 1000)
        except (ValueError, OverflowError) as error:
            raise InvalidSearch(
                part,
                f"{value!r} is no time: write {name}:2026-11-19, {name}:2026-11-19T08:30 or "
                f"{name}:7d for seven days ago",
            ) from error


def _parse_bound(name: str, part: str, value: str) -> Bound:
    found = _COMPARISON.fullmatch(value)
    if found is None:
        raise InvalidSearch(part, f"{value!r} is no comparison: write {_EXAMPLES[name]}")
    unit = NANOS if name == "cost" else 1
    number = round(float(found[2]) * _FACTORS[found[3].lower()] * unit)
    if number >= 2**63:
        raise InvalidSearch(part, f"{found[2]} is too large")
    field: Literal["cost", "tokens"] = "cost" if name == "cost" else "tokens"
    return Bound(field=field, sign=_SIGNS[found[1]], value=number)


_SIGNS: Mapping[str, Literal["<", "<=", ">", ">=", "="]] = {
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
    "=": "=",
}
_EXAMPLES = {
    "agent": "agent:support",
    "tool": "tool:refund",
    "model": "model:gpt-5-mini",
    "status": "status:failed",
    "label": "label:team=sales",
    "user": "user:ann",
    "before": "before:2026-11-19",
    "after": "after:2026-11-19",
    "cost": "cost:>1",
    "tokens": "tokens:>10k",
}


def _unquote(part: str, value: str) -> str:
    if not value.startswith('"'):
        return value
    if len(value) < 2 or not value.endswith('"'):
        raise InvalidSearch(part, "a quotation mark is missing at the end of the value")
    return value[1:-1]


COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
    "=": lambda one, other: one == other,
}
