"""Tools as users give them."""

from __future__ import annotations

from collections.abc import Callable
from types import CoroutineType
from typing import Any

from awaken.core.tool_context import Tool
from awaken.errors import ConfigError
from awaken.tool.function import tool as as_tool


def tool_of(owner: str, item: Tool | Callable[..., Any]) -> Tool:
    """The item as a tool; a function is made into one.

    Raises:
        ConfigError: it is neither.
    """
    if isinstance(item, type):
        raise ConfigError(
            f"{owner}: {item.__name__} is a class, not a tool; give an instance of it"
        )
    if callable(getattr(item, "descriptor", None)):
        return item  # type: ignore[return-value]  # an object with a descriptor is a tool
    if callable(item):
        return as_tool(item)
    if isinstance(item, CoroutineType):
        name = item.__name__
        item.close()  # nobody can await it any more, and Python would warn of that
        raise ConfigError(f"{owner}: {name}(…) is a call, not a tool; give {name} itself")
    wanted = "give a function or an object with descriptor() and execute()"
    if isinstance(item, str):
        wanted += f", not its name: tools=[{item}]" if item.isidentifier() else ", not its name"
    raise ConfigError(f"{owner}: {item!r} is not a tool; {wanted}")
