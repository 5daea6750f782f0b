"""State keys: a key has a name, a value type, a reducer, a merge rule and a scope."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from types import UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin

import msgspec

from awaken.codec import Json, dumps_state, from_json, loads
from awaken.errors import ConfigError, KeyDecode, KeyEncode, describe

V = TypeVar("V", covariant=True)
U = TypeVar("U")

_CLASS = type
OWN = "__runtime."
"""The prefix of the runtime's own keys."""


class Merge(StrEnum):
    """Whether two writers that read the same snapshot may both write a key.

    Updates of an `exclusive` key conflict; those of a `commutative` key apply in any order.
    """

    EXCLUSIVE = "exclusive"
    COMMUTATIVE = "commutative"


class Scope(StrEnum):
    """How long a value is kept: for one run, or for the whole thread."""

    RUN = "run"
    THREAD = "thread"


def replace(_value: Any, update: Any) -> Any:
    """The default reducer: the update is the new value."""
    return update


class StateKey(Generic[V, U]):
    """A named, typed value in the state.

    Args:
        name: unique; plugins prefix it with their own id.
        initial: makes the value that the first update is applied to.
        apply: the reducer; returns a new value and never changes the old one.
        merge: whether two writers that read the same snapshot may both write; by default only
            one may.
        scope: how long a value is kept: for one run, which is the default, or for the thread.
        persistent: whether the value is stored.
        public: whether clients that follow the run are sent the value, in `state_snapshot` and
            `state_delta`; only a persistent key can be.
        retain_on_uninstall: whether the value stays when the plugin that registered the key is
            uninstalled.
        type: the type of the values, used to decode stored ones; taken from `initial` if that is
            a class. An update that makes a value of another class is refused.
        encode, decode: convert a value to JSON and back, where the type alone is not enough.
        durable: returns the part of a value that a commit stores, or `None` if it need not store
            any of it; by default a commit stores the whole value.

    Raises:
        ConfigError: `initial` cannot be called.
    """

    __slots__ = (
        "_decode",
        "_encode",
        "apply",
        "durable",
        "holds",
        "initial",
        "merge",
        "name",
        "persistent",
        "public",
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
        public: bool = False,
        retain_on_uninstall: bool = False,
        type: Any = None,
        encode: Callable[[V], Json] | None = None,
        decode: Callable[[Json], V] | None = None,
        durable: Callable[[V], V | None] | None = None,
    ) -> None:
        self.name = name
        self.initial = initial
        self.apply = apply
        self.merge = merge
        self.scope = scope
        self.persistent, self.public = persistent, public
        self.retain_on_uninstall = retain_on_uninstall
        if not callable(initial):
            raise ConfigError(
                f"state key {name!r}: initial is {initial!r}, which cannot be called: pass a "
                f"function that makes the first value, such as int, list or lambda: {initial!r}"
            )
        self.type = type or (initial if isinstance(initial, _CLASS) else Any)
        self.holds = _holds(self.type)
        self.durable = durable
        self._encode = encode
        self._decode = decode

    def dump(self, value: Any) -> msgspec.Raw:
        """The value as JSON text.

        Raises:
            KeyEncode: the value is not JSON-able.
        """
        try:
            return msgspec.Raw(dumps_state(value if self._encode is None else self._encode(value)))
        except BaseException as error:
            raise KeyEncode(self.name, error) from error

    def dump_to_store(self, value: Any) -> msgspec.Raw:
        """The value as JSON text, from which it was read back once: no run of a thread could begin
        with a value that cannot be read.

        Raises:
            KeyEncode: the value is not JSON-able, or cannot be read back.
        """
        stored = self.dump(value)
        try:
            self.load(stored)
        except KeyDecode as error:
            why = f"it could not be read back: {describe(error.__cause__)}"
            raise KeyEncode(self.name, why) from error
        return stored

    def durable_part(self, value: Any) -> Any:
        """The part of a value that a commit stores, or `None` if it need not store any.

        Raises:
            KeyEncode: `durable` failed.
        """
        if self.durable is None:
            return value
        try:
            return self.durable(value)
        except Exception as error:
            raise KeyEncode(self.name, error) from error

    def load(self, stored: Json) -> V:
        """Decode a stored value, given as JSON text or already parsed.

        Raises:
            KeyDecode: the JSON does not fit the key's type.
        """
        try:
            json = loads(stored) if isinstance(stored, msgspec.Raw) else stored
            if self._decode is not None:
                return self._decode(json)
            value: V = from_json(json, self.type)
            return value
        except BaseException as error:
            raise KeyDecode(self.name, error) from error

    def __repr__(self) -> str:
        return f"StateKey({self.name!r})"


class BuiltInKey(StateKey[V, U]):
    """A key of the runtime or a built-in plugin, whose values only our typed code makes: they are
    not read back before they are stored. Values from callers are checked where they enter.

    A key that users' code may update with its own structs is not a `BuiltInKey`.
    """

    __slots__ = ()

    def dump_to_store(self, value: Any) -> msgspec.Raw:
        return self.dump(value)


def _holds(type_: Any) -> tuple[type, ...] | None:
    """The classes to check new values against, or `None` if the type cannot be checked so."""
    if type_ is Any:
        return None
    origin = get_origin(type_)
    if origin in (Union, UnionType):
        members = [_holds(member) for member in get_args(type_)]
        return None if None in members else tuple(c for m in members if m for c in m)
    if type_ is None:
        return (_CLASS(None),)
    found = origin or type_
    if found is float:
        return (float, int)
    return (found,) if isinstance(found, _CLASS) else None


class StateKeyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options a plugin may override when it registers a key; `None` keeps the key's own."""

    persistent: bool | None = None
    retain_on_uninstall: bool | None = None
    scope: Scope | None = None


class KeyRegistration(msgspec.Struct, frozen=True):
    """A registered key with the options that apply to it."""

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
