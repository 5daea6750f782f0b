"""Values in order, of which one is added or removed at the same cost however many there are."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import islice
from typing import Generic, TypeVar

T = TypeVar("T", str, tuple[int, str])

_LARGEST = 1000


class Ordered(Generic[T]):
    """A sorted list in pieces: a change moves the rest of its piece, and not all that follows."""

    def __init__(self) -> None:
        self._pieces: list[list[T]] = [[]]
        self._firsts: list[T] = []
        """The first value of each piece but the first: where a value belongs."""

    def add(self, value: T) -> None:
        at = bisect_right(self._firsts, value)
        piece = self._pieces[at]
        insort(piece, value)
        if len(piece) > _LARGEST:
            half = piece[_LARGEST // 2 :]
            del piece[_LARGEST // 2 :]
            self._pieces.insert(at + 1, half)
            self._firsts.insert(at, half[0])

    def remove(self, value: T) -> None:
        at = bisect_right(self._firsts, value)
        piece = self._pieces[at]
        del piece[bisect_left(piece, value)]
        if not piece and self._firsts:
            del self._pieces[at]
            del self._firsts[max(at - 1, 0)]

    def after(self, value: T | None) -> Iterator[T]:
        """All values behind that one, which need not be there; all of them if it is `None`."""
        if value is None:
            at = place = 0
        else:
            at = bisect_right(self._firsts, value)
            place = bisect_right(self._pieces[at], value)
        yield from islice(self._pieces[at], place, None)
        for piece in islice(self._pieces, at + 1, None):
            yield from piece
