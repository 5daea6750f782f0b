"""Functions as an agent's output: the model's last act is a call of one of them."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from awaken.codec import Json, dumps_text, loads
from awaken.core.inference import OutputFormat
from awaken.core.lifecycle import NATURAL_END
from awaken.core.state.command import Command
from awaken.core.state.run_keys import FINAL_OUTPUT, RUN_LIFECYCLE, Done
from awaken.core.suspension import ToolCallResume
from awaken.core.tool import ToolDescriptor, ToolError, ToolStatus
from awaken.core.tool_context import ToolCallContext, ToolOutput, ToolTraits
from awaken.errors import ConfigError
from awaken.runtime.agent_arguments import check_function
from awaken.runtime.output import OutputType
from awaken.tool import FunctionTool
from awaken.tool import tool as as_tool
from awaken.tool.output import to_output

C = TypeVar("C")


class OutputFunction:
    """A tool whose successful call ends the run; what its function returns is the output."""

    checks_itself = True

    def __init__(self, inner: FunctionTool[Any, Any]) -> None:
        self.inner = inner
        # One after another, so that a second call in the same step sees that the run has ended.
        self.traits: ToolTraits = replace(inner.traits, sequential=True)
        described = inner.descriptor()
        ends = f"{described.description} Calling this ends your work.".strip()
        self._descriptor = replace(described, description=ends)

    def descriptor(self) -> ToolDescriptor:
        return self._descriptor

    def validate_args(self, args: Json) -> Any:
        return self.inner.validate_args(args)

    async def execute(self, args: Any, ctx: ToolCallContext) -> ToolOutput:
        if ctx.state(FINAL_OUTPUT):
            raise ToolError.denied("the run has its output already")
        return self._end_run(await self.inner.execute(args, ctx))

    def _end_run(self, output: ToolOutput) -> ToolOutput:
        """The output, with the changes that end the run if the call has succeeded."""
        if output.result.status is not ToolStatus.SUCCESS:
            return output
        text = dumps_text({self._descriptor.id: output.result.data})
        command = output.command or Command()
        command.update(FINAL_OUTPUT, text)
        command.update(RUN_LIFECYCLE, Done(reason="natural", termination=NATURAL_END))
        return ToolOutput(output.result, command)

    def only_asks(self, args: Json, decision: ToolCallResume | None) -> bool:
        return self.inner.only_asks(args, decision)

    async def verify(self, ctx: ToolCallContext) -> Any:
        """What the function's `verify` returns; a call that happened ends the run."""
        answer = await self.inner.verify(ctx)
        if answer is None or answer is False:
            return answer
        name = self._descriptor.id
        return self._end_run(to_output(name, None if answer is True else answer))


class FunctionsOutput:
    """The shape of an output that is a call of a function: what the function returns, read into the
    type that its annotation names."""

    format: OutputFormat | None = None

    def __init__(self, owner: str, functions: Sequence[Any]) -> None:
        made = [one if isinstance(one, FunctionTool) else as_tool(one) for one in functions]
        self.tools = [OutputFunction(one) for one in made]
        self._types = {one.descriptor().id: _find_return_type(owner, one) for one in made}

    def read(self, text: str) -> Any:
        """The value that a function returned.

        Raises:
            ValueError: the text is not that of a call.
        """
        try:
            ((name, value),) = loads(text).items()
        except Exception as error:
            raise ValueError(f"it is no call of {self._names}") from error
        type_ = self._types.get(name)
        return value if type_ is None else type_.from_data(value)

    def problem(self, text: str) -> str | None:
        """Why a text is not the output: always, since the model is to call a function instead."""
        return f"give your answer by calling {self._names}, not as text"

    def partial(self, value: Any) -> Any:
        return None

    @property
    def _names(self) -> str:
        return " or ".join(self._types)


def output_of(owner: str, output: Any) -> OutputType | FunctionsOutput | None:
    """The shape of an agent's `output`, which is a type or a list of functions; `None` if it is
    plain text."""
    if output is None:
        return None
    if isinstance(output, list | tuple) and all(callable(one) for one in output):
        return FunctionsOutput(owner, output)
    return OutputType(owner, output)


def parse_output_check(check: C, shape: OutputType | FunctionsOutput | None, mine: str) -> C:
    """
    Raises:
        ConfigError: it is no function of the context and the value, or the output is made by
            functions, which check it themselves.
    """
    if check is not None:
        check_function(check, f"{mine}output_check", takes="the run's context, the value")
        if isinstance(shape, FunctionsOutput):
            raise ConfigError(f"{mine}output functions check their own output: raise Retry there")
    return check


def _find_return_type(owner: str, function: FunctionTool[Any, Any]) -> OutputType | None:
    """The type that a function's annotation says it returns; `None` if it says none that can be
    read back."""
    plain = inspect.unwrap(function)
    try:
        type_ = typing.get_type_hints(plain).get("return")
        return None if type_ in (None, type(None), Any) else OutputType(owner, type_)
    except (ConfigError, NameError, TypeError):
        return None
