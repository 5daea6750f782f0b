"""Reading unions whose members differ only in their fields; no library reads those."""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from functools import reduce
from itertools import combinations
from operator import or_
from typing import Any

from awaken.codec import Json
from awaken.core.tool import ToolError
from awaken.errors import ConfigError
from awaken.tool.arguments import ArgumentReader, FunctionReader, reader_of
from awaken.tool.schema import inlined_schema
from awaken.tool.signature import REQUIRED, Parameter

VALUE = "value"


def value_reader(type_: Any) -> FunctionReader:
    """A reader for an object whose only field, `value`, is of a type."""
    return FunctionReader("output", [Parameter(VALUE, type_, REQUIRED)], {})


def member_reader(type_: Any) -> ArgumentReader | None:
    """A reader for a union, or a list of a union, that tries its members; `None` for other types.

    Raises:
        ConfigError: a member has no JSON form, or two of them cannot be told apart.
    """
    if typing.get_origin(type_) is list:
        inner = member_reader(typing.get_args(type_)[0])
        return _ListOf(inner) if inner is not None else None
    if isinstance(type_, types.UnionType) or typing.get_origin(type_) is typing.Union:
        return _OneOf(typing.get_args(type_))
    return None


def ambiguous(type_: Any, why: object) -> ConfigError:
    """The error for a type with a union that cannot be read."""
    return ConfigError(
        f"`{_name(type_)}` holds a union whose members cannot be told apart ({why}): write each "
        "of them as a msgspec Struct with tag=True, or as a pydantic model"
    )


class _OneOf:
    """Reads an object as the first of several types that has all its fields and fits."""

    def __init__(self, members: Sequence[Any]) -> None:
        schemas = [(member, inlined_schema(member)) for member in members]
        objects = [each for each in schemas if each[1].get("type") == "object"]
        others = [member for member, schema in schemas if schema.get("type") != "object"]
        for (one, known), (other, alike) in combinations(objects, 2):
            if _look_alike(known, alike):
                raise ConfigError(
                    f"`{reduce(or_, members)}`: what fits {_name(other)} fits {_name(one)}, too: "
                    "give each a field that says which it is, such as kind: Literal['…']"
                )
        self._objects = [(member, schema, reader_of(member)) for member, schema in objects]
        self._others = value_reader(_readable(reduce(or_, others))) if others else None
        self.schema = {"anyOf": [schema for _, schema in schemas]}

    def read(self, value: Json) -> Any:
        if not isinstance(value, dict) and self._others is not None:
            return getattr(self._others.read({VALUE: value}), VALUE)
        wrong: list[str] = []
        for member, schema, reader in self._objects:
            try:
                _check_fields(value, schema)
                return reader.read(value)
            except ToolError as error:
                wrong.append(f"no {_name(member)} ({error.message})")
        raise ToolError.invalid_arguments(f"it is {', '.join(wrong)}")


class _ListOf:
    def __init__(self, inner: ArgumentReader) -> None:
        self._inner = inner
        self.schema = {"type": "array", "items": inner.schema}

    def read(self, value: Json) -> Any:
        if not isinstance(value, list):
            raise ToolError.invalid_arguments("expected a list")
        return [self._item(index, item) for index, item in enumerate(value)]

    def _item(self, index: int, item: Json) -> Any:
        try:
            return self._inner.read(item)
        except ToolError as error:
            raise ToolError.invalid_arguments(f"item {index}: {error.message}") from error


def _readable(union: Any) -> Any:
    try:
        inlined_schema(union)
    except ConfigError as error:
        raise ambiguous(union, error.__cause__) from error
    return union


def _look_alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether an object may be of both types. A later type that takes any field is no problem: it
    is tried last."""
    if not _is_closed(other):
        return False
    if not _is_closed(one):
        return True
    known, alike = one["properties"], other["properties"]
    needed = {*one.get("required", ()), *other.get("required", ())}
    return all(name in known and known[name] == alike.get(name) for name in needed)


def _check_fields(value: Json, schema: dict[str, Any]) -> None:
    """Refuse fields that the schema does not name: the type would drop them, though another member
    of the union may have them."""
    if not isinstance(value, dict):
        raise ToolError.invalid_arguments("expected an object")
    for name in value if _is_closed(schema) else ():
        if name not in schema["properties"]:
            raise ToolError.invalid_arguments(f"it has no field {name!r}")


def _is_closed(schema: dict[str, Any]) -> bool:
    """Whether an object has no fields but those its schema names."""
    return "properties" in schema and not schema.get("additionalProperties", False)


def _name(type_: Any) -> str:
    return type_.__qualname__ if isinstance(type_, type) else str(type_)
