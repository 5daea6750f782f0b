"""Executing one tool call; every error in it becomes a result that the model reads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from awaken.codec import Json, clean_text
from awaken.core.aio.cancel import is_cancellation
from awaken.core.aio.owned_tasks import start_task
from awaken.core.lifecycle import Stopped, StoppedReason
from awaken.core.message import ToolCall
from awaken.core.schema import as_object, check_arguments
from awaken.core.state.command import Command
from awaken.core.state.run_keys import RUN_LIFECYCLE, TOOL_RETRIES, Done
from awaken.core.thread_ids import without_scope
from awaken.core.tool import ToolError, ToolErrorKind, ToolResult
from awaken.core.tool_context import Tool, ToolCallContext, ToolOutput, ToolTraits, traits_of
from awaken.errors import RunLeft
from awaken.tool.frontend import FrontEndTool
from awaken.tool.function import FunctionTool
from awaken.tool.output import TIMED_OUT, cut_short_result, parse_result
from awaken.tool.thread_pool import NotStarted
from awaken.tool.typed import TypedTool

T = TypeVar("T")

_log = logging.getLogger("awaken.tool")

# These enforce their own types, more strictly than their schemas can say.
_CHECKS_ITSELF = (FunctionTool, TypedTool, FrontEndTool)
_MAX_NAMES = 40
_TRIED_AGAIN = (ToolErrorKind.RETRY, ToolErrorKind.INVALID_ARGUMENTS)
TOOL_RETRIES_CODE = "tool_retries"
EXHAUSTED = "that was try {count} that did not work: go on without this tool"
STOP_GRACE = 5.0
"""Seconds that a cancelled call has to end before it is abandoned."""


async def execute_tool(
    tools: Mapping[str, Tool], call: ToolCall, ctx: ToolCallContext
) -> ToolOutput:
    """The output of the called tool, or an error result if the tool raises.

    Only two errors are passed on: the cancellation of the task that runs the call, and `RunLeft`,
    which says that another process will finish the call. If a custom tool has no `validate_args`,
    or it returns `None`, the tool gets the arguments as given. They are always checked against its
    schema.
    """
    tool = tools.get(call.name)
    if tool is None:
        return _unknown(call.name, tools)
    try:
        if isinstance(tool, _CHECKS_ITSELF):
            args = tool.validate_args(call.arguments)
        else:
            args = parse_arguments(tool, call.arguments)
        timeout = traits_of(tool).timeout
        if timeout is None:
            output = await tool.execute(args, ctx)
        else:
            output = await within(timeout, partial(tool.execute, args, ctx), ctx)
    except ToolError as error:
        if error.kind in _TRIED_AGAIN and not ctx.in_background:
            return _retry_output(call.name, error, traits_of(tool), ctx)
        return _error_output(call.name, error)
    except RunLeft:
        raise  # a run that the tool waits for goes on in another process, and so does the call
    except BaseException as error:
        if is_cancellation(error):
            raise
        _log.exception("tool %r failed in call %r", call.name, call.id)
        if isinstance(error, asyncio.CancelledError):
            # The call was not cancelled: a task or future that the tool awaited was.
            return _error_output(call.name, ToolError.cancelled("by the tool"))
        why = without_scope(_describe(error), ctx.run_identity.thread_id)
        return _error_output(call.name, ToolError.execution_failed(why))
    if (
        isinstance(tool, _CHECKS_ITSELF)
        and type(output) is ToolOutput
        and isinstance(output.result, ToolResult)
    ):
        return output  # checked, if the function made it itself
    return _check_output(call.name, output)


def parse_arguments(tool: Tool, given: Json) -> Any:
    """The arguments, validated by the tool and checked against its schema."""
    exact = checks_itself(tool)
    if not exact:
        given = as_object(given)
    elif given is None:
        given = {}
    validate = getattr(tool, "validate_args", None)
    decoded = None if validate is None else validate(given)
    if not exact:
        check_arguments(tool.descriptor(), given)
    return given if decoded is None else decoded


def checks_itself(tool: Tool) -> bool:
    """Whether a tool, or the one it wraps, validates its arguments with types of its own."""
    return isinstance(tool, _CHECKS_ITSELF) or getattr(tool, "checks_itself", False) is True


# -- calls with a timeout ---------------------------------------------------------------------


async def within(seconds: float, work: Callable[[], Awaitable[T]], ctx: ToolCallContext) -> T:
    """Run a call's work with a timeout; returns what it returns, raises what it raises.

    The work runs in a task of its own, so that code which swallows its cancellation can be
    abandoned. A value that it returns while it is being cancelled still counts.

    Raises:
        ToolError: the work took longer, or never began because no thread was free in time.
    """
    task = start_task(_catch(work))
    try:
        await asyncio.wait((task,), timeout=seconds)
        in_time = task.done()
        if not in_time:
            task.cancel()
            await asyncio.wait((task,), timeout=STOP_GRACE)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait((task,), timeout=STOP_GRACE)
        if isinstance(error := _outcome(task)[1], NotStarted):
            raise error from None
        raise
    finally:
        if not task.done():
            _abandon(task, ctx)
    value, error = _outcome(task)
    if error is None:
        returned: T = value
        return returned
    if isinstance(error, NotStarted):
        raise ToolError.execution_failed(f"{error}, and waited {seconds:g} seconds")
    if in_time:
        raise error
    raise ToolError.timeout(f"no answer within {seconds:g} seconds") from error


async def _catch(work: Callable[[], Awaitable[T]]) -> tuple[T | None, BaseException | None]:
    # An error is returned as a value: some errors would end the event loop if a task raised them.
    try:
        return await work(), None
    except BaseException as error:
        if isinstance(error, GeneratorExit) and is_cancellation(error):
            raise
        return None, error


def _outcome(
    task: asyncio.Task[tuple[Any, BaseException | None]],
) -> tuple[Any, BaseException | None]:
    """The value that the work returned, and the error that it raised."""
    if not task.done():
        return None, asyncio.CancelledError()
    if task.cancelled():
        # A task that had begun would have returned the cancellation as a value.
        return None, NotStarted("not started")
    return task.result()


_abandoned_calls: set[asyncio.Task[Any]] = set()
"""The tasks of calls that do not stop, until they or their event loop end."""


def _abandon(call: asyncio.Task[Any], ctx: ToolCallContext) -> None:
    def on_done(_: object) -> None:
        _abandoned_calls.discard(call)
        _log.warning("call %r of tool %r, which was abandoned, has ended", ctx.call_id, name)

    name = ctx.tool_name
    _abandoned_calls.add(call)
    call.add_done_callback(on_done)
    _log.warning(
        "call %r of tool %r ignores its cancellation: it is abandoned, and its result will be "
        "dropped; let CancelledError pass, or run the tool isolated",
        ctx.call_id,
        name,
    )


def _check_output(name: str, output: object) -> ToolOutput:
    try:
        if isinstance(output, ToolResult):
            return ToolOutput(parse_result(name, output))
        if isinstance(output, ToolOutput) and isinstance(output.result, ToolResult):
            return ToolOutput(parse_result(name, output.result), output.command)
    except ToolError as error:
        return _error_output(name, error)
    kind = type(output).__name__
    _log.error("tool %r returned a %s instead of a ToolOutput", name, kind)
    return _error_output(
        name, ToolError.internal(f"tool {name!r} returned a {kind}, no ToolOutput")
    )


def _error_output(name: str, error: ToolError) -> ToolOutput:
    if error.kind is ToolErrorKind.TIMEOUT:
        return cut_short_result(name, error, TIMED_OUT)
    return ToolOutput(ToolResult.error(name, clean_text(str(error))))


def _retry_output(
    name: str, error: ToolError, traits: ToolTraits, ctx: ToolCallContext
) -> ToolOutput:
    """The output of a call that the model is to make again; the state counts such calls."""
    counts = ctx.state(TOOL_RETRIES) or {}
    times, text = counts.get(name, 0), str(error)
    command = Command().update(TOOL_RETRIES, name)
    if times >= traits.retries:
        text = f"{text} ({EXHAUSTED.format(count=times + 1)})"
        if traits.stops_exhausted:
            why = StoppedReason(code=TOOL_RETRIES_CODE, detail=f"tool {name!r}: {error.message}")
            ended = Done(reason=f"stopped:{TOOL_RETRIES_CODE}", termination=Stopped(value=why))
            command.update(RUN_LIFECYCLE, ended)
    return ToolOutput(ToolResult.error(name, clean_text(text)), command)


def _unknown(name: str, tools: Mapping[str, Tool]) -> ToolOutput:
    names = sorted(tools)
    available = ", ".join(names[:_MAX_NAMES]) + (", …" if len(names) > _MAX_NAMES else "")
    text = f"tool '{name}' not found; available: {available or 'none'}"
    return ToolOutput(ToolResult.error(name, clean_text(text)))


def _describe(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:
        text = "(its text cannot be read)"
    return f"{type(error).__name__}: {text}"
