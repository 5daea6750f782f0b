"""Snapshots: the state at one revision."""

from __future__ import annotations

from itertools import chain
from typing import Any, Self, TypeVar

import msgspec

from awaken.core.state.key import StateKey

V = TypeVar("V")

MISSING: Any = object()
TOP = 16
"""How many values the top layer may hold before both layers become a new base (ADR 12)."""
_NO_VALUES: dict[str, Any] = {}


class Snapshot(msgspec.Struct, frozen=True, eq=False):
    """One revision of the state. Later commits do not change it.

    Its values lie in two layers: `top` holds recent writes and hides values of the same name in
    `base`. A change copies only `top`, so its cost does not grow with the number of keys.
    """

    revision: int
    top: dict[str, Any]
    base: dict[str, Any] = msgspec.field(default_factory=lambda: _NO_VALUES)

    def get(self, key: StateKey[V, Any]) -> V | None:
        """The value of `key`, or `None` if it was never written."""
        name = key.name
        value = self.top.get(name, MISSING)
        return self.base.get(name) if value is MISSING else value

    def value(self, key: StateKey[V, Any]) -> V:
        """The value of `key`, or its initial value if it was never written."""
        value: V = self.find(key.name, MISSING)
        return key.initial() if value is MISSING else value

    def find(self, name: str, default: Any) -> Any:
        """The value of the key of that name, or `default` if it was never written."""
        value = self.top.get(name, MISSING)
        return self.base.get(name, default) if value is MISSING else value

    def names(self) -> frozenset[str]:
        return frozenset(chain(self.base, self.top))

    def after(self, changes: dict[str, Any], revision: int) -> Snapshot:
        """The snapshot of a later revision, with these values changed."""
        top, base = {**self.top, **changes}, self.base
        # With many keys the top may grow larger, so that the base is copied less often.
        if len(top) > TOP and len(top) ** 2 > len(base):
            return self.of(revision, {**base, **top})
        return Snapshot(revision, top, base)

    @classmethod
    def of(cls, revision: int, values: dict[str, Any]) -> Self:
        """A snapshot with exactly these values."""
        return cls(revision, _NO_VALUES, values)

    def __repr__(self) -> str:
        return f"Snapshot(revision={self.revision}, keys={sorted(self.names())})"
