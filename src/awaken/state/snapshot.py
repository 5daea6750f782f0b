"""What readers see: one revision of the state, which never changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from awaken.state.key import StateKey

V = TypeVar("V")


class Snapshot:
    """An immutable view; later commits do not show in it."""

    __slots__ = ("_values", "revision")

    def __init__(self, revision: int, values: Mapping[str, Any]) -> None:
        self.revision = revision
        self._values = values

    def get(self, key: StateKey[V, Any]) -> V | None:
        """The value of `key`, or `None` if it was never written."""
        return self._values.get(key.name)

    def value(self, key: StateKey[V, Any]) -> V:
        """The value of `key`, or its initial value if it was never written."""
        value: V = self._values[key.name] if key.name in self._values else key.initial()
        return value

    def names(self) -> frozenset[str]:
        return frozenset(self._values)

    def __repr__(self) -> str:
        return f"Snapshot(revision={self.revision}, keys={sorted(self._values)})"
