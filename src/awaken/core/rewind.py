"""Which messages of a log are out of view because the thread was rewound. Pure arithmetic.

The log keeps every message under its position. A rewind hides a span of positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import NamedTuple


class HiddenSpan(NamedTuple):
    """The messages behind position `after`, up to position `until`, are out of view."""

    after: int
    until: int


Hidden = tuple[HiddenSpan, ...]
"""The spans that are out of view, in order; no two of them overlap or touch."""


def find_hidden_spans(rewinds: Iterable[tuple[int, int]]) -> Hidden:
    """The spans that rewinds have hidden. `rewinds` are (`after`, `until`) in the order in which
    they were made; `until` is the end that the log had."""
    spans: list[HiddenSpan] = []
    for after, until in rewinds:
        while spans and spans[-1].until >= after:
            after = min(after, spans.pop().after)
        spans.append(HiddenSpan(after, until))
    return tuple(spans)


def is_hidden(hidden: Hidden, seq: int) -> bool:
    """Whether the message at position `seq` is out of view."""
    return any(after < seq <= until for after, until in hidden)


def before_hidden(hidden: Hidden, position: int) -> int:
    """`position`, or the begin of the span that it is in: no message in view lies between."""
    return next((after for after, until in hidden if after < position <= until), position)


def stretches(hidden: Hidden, after: int, until: int) -> Iterator[tuple[int, int]]:
    """The parts of the log from behind `after` up to `until` that are in view, in order."""
    for span in hidden:
        if span.after >= until:
            break
        if after < span.after:
            yield after, span.after
        after = max(after, span.until)
    if after < until:
        yield after, until


def count_visible(hidden: Hidden, after: int, until: int) -> int:
    """How many messages behind `after`, up to `until`, are in view."""
    return sum(stop - start for start, stop in stretches(hidden, after, until))


def begin_of_tail(hidden: Hidden, length: int, number: int) -> int:
    """The position behind which the last `number` messages in view lie, of `length` in the log."""
    for start, stop in reversed(list(stretches(hidden, 0, length))):
        if stop - start >= number:
            return before_hidden(hidden, stop - number)
        number -= stop - start
    return 0


def end_of_page(hidden: Hidden, after: int, length: int, number: int) -> int:
    """The position of the last of the first `number` messages in view behind `after`."""
    for start, stop in stretches(hidden, after, length):
        if stop - start >= number:
            return start + number
        number -= stop - start
    return length


def positions(hidden: Hidden, after: int) -> Iterator[int]:
    """The positions of the messages in view behind `after`; it never ends."""
    last = hidden[-1].until if hidden else 0
    for start, stop in stretches(hidden, after, last):
        yield from range(start + 1, stop + 1)
    yield from count(max(after, last) + 1)


def positions_back(hidden: Hidden, length: int) -> Iterator[int]:
    """The positions of the messages in view of a log of `length`, from its end to its begin."""
    for start, stop in reversed(list(stretches(hidden, 0, length))):
        yield from range(stop, start, -1)
