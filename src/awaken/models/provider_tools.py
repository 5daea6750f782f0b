"""Tools that a provider runs itself, as `native=[WebSearch()]` of a model.

Their calls and results are `Opaque` blocks of the answer, its sources are `Citation` blocks. The
provider has run such a call when it is told, so no permission is asked and no effect recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from awaken.core.value import Value
from awaken.errors import ConfigError


class WebSearch(Value, frozen=True, kw_only=True):
    """Searching the web, on these domains only or not on those, at most `max_uses` times."""

    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()
    max_uses: int | None = None


class CodeExecution(Value, frozen=True, kw_only=True):
    """Running code that the model writes, in the provider's sandbox."""


class FileSearch(Value, frozen=True, kw_only=True):
    """Searching files that were uploaded to these stores of the provider, by their ids."""

    stores: tuple[str, ...]


NativeTool = WebSearch | CodeExecution | FileSearch
NativeTools = Mapping[type[Any], tuple[tuple[str, ...], Callable[[Any], dict[str, Any]]]]
"""For each kind of tool that a provider has: the fields it obeys, and how it is written."""


def native_tool_fields(
    tools: Sequence[NativeTool], known: NativeTools, provider: str
) -> list[dict[str, Any]]:
    """The fields of a provider's request for these tools.

    Raises:
        ConfigError: the provider has no such tool, or a field of it cannot be obeyed.
    """
    return [_native_tool(tool, known, provider) for tool in tools]


def _native_tool(tool: NativeTool, known: NativeTools, provider: str) -> dict[str, Any]:
    name = type(tool).__name__
    if type(tool) not in known:
        has = ", ".join(f"{kind.__name__}()" for kind in known) or "none"
        raise ConfigError(f"{provider} does not run {tool!r} for a model: native tools are {has}")
    fields, write = known[type(tool)]
    for field in tool.__struct_fields__:
        if field not in fields and getattr(tool, field):
            raise ConfigError(f"{provider} cannot obey {field} of {name}: leave it out")
    return write(tool)
