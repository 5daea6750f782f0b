"""Checking that a store can keep a value and read it back.

The values come from outside our typed code.

`parse_argument` is called once where such a value enters. A check with a type of its own, such as
that of a budget, may come before it and say more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec

from awaken.codec import read_back
from awaken.errors import ConfigError, describe, type_of

S = TypeVar("S", bound=msgspec.Struct)

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
"""A whole number from 0 on that every database can keep."""

UNWRITABLE = (TypeError, ValueError, OverflowError, RecursionError, MemoryError)
"""The errors of a value that has no JSON form."""

_TEXT = re.compile(r"(?P<what>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`)?", re.DOTALL)
_EXPECTED = re.compile(r"Expected `(?P<kinds>[^`]*)`(?:, got `[^`]*`| (?P<limit>[<>].*))")
_PART = re.compile(r"\.(?P<name>\w+)|\[(?P<index>\d+|\.\.\.)\]")
_WORDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "True or False",
    "null": "None",
    "array": "a list",
    "object": "a mapping",
}
_LIMITS = {">= ": " of at least ", "<= ": " of at most "}
_DEEPEST = 16
_SEARCHED = 64 * 1024
_HALF = "has half of a surrogate pair, which is no character: leave it out, or write U+FFFD instead"


def parse_argument(name: str, value: object, type_: Any, such_as: str = "") -> Any:
    """`value` as a store returns it after it was written; errors call it `name`.

    Args:
        such_as: an example of a struct, for the text of an error.

    Raises:
        ConfigError: it does not fit `type_`, or cannot be written, or has a number that JSON does
            not have; the text names the part.
    """
    if type_ is str and type(value) is str and value.isascii():
        return value  # the most frequent case
    kept = parse_value(name, value, type_, such_as)
    if kept != value and (found := _not_in_json(name, value)) is not None:
        raise ConfigError(f"{found[0]} is {found[1]}, a number that JSON does not have")
    return kept


def parse_value(name: str, value: object, type_: Any, such_as: str = "") -> Any:
    """The same for a value in which `null` may stand for a number that JSON does not have."""
    struct, is_optional = _struct_of(type_)
    if value is None and is_optional:
        return None
    if struct is not None and not isinstance(value, struct):
        example = such_as and f", such as {such_as}"
        raise ConfigError(f"{name} is a {struct.__name__}{example}, not {_short_repr(value)}")
    try:
        return read_back(value, type_)
    except msgspec.ValidationError as error:
        raise ConfigError(_misfit(name, value, str(error))) from None
    except UNWRITABLE as error:
        where, why = _unwritable(name, value, error)
        raise ConfigError(f"{where} {why}") from None


def is_storable(value: object, type_: Any) -> bool:
    """Whether `value` can be written, and read back as `type_`."""
    try:
        read_back(value, type_)
    except UNWRITABLE:  # a `msgspec.ValidationError` is a `ValueError`
        return False
    return True


# -- the storable part of a value ------------------------------------------------------------------


def leave_out_unstorable(value: S) -> S | None:
    """The struct without the parts that could not be read back: such a field gets its default, such
    an item is left out. Returns `None` if a field that has no default is among them."""
    kept: dict[str, Any] = {}
    for field in msgspec.structs.fields(type(value)):
        part = getattr(value, field.name)
        if is_storable(part, field.type):
            continue
        part = _storable_part(part)
        if not is_storable(part, field.type):
            if field.required:
                return None
            factory = field.default_factory
            part = field.default if factory is msgspec.NODEFAULT else factory()
        kept[field.name] = part
    return msgspec.structs.replace(value, **kept) if kept else value


def _storable_part(part: Any) -> Any:
    """The storable part of a field's value; for a value that is no struct or container, `None`."""
    if isinstance(part, msgspec.Struct):
        return leave_out_unstorable(part)
    if isinstance(part, tuple | list):
        items = [item if is_storable(item, type(item)) else _storable_part(item) for item in part]
        return tuple([item for item in items if item is not None])
    if isinstance(part, Mapping):
        return {
            key: item
            for key, item in part.items()
            if isinstance(key, str) and is_storable({key: item}, dict[str, type(item)])  # type: ignore[misc]
        }
    return None


# -- the text of an error -------------------------------------------------------------------------


def _misfit(name: str, value: object, text: str) -> str:
    found = _TEXT.fullmatch(text)
    assert found is not None, "every text matches"
    path, part = _follow(value, found["path"] or "")
    where = f"{name}{path}" if name else path.lstrip(".")
    if found["key"]:
        return f"a key of {where} is a text of JSON: {found['what']}"
    expected = _EXPECTED.fullmatch(found["what"])
    if expected is None:
        return f"{where}: {found['what'][:1].lower()}{found['what'][1:]}"
    kinds = " or ".join(_WORDS.get(kind, kind) for kind in expected["kinds"].split(" | "))
    limit = expected["limit"] or ""
    for sign, words in _LIMITS.items():
        limit = limit.replace(sign, words)
    return f"{where} is {kinds}{limit}, not {_short_repr(part)}"


def _follow(value: Any, path: str) -> tuple[str, Any]:
    """Where in a value a path of msgspec leads, with the names of unnamed items, and what is there.
    It leads as far as it can be followed."""
    followed = ""
    for step in _PART.finditer(path):
        name, index = step["name"], step["index"]
        try:
            if name is not None:
                value = value[name] if isinstance(value, Mapping) else getattr(value, name)
                followed += f".{name}"
            elif index != "...":
                value = value[int(index)]
                followed += f"[{index}]"
            elif isinstance(value, Mapping) and len(value) == 1:
                key, value = next(iter(value.items()))
                followed += f"[{key!r}]"
            else:
                return followed, value
        except (AttributeError, KeyError, IndexError, TypeError):
            return followed + step[0], value
    return followed, value


def explain_json(body: bytes | bytearray, error: Exception) -> str:
    """Why JSON text could not be decoded. For half of a surrogate pair, `error` says only that the
    text is truncated; this says where it is."""
    import json  # noqa: PLC0415  # only a body with such an escape needs it

    if b"\\u" not in body:
        return str(error)
    try:
        value = json.loads(body)
        read_back(value, Any)
    except UnicodeEncodeError as reason:
        # In a large body it is not looked for: that would take long.
        found = _unwritable("body", value, reason) if len(body) <= _SEARCHED else ("body", _HALF)
        return " ".join(found)
    except UNWRITABLE:
        pass
    return str(error)


def _unwritable(name: str, value: object, error: Exception) -> tuple[str, str]:
    """The innermost part of a value that cannot be written, and why."""
    for _ in range(_DEEPEST):
        for step, part in _parts(value):
            try:
                read_back(part, Any)
            except UNWRITABLE as reason:
                name, value, error = f"{name}{step}" if name else step.lstrip("."), part, reason
                break
        else:
            break
    if isinstance(error, UnicodeEncodeError):
        return name, _HALF
    if isinstance(error, RecursionError):
        return name, "is nested too deeply, or contains itself"
    return name, f"cannot be stored: {describe(error)}"


def _not_in_json(name: str, value: object) -> tuple[str, float] | None:
    """The first number in a value that JSON has no form for, and where it is: it would be stored as
    `null`."""
    if isinstance(value, float):
        return None if math.isfinite(value) else (name, value)
    for step, part in _parts(value):
        if (found := _not_in_json(f"{name}{step}" if name else step.lstrip("."), part)) is not None:
            return found
    return None


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """The parts of a struct or container, each with how it is reached."""
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield f".{name}", getattr(value, name)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield f"[{key!r}]", item
            yield f": the key {key!r}", key
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield f"[{index}]", item


@lru_cache(maxsize=128)
def _struct_of(type_: Any) -> tuple[type[msgspec.Struct] | None, bool]:
    """The struct that a type stands for, if it is one alone, and whether the type allows `None`."""
    members = get_args(type_) if get_origin(type_) in (Union, UnionType) else (type_,)
    structs = [one for one in members if one is not type(None)]
    first = structs[0] if len(structs) == 1 else None
    is_struct = isinstance(first, type) and issubclass(first, msgspec.Struct)
    return first if is_struct else None, len(structs) < len(members)


def _short_repr(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # `__repr__` may be user code
        text = type_of(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
