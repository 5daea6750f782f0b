"""State keys: each names its value, how updates apply, and how parallel writers get along."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Generic, TypeVar

import msgspec

from awaken.codec import Json, dumps, from_json, loads
from awaken.errors import KeyDecode, KeyEncode

V = TypeVar("V", covariant=True)
U = TypeVar("U")

_CLASS = type


class Merge(StrEnum):
    """Whether writers of one snapshot may both write. `commutative` updates may, in any order."""

    EXCLUSIVE = "exclusive"
    COMMUTATIVE = "commutative"


class Scope(StrEnum):
    """How long a value lives: for one run, or for the thread."""

    RUN = "run"
    THREAD = "thread"


def replace(_value: Any, update: Any) -> Any:
    """The simplest law: the update is the new value."""
    return update


class StateKey(Generic[V, U]):
    """A typed place in the state.

    Args:
        name: unique; plugins prefix it with their own id.
        initial: makes the value the first update is applied to.
        apply: the reducer; returns a new value and never changes the old one.
        type: what a stored value is decoded as; taken from `initial` when that is a class.
    """

    __slots__ = (
        "_decode",
        "_encode",
        "apply",
        "initial",
        "merge",
        "name",
        "persistent",
        "retain_on_uninstall",
        "scope",
        "type",
    )

    def __init__(
        self,
        name: str,
        *,
        initial: Callable[[], V],
        apply: Callable[[V, U], V] = replace,
        merge: Merge = Merge.EXCLUSIVE,
        scope: Scope = Scope.RUN,
        persistent: bool = True,
        retain_on_uninstall: bool = False,
        type: Any = None,
        encode: Callable[[V], Json] | None = None,
        decode: Callable[[Json], V] | None = None,
    ) -> None:
        self.name = name
        self.initial = initial
        self.apply = apply
        self.merge = merge
        self.scope = scope
        self.persistent = persistent
        self.retain_on_uninstall = retain_on_uninstall
        self.type = type or (initial if isinstance(initial, _CLASS) else Any)
        self._encode = encode
        self._decode = decode

    def dump(self, value: Any) -> msgspec.Raw:
        """The value as JSON text.

        Raises:
            KeyEncode: it is not JSON-able.
        """
        try:
            return msgspec.Raw(dumps(value if self._encode is None else self._encode(value)))
        except Exception as error:
            raise KeyEncode(self.name, error) from error

    def load(self, stored: Json) -> V:
        """The value of stored JSON, given as text or already parsed.

        Raises:
            KeyDecode: it does not fit the key's type.
        """
        try:
            json = loads(stored) if isinstance(stored, msgspec.Raw) else stored
            if self._decode is not None:
                return self._decode(json)
            value: V = from_json(json, self.type)
            return value
        except Exception as error:
            raise KeyDecode(self.name, error) from error

    def __repr__(self) -> str:
        return f"StateKey({self.name!r})"


class StateKeyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a plugin registers a key; what is left out follows the key itself."""

    persistent: bool | None = None
    retain_on_uninstall: bool | None = None
    scope: Scope | None = None


class KeyRegistration(msgspec.Struct, frozen=True):
    """A key and the options that count for it."""

    key: StateKey[Any, Any]
    persistent: bool
    retain_on_uninstall: bool
    scope: Scope

    @classmethod
    def of(cls, key: StateKey[Any, Any], options: StateKeyOptions | None = None) -> KeyRegistration:
        options = options or StateKeyOptions()
        return cls(
            key,
            key.persistent if options.persistent is None else options.persistent,
            key.retain_on_uninstall
            if options.retain_on_uninstall is None
            else options.retain_on_uninstall,
            options.scope or key.scope,
        )
