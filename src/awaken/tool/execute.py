"""One call of one tool: whatever goes wrong in it becomes a result the model reads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from awaken.codec import Json, clean_text
from awaken.contract.tool import Tool, ToolCallContext, ToolOutput, traits_of
from awaken.domain.message import ToolCall
from awaken.domain.schema import validate_against_schema
from awaken.domain.tool import ToolError, ToolErrorKind, ToolResult
from awaken.errors import RunLeft
from awaken.tool.answer import TIMED_OUT, cut_short
from awaken.tool.frontend import FrontEndTool
from awaken.tool.function import FunctionTool
from awaken.tool.typed import TypedTool

_log = logging.getLogger("awaken.tool")

# These enforce their own types, and more exactly than their schemas say.
_CHECKS_ITSELF = (FunctionTool, TypedTool, FrontEndTool)
_MOST_NAMES = 40


async def execute_tool(
    tools: Mapping[str, Tool], call: ToolCall, ctx: ToolCallContext
) -> ToolOutput:
    """The output of the called tool, or an error result; only cancellation, and that the call is
    left to another process, pass through.

    A tool of somebody else's making may leave `validate_args` out or have it return None: it then
    gets the arguments as given. They are checked against its schema in any case.
    """
    tool = tools.get(call.name)
    if tool is None:
        return _unknown(call.name, tools)
    try:
        if isinstance(tool, _CHECKS_ITSELF):
            args = tool.validate_args(call.arguments)
        else:
            args = _checked(tool, call.arguments)
        timeout = traits_of(tool).timeout
        if timeout is None:
            output = await tool.execute(args, ctx)
        else:
            output = await _within(timeout, tool, args, ctx)
    except ToolError as error:
        return _failed(call.name, error)
    except RunLeft:
        raise  # a run the tool waits for is carried on elsewhere, and so is the call
    except Exception as error:
        _log.exception("tool %r failed in call %r", call.name, call.id)
        return _failed(call.name, ToolError.execution_failed(_describe(error)))
    if type(output) is ToolOutput and isinstance(output.result, ToolResult):
        return output
    return _accepted(call.name, output)


def _checked(tool: Tool, given: Json) -> Any:
    """What a foreign tool wants as arguments, once they fit its schema."""
    given = {} if given is None else given
    validate = getattr(tool, "validate_args", None)
    decoded = None if validate is None else validate(given)
    if not checks_itself(tool):
        validate_against_schema(tool.descriptor().parameters, given)
    return given if decoded is None else decoded


def checks_itself(tool: Tool) -> bool:
    """Whether a tool, or the one it wraps, holds its arguments against types of its own."""
    return isinstance(tool, _CHECKS_ITSELF) or getattr(tool, "checks_itself", False) is True


async def _within(seconds: float, tool: Tool, args: Any, ctx: ToolCallContext) -> ToolOutput:
    try:
        async with asyncio.timeout(seconds) as scope:
            return await tool.execute(args, ctx)
    except TimeoutError as error:
        if not scope.expired():  # the tool's own, about something else
            raise
        raise ToolError.timeout(f"no answer within {seconds:g} seconds") from error


def _accepted(name: str, output: object) -> ToolOutput:
    if isinstance(output, ToolResult):
        return ToolOutput(output)
    if isinstance(output, ToolOutput) and isinstance(output.result, ToolResult):
        return output
    kind = type(output).__name__
    _log.error("tool %r returned a %s instead of a ToolOutput", name, kind)
    return _failed(name, ToolError.internal(f"tool {name!r} returned a {kind}, no ToolOutput"))


def _failed(name: str, error: ToolError) -> ToolOutput:
    if error.kind is ToolErrorKind.TIMEOUT:
        return cut_short(name, error, TIMED_OUT)
    return ToolOutput(ToolResult.error(name, clean_text(str(error))))


def _unknown(name: str, tools: Mapping[str, Tool]) -> ToolOutput:
    names = sorted(tools)
    known = ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
    text = f"tool '{name}' not found; available: {known or 'none'}"
    return ToolOutput(ToolResult.error(name, clean_text(text)))


def _describe(error: Exception) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be read)"
    return f"{type(error).__name__}: {text}"
