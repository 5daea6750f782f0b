"""Arguments of a call that arrive in pieces, each with the JSON path of its place. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.genai import types

_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d+)\]|\[(?:'([^']*)'|"([^"]*)")\]""")


class PartialArguments:
    """The arguments of one call, while they arrive."""

    def __init__(self, known: dict[str, Any] | None = None) -> None:
        self.values: dict[str, Any] = dict(known or {})
        self._growing: str | None = None

    def add(self, pieces: Iterable[types.PartialArg]) -> None:
        """Add the next pieces; a text may have several."""
        for piece in pieces:
            path = piece.json_path or "$"
            value = _value(piece)
            if self._growing == path and isinstance(value, str):
                value = self._at(path) + value
            self._put(path, value)
            self._growing = path if piece.will_continue else None

    def _at(self, path: str) -> Any:
        found: Any = self.values
        for step in _steps(path):
            found = found[step]
        return found

    def _put(self, path: str, value: Any) -> None:
        steps = _steps(path)
        if not steps:
            return
        place: Any = self.values
        for step, following in pairwise(steps):
            place = _entered(place, step, [] if isinstance(following, int) else {})
        _entered(place, steps[-1], value)
        place[steps[-1]] = value


def _entered(place: Any, step: str | int, empty: Any) -> Any:
    """The value at a step of the path, which is made if it does not exist yet."""
    if isinstance(step, int):
        place += [None] * (step + 1 - len(place))
        if place[step] is None:
            place[step] = empty
    else:
        place.setdefault(step, empty)
    return place[step]


def _steps(path: str) -> list[str | int]:
    return [
        int(index) if index else name or single or double
        for name, index, single, double in _STEP.findall(path)
    ]


def _value(piece: types.PartialArg) -> Any:
    if piece.string_value is not None:
        return piece.string_value
    if piece.number_value is not None:
        number = piece.number_value
        return int(number) if number.is_integer() else number
    return piece.bool_value
