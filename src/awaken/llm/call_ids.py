"""Ids of calls in requests."""

from __future__ import annotations

from collections.abc import Callable


class CallIds:
    """Ids of the calls of one conversation, each unique and in the form that a provider accepts.

    Some providers number the calls of every answer from the start, so one id may stand for several
    calls of a conversation. A result belongs to the last call with its id.

    Args:
        fit: makes an id acceptable; the same id always becomes the same.
    """

    def __init__(self, fit: Callable[[str], str]) -> None:
        self._fit = fit
        self._wire: dict[str, str] = {}
        self._used: set[str] = set()

    def of_call(self, id: str) -> str:
        """A new id for the next call of the conversation."""
        wire, count = self._fit(id), 1
        while wire in self._used:
            count += 1
            wire = self._fit(f"{id}_{count}")
        self._used.add(wire)
        self._wire[id] = wire
        return wire

    def of_result(self, id: str) -> str:
        """The id that the call of a result was given."""
        return self._wire.get(id) or self._fit(id)
