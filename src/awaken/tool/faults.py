"""Finding all faults of a value; msgspec itself names only the first."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator, Sequence
from itertools import islice
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import inspect as shapes

from awaken.codec import Json

MOST = 20
"""The most faults that are named: a model needs no more to try again."""

_PLACE = re.compile(r"(?s)(?P<what>.*) - at (?P<key>`key` in )?`\$(?P<rest>.*)`")
_MAY_BE_MISSING = (typing.Required, typing.NotRequired)
_OBJECTS = (shapes.StructType, shapes.DataclassType, shapes.TypedDictType)
_LISTS = (shapes.ListType, shapes.SetType, shapes.FrozenSetType, shapes.VarTupleType)


def all_faults(value: Json, type_: Any) -> list[str]:
    """msgspec's message for each fault of `value`, with its place; empty if the value is valid."""
    return list(islice(dict.fromkeys(_faults(value, type_, "")), MOST))


def _faults(value: Json, type_: Any, place: str) -> Iterator[str]:
    try:
        msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        # If no part has a fault, the fault is in the value itself.
        parts = list(islice(_parts(value, _bare(type_), place), MOST))
        yield from parts or [_placed(str(error), place)]


def _parts(value: Json, type_: Any, place: str) -> Iterator[str]:
    """The faults of a value's parts."""
    if get_origin(type_) in (Union, UnionType):
        kinds = [kind for kind in get_args(type_) if kind is not NoneType]
        if len(kinds) == 1 and value is not None:
            yield from _parts(value, _bare(kinds[0]), place)
        return
    shape = shapes.type_info(type_)
    if isinstance(shape, _OBJECTS) and isinstance(value, dict):
        yield from _fields(value, type_, shape, place)
    elif isinstance(shape, _LISTS) and isinstance(value, list):
        (kind, *_) = get_args(type_) or (Any,)
        for index, item in enumerate(value):
            yield from _faults(item, kind, f"{place}[{index}]")
    elif isinstance(shape, shapes.DictType) and isinstance(value, dict):
        kind = (*get_args(type_), Any, Any)[1]
        for item in value.values():
            yield from _faults(item, kind, f"{place}[...]")


def _fields(value: dict[str, Json], type_: Any, shape: Any, place: str) -> Iterator[str]:
    try:
        kinds = get_type_hints(get_origin(type_) or type_, include_extras=True)
    except NameError:
        return  # a type local to a function: only msgspec's first message is available
    known = {shape.tag_field} if isinstance(shape, shapes.StructType) else set()
    for field in shape.fields:
        known.add(field.encode_name)
        if field.encode_name in value:
            kind = _stripped(kinds.get(field.name, Any), _MAY_BE_MISSING)
            yield from _faults(value[field.encode_name], kind, f"{place}.{field.encode_name}")
        elif field.required:
            yield _placed(f"Object missing required field `{field.encode_name}`", place)
    if isinstance(shape, shapes.StructType) and shape.forbid_unknown_fields:
        for name in value:
            if name not in known:
                yield _placed(f"Object contains unknown field `{name}`", place)


def _bare(type_: Any) -> Any:
    """A type without its `Annotated` metadata."""
    type_ = _stripped(type_, (Annotated,))
    return getattr(type_, "__supertype__", type_)


def _stripped(type_: Any, wrappers: Sequence[Any]) -> Any:
    while get_origin(type_) in wrappers:
        type_ = get_args(type_)[0]
    return type_


def _placed(message: str, place: str) -> str:
    """msgspec's message about a part of a value, as one about the whole."""
    found = _PLACE.fullmatch(message)
    if found is not None:
        return f"{found['what']} - at {found['key'] or ''}`${place}{found['rest']}`"
    return f"{message} - at `${place}`" if place else message
