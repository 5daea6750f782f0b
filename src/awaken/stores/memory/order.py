"""A sorted list in which adding and removing cost the same at any length."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import islice
from typing import Generic, TypeVar

T = TypeVar("T", str, tuple[int, str])

_LARGEST = 1000


class Ordered(Generic[T]):
    """A sorted list split into chunks: a change moves the rest of its chunk only."""

    def __init__(self) -> None:
        self._chunks: list[list[T]] = [[]]
        self._firsts: list[T] = []
        """The first value of each chunk but the first; finds the chunk of a value."""

    def add(self, value: T) -> None:
        at = bisect_right(self._firsts, value)
        chunk = self._chunks[at]
        insort(chunk, value)
        if len(chunk) > _LARGEST:
            half = chunk[_LARGEST // 2 :]
            del chunk[_LARGEST // 2 :]
            self._chunks.insert(at + 1, half)
            self._firsts.insert(at, half[0])

    def remove(self, value: T) -> None:
        at = bisect_right(self._firsts, value)
        chunk = self._chunks[at]
        del chunk[bisect_left(chunk, value)]
        if not chunk and self._firsts:
            del self._chunks[at]
            del self._firsts[max(at - 1, 0)]

    def after(self, value: T | None) -> Iterator[T]:
        """The values greater than `value`, in order; all values if it is `None`."""
        if value is None:
            at = place = 0
        else:
            at = bisect_right(self._firsts, value)
            place = bisect_right(self._chunks[at], value)
        yield from islice(self._chunks[at], place, None)
        for chunk in islice(self._chunks, at + 1, None):
            yield from chunk
