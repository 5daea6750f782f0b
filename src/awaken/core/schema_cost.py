"""The cost of checking a value against a JSON Schema, and keywords whose cost has a bound.

The values and the schema may both be untrusted, and the event loop waits for the check.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import lru_cache
from typing import Any, NamedTuple

import jsonschema_rs

from awaken.codec import Json, dumps_text

MAX_PATTERN_BYTES = 10 * 1024 * 1024
"""The most memory that the regular expressions of one schema may take."""
MAX_MATCH_COST = 20_000_000
"""The most that the regular expressions of one check may cost; a unit is about 50 ns."""
CHEAP = 8
"""The cost of a character for a regular expression that needs no limit."""
_BACKTRACKS = 10_000
_LEFT: ContextVar[list[int]] = ContextVar("awaken_match_cost_left")


class PatternCost(NamedTuple):
    """The cost of a regular expression: units for each character, and bytes of memory."""

    per_character: int
    size: int


_SIZES = (
    PatternCost(CHEAP, 4 * 1024),
    PatternCost(20, 64 * 1024),
    PatternCost(400, 1024 * 1024),
    PatternCost(4_000, MAX_PATTERN_BYTES),
)
_WITH_BACKTRACKING = PatternCost(1_000, 1024 * 1024)
"""Lookarounds and back references: their cost is not in proportion to the text."""
OPTIONS = jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS, size_limit=MAX_PATTERN_BYTES)


@lru_cache(256)
def pattern_cost(pattern: str) -> PatternCost:
    """The cost of a regular expression: the smallest size at which the engine accepts it."""
    for cost in _SIZES:
        options = jsonschema_rs.RegexOptions(size_limit=cost.size)
        try:
            jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options)
        except ValueError:
            continue
        return cost
    return _WITH_BACKTRACKING


def count_values(value: Json, limit: int, *, by_list: bool = False) -> int:
    """The size of a value: its parts, the characters of its names, and a bit for its texts and
    large numbers. Stops counting above `limit`. `by_list` counts what is in nested lists once for
    each of these lists."""
    count, waiting, times = 0, [value], 1
    while waiting and count <= limit:
        inner: list[Json] = []
        for part in waiting:
            count += times * _own_size(part)
            if count > limit:
                break
            if isinstance(part, list):
                inner += part
            elif isinstance(part, dict):
                inner += part.values()
        waiting, times = inner, times + by_list
    return count


def _own_size(part: Json) -> int:
    """The size of a value without the values that are in it."""
    if isinstance(part, str):
        return 1 + len(part) // 64
    if isinstance(part, float):
        return 1 if abs(part) < 2**63 else 8
    if isinstance(part, int):
        return 1 + part.bit_length() // 64
    return 1 + sum(map(len, part)) if isinstance(part, dict) else 1


class MatchLimit:
    """Holds the keyword `Pattern` to `MAX_MATCH_COST` for as long as the block lasts."""

    def __enter__(self) -> MatchLimit:
        self._left = [MAX_MATCH_COST]
        self._token = _LEFT.set(self._left)
        return self

    def __exit__(self, *raised: object) -> None:
        _LEFT.reset(self._token)

    @property
    def is_reached(self) -> bool:
        return self._left[0] < 0


class Pattern:
    """The keyword `pattern`, within the limit of the check. One that is reached fails all texts."""

    def __init__(self, schema: dict[str, Any], pattern: Any, path: list[str | int]) -> None:
        self._pattern = pattern
        self._cost = pattern_cost(pattern).per_character
        self._engine = jsonschema_rs.Draft202012Validator(
            {"pattern": pattern}, pattern_options=OPTIONS
        )

    def validate(self, instance: Any) -> None:
        if not isinstance(instance, str):
            return
        left = _LEFT.get()
        left[0] -= self._cost * (len(instance) + 1)
        if left[0] < 0 or not self._engine.is_valid(instance):
            raise ValueError(f"{dumps_text(instance)} does not match {dumps_text(self._pattern)}")


class UniqueItems:
    """The keyword `uniqueItems`, in time that is in proportion to the value. The library's own
    compares large integers each with each."""

    def __init__(self, schema: dict[str, Any], is_asked: Any, path: list[str | int]) -> None:
        if not isinstance(is_asked, bool):
            raise ValueError("uniqueItems is neither true nor false")
        self._is_asked = is_asked

    def validate(self, instance: Any) -> None:
        if not self._is_asked or not isinstance(instance, list):
            return
        if len(set(map(_text_of, instance))) < len(instance):
            raise ValueError("the list has an item twice")


def _text_of(value: Json) -> str:
    """A text that equal values share, and others do not. Texts, unlike numbers, cannot be chosen
    so that they collide in a set."""
    if isinstance(value, list):
        return f"[{','.join(map(_text_of, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(sorted(f'{dumps_text(k)}:{_text_of(v)}' for k, v in value.items()))}}}"
    if isinstance(value, str):
        return dumps_text(value)
    return repr(int(value) if isinstance(value, float) and value.is_integer() else value)
