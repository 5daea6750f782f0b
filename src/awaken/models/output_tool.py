"""Structured output for models that do not support it natively: they call a tool instead.

The listener gets text, as if the model had written the object itself.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator

import msgspec

from awaken.codec import Json
from awaken.core.answer_stream import close
from awaken.core.event import TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.inference import OutputFormat, StopReason
from awaken.core.llm import (
    ContentBlockStop,
    InferenceRequest,
    InvalidRequest,
    LlmExecutor,
    LlmStreamEvent,
    Stop,
    ToolCallSigned,
)
from awaken.core.tool import ToolDescriptor
from awaken.models.learned_settings import retry_if_refused
from awaken.models.wrapper import ExecutorWrapper

OUTPUT_TOOL = "final_answer"
_ABOUT_SCHEMAS = re.compile(
    r"response[ _]format|json[ _]schema|structured output|output_(config|format)", re.IGNORECASE
)
_DESCRIPTION = (
    "Give your final answer by calling this tool, once, when you need no other tool any more. "
    "Do not write the answer as text."
)


class OutputTool(ExecutorWrapper[LlmExecutor]):
    """Wraps an executor, and offers the output schema as a tool if its model needs that.

    A server that refuses the schema is asked again with the tool, and from then on only so.
    """

    def __init__(self, inner: LlmExecutor) -> None:
        super().__init__(inner)
        self._refused: set[str] = set()

    def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        if request.output is None:
            return self._inner.execute_stream(request)
        if not self._is_native(request):
            return self._with_tool(request)

        def again(error: InvalidRequest) -> AsyncIterator[LlmStreamEvent] | None:
            if not _ABOUT_SCHEMAS.search(str(error)):
                return None
            self._refused.add(request.upstream_model)
            return self._with_tool(request)

        return retry_if_refused(self._inner.execute_stream(request), again)

    def preview(self, request: InferenceRequest) -> Json:
        return super().preview(request if self._is_native(request) else with_output_tool(request))

    def _is_native(self, request: InferenceRequest) -> bool:
        model = request.upstream_model
        if request.output is None:
            return True
        return model not in self._refused and self.abilities(model).native_output

    async def _with_tool(self, request: InferenceRequest) -> AsyncGenerator[LlmStreamEvent, None]:
        asked = with_output_tool(request)
        reading = _Reading(asked.tools[-1].id)
        stream = self._inner.execute_stream(asked)
        try:
            async for event in stream:
                for heard in reading.read(event):
                    yield heard
        finally:
            await close(stream)


def with_output_tool(request: InferenceRequest) -> InferenceRequest:
    """The request with a tool in place of its output format; that tool is the last one."""
    output = request.output
    if output is None:
        return request
    tool = _as_tool(_free_name(request), output)
    return msgspec.structs.replace(request, output=None, tools=(*request.tools, tool))


class _Reading:
    """Turns calls of the output tool into text, and passes other events on."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._ids: set[str] = set()
        self._others = self._written = False

    def read(self, event: LlmStreamEvent) -> tuple[LlmStreamEvent, ...]:
        match event:
            case ToolCallStart(id=id, name=name):
                if name != self._name:
                    self._others = True
                    self._ids.discard(id)
                    return (event,)
                self._ids.add(id)
                return (ContentBlockStop(),)
            case ToolCallDelta(id=id, args_delta=delta) if id in self._ids:
                self._written = self._written or bool(delta)
                return (TextDelta(delta=delta),) if delta else ()
            case ToolCallSigned(id=id) if id in self._ids:
                return ()
            case Stop(reason=StopReason.TOOL_USE) if self._ids and not self._others:
                end = Stop(reason=StopReason.END_TURN)
                return (end,) if self._written else (TextDelta(delta="{}"), end)
            case _:
                return (event,)


def _as_tool(name: str, output: OutputFormat) -> ToolDescriptor:
    described = f"{_DESCRIPTION} {output.description}" if output.description else _DESCRIPTION
    return ToolDescriptor(id=name, name=name, description=described, parameters=output.schema)


def _free_name(request: InferenceRequest) -> str:
    taken = {tool.id for tool in request.tools}
    name = OUTPUT_TOOL
    while name in taken:
        name += "_"
    return name
