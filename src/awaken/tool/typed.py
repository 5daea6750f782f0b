"""Tools written as classes around an argument type."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from awaken.codec import Json
from awaken.core.tool import ToolDescriptor, ToolError
from awaken.core.tool_context import ToolCallContext, ToolOutput, ToolTraits
from awaken.errors import ConfigError
from awaken.tool.arguments import ArgumentReader, reader_of
from awaken.tool.output import to_output
from awaken.tool.signature import parse_docstring

A = TypeVar("A")


class TypedTool(ABC, Generic[A]):
    """A tool whose arguments are one type. Subclass it, set `args_type` and write `run`.

    `args_type` is a Struct, dataclass, TypedDict or pydantic model, set in the class body. The
    other attributes may be set there or in `__init__`. `name` defaults to the id, `description` to
    the class's docstring.

    Raises:
        ConfigError: when the class is created, if the argument type cannot be read from JSON.
    """

    args_type: type[A]
    tool_id: str
    name: str = ""
    description: str = ""
    category: str | None = None
    traits: ToolTraits = ToolTraits()

    _reader: ArgumentReader

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "args_type" in cls.__dict__:
            try:
                cls._reader = reader_of(cls.args_type)
            except ConfigError as error:
                raise ConfigError(f"tool class {cls.__name__!r}: args_type {error}") from error

    def validate(self, args: A) -> None:
        """Refuse arguments that fit the type but make no sense.

        Raises:
            ToolError, ValueError: the model reads the text as `invalid_arguments`.
        """

    @abstractmethod
    async def run(self, args: A, ctx: ToolCallContext) -> Any:
        """The tool's work. Its return value is treated like that of a function tool."""

    def descriptor(self) -> ToolDescriptor:
        return self._descriptor

    def validate_args(self, args: Json) -> A:
        """The arguments as `args_type`; null is read as `{}`.

        Raises:
            ToolError: `invalid_arguments`, from the type or from `validate`.
        """
        decoded: A = self._own_reader().read(args)
        try:
            self.validate(decoded)
        except ToolError as error:
            raise ToolError.invalid_arguments(error.message) from error
        except ValueError as error:
            raise ToolError.invalid_arguments(str(error)) from error
        return decoded

    async def execute(self, args: A, ctx: ToolCallContext) -> ToolOutput:
        """Call `run` with the result of `validate_args`, and return its output."""
        return to_output(self._descriptor.name, await self.run(args, ctx))

    def _own_reader(self) -> ArgumentReader:
        reader: ArgumentReader | None = getattr(type(self), "_reader", None)
        if reader is None:
            raise ConfigError(
                f"tool class {type(self).__name__!r} names no argument type: "
                "set `args_type` in the class body"
            )
        return reader

    @functools.cached_property
    def _descriptor(self) -> ToolDescriptor:
        tool_id = getattr(self, "tool_id", "")
        if not tool_id:
            raise ConfigError(f"tool class {type(self).__name__!r} has no id: set `tool_id`")
        return ToolDescriptor(
            id=tool_id,
            name=self.name or tool_id,
            description=self.description or parse_docstring(type(self).__doc__).description,
            parameters=self._own_reader().schema,
            category=self.category,
        )
