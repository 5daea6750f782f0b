"""What readers see: one revision of the state, which never changes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any, Self, TypeVar

import msgspec

from awaken.state.key import StateKey

V = TypeVar("V")

MISSING: Any = object()
TOP = 16
"""How many changed values a snapshot carries itself; more go into a new base (ADR 12)."""
_NO_VALUES: dict[str, Any] = {}


class Snapshot(msgspec.Struct, frozen=True, eq=False):
    """An immutable view; later commits do not show in it.

    Its values lie in two layers. `top` has what was written lately, and hides what `base` has of
    the same names. A change copies `top` alone, so it costs the same however many keys there are.
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

    def after(self, changes: dict[str, Any]) -> Snapshot:
        """The state of the next revision, with these values changed."""
        revision, top, base = self.revision + 1, {**self.top, **changes}, self.base
        # Many keys allow for a larger top: both layers are then copied equally seldom.
        if len(top) > TOP and len(top) ** 2 > len(base):
            return self.of(revision, {**base, **top})
        return Snapshot(revision, top, base)

    @classmethod
    def of(cls, revision: int, values: dict[str, Any]) -> Self:
        """A state of just these values."""
        return cls(revision, _NO_VALUES, values)

    def without(self, names: Iterable[str]) -> Snapshot:
        """The state of the next revision, in which these keys were never written."""
        kept = {**self.base, **self.top}
        for name in names:
            kept.pop(name, None)
        return self.of(self.revision + 1, kept)

    def __repr__(self) -> str:
        return f"Snapshot(revision={self.revision}, keys={sorted(self.names())})"
