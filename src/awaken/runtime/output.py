"""Structured output: reading an agent's answers into a Python type."""

from __future__ import annotations

import inspect
import re
from typing import Any, Protocol

import msgspec

from awaken.codec import dumps_text, loads
from awaken.core.output import OutputFormat
from awaken.core.tool import ToolError
from awaken.errors import ConfigError
from awaken.runtime.union import VALUE, ambiguous, member_reader, value_reader
from awaken.tool.arguments import ArgumentReader, reader_of
from awaken.tool.output import to_data
from awaken.tool.schema import inlined_schema, sanitize_for_llm

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
            schema, self._members = _described(type_)
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
            schema=sanitize_for_llm(schema if self._is_object else _boxed(schema), keep_null=True),
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


def _described(type_: Any) -> tuple[dict[str, Any], ArgumentReader | None]:
    """A type's schema, and a reader for the members of a union that cannot be read as a whole."""
    try:
        return inlined_schema(type_), None
    except ConfigError as error:
        members = member_reader(type_)
        if members is not None:
            return dict(members.schema), members
        if "union" in str(error.__cause__):
            raise ambiguous(type_, error.__cause__) from error
        raise


def _boxed(schema: dict[str, Any]) -> dict[str, Any]:
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
