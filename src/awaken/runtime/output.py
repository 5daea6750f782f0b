"""Structured output: reading the text of an agent's answer into a Python type.

No library reads a union whose members differ only in their fields; such a union is read here,
member by member.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Sequence
from functools import reduce
from itertools import combinations
from operator import or_
from typing import Any, Protocol

import msgspec

from awaken.codec import Json, dumps_text, loads
from awaken.core.inference import OutputFormat
from awaken.core.tool import ToolError
from awaken.errors import ConfigError
from awaken.tool.arguments import ArgumentReader, FunctionReader, reader_of
from awaken.tool.output import to_data
from awaken.tool.schema import build_inlined_schema, sanitize_for_llm
from awaken.tool.signature import REQUIRED, Parameter

VALUE = "value"
_FENCE = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)
"""The Markdown fence that many models put around JSON."""


class OutputShape(Protocol):
    """How the text of a run's output is read."""

    def read(self, text: str) -> Any:
        """
        Raises:
            ValueError: the text does not fit.
        """
        ...

    def partial(self, value: Any) -> Any: ...


class OutputType:
    """The type of an agent's answers: its schema for the model, and how an answer's text is read.

    A type that is not an object in JSON (a list, a union, a number) is asked for as an object with
    one field, `value`. If no library can read a union as a whole, its members are tried one after
    the other.

    Raises:
        ConfigError: the type has no JSON form, or holds a union whose members look the same.
    """

    def __init__(self, owner: str, type_: Any) -> None:
        try:
            schema, self._members = _describe_type(type_)
            self._is_object = schema.get("type") == "object"
            self._reader: ArgumentReader = (
                reader_of(type_)
                if self._is_object
                else value_reader(Any if self._members is not None else type_)
            )
        except ConfigError as error:
            raise ConfigError(f"{owner}: output {error}") from error
        name = re.sub(r"\W+", "_", getattr(type_, "__name__", "")) or "output"
        self.format = OutputFormat(
            name=name[:64],
            # Null stays in the schema: a model that cannot write it would have to invent a value.
            schema=sanitize_for_llm(
                schema if self._is_object else _wrap_schema(schema), keep_null=True
            ),
            description=_description(type_),
        )

    def read(self, text: str) -> Any:
        """The value that an answer's text stands for.

        Raises:
            ValueError: the text does not fit the type; the error says where, and what was expected.
        """
        if fenced := _FENCE.fullmatch(text.strip()):
            text = fenced[1]
        try:
            value = loads(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ValueError(f"it is not JSON ({error})") from error
        try:
            read = self._reader.read(value)
            if not self._is_object:
                read = getattr(read, VALUE)
            return read if self._members is None else self._members.read(read)
        except ToolError as error:
            raise ValueError(error.message) from error

    def from_data(self, data: Any) -> Any:
        """The value that JSON data stands for.

        Raises:
            ValueError: the data does not fit the type.
        """
        return self.read(dumps_text(data if self._is_object else {VALUE: data}))

    def write(self, value: Any) -> str:
        """A value of the type as the text of an answer.

        Raises:
            ValueError: the value does not fit the type.
        """
        data = to_data(value)
        text = dumps_text(data if self._is_object else {VALUE: data})
        self.read(text)
        return text

    def problem(self, text: str) -> str | None:
        """Why a text does not fit the type; `None` if it does."""
        try:
            self.read(text)
        except ValueError as error:
            return str(error)
        return None

    def partial(self, value: Any) -> Any:
        """An unfinished answer as plain data; `None` if nothing has come yet."""
        if self._is_object or not isinstance(value, dict):
            return value
        return value.get(VALUE)


def _describe_type(type_: Any) -> tuple[dict[str, Any], ArgumentReader | None]:
    """A type's schema, and a reader for the members of a union that cannot be read as a whole."""
    try:
        return build_inlined_schema(type_), None
    except ConfigError as error:
        members = member_reader(type_)
        if members is not None:
            return dict(members.schema), members
        if "union" in str(error.__cause__):
            raise ambiguous(type_, error.__cause__) from error
        raise


def _wrap_schema(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {VALUE: schema},
        "required": [VALUE],
        "additionalProperties": False,
    }


def _description(type_: Any) -> str | None:
    text = type_.__dict__.get("__doc__") if isinstance(type_, type) else None
    # The docstring of a dataclass that was given none is its signature.
    if not text or text.startswith(f"{type_.__name__}("):
        return None
    return inspect.cleandoc(text)


# -- unions -----------------------------------------------------------------------------------


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
        schemas = [(member, build_inlined_schema(member)) for member in members]
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
        build_inlined_schema(union)
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
