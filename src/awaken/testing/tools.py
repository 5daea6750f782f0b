"""Tools whose results tests can recognise."""

from __future__ import annotations

from awaken.codec import Json
from awaken.core.tool import ToolDescriptor, ToolResult
from awaken.core.tool_context import ToolCallContext, ToolOutput


class EchoTool:
    """Returns its arguments, with a message that differs from every other answer."""

    def descriptor(self) -> ToolDescriptor:
        return ToolDescriptor(id="echo", name="echo", description="Echoes input back")

    def validate_args(self, args: Json) -> Json:
        return args

    async def execute(self, args: Json, ctx: ToolCallContext) -> ToolOutput:
        return ToolOutput(
            ToolResult.success_with_message("echo", args, "tool result should not win")
        )


class CustomCancelTool:
    """A user's own `cancel_task`, which must replace the built-in one; counts its `calls`."""

    def __init__(self) -> None:
        self.calls = 0

    def descriptor(self) -> ToolDescriptor:
        return ToolDescriptor(
            id="cancel_task", name="cancel_task", description="custom cancel task tool"
        )

    def validate_args(self, args: Json) -> Json:
        return args

    async def execute(self, args: Json, ctx: ToolCallContext) -> ToolOutput:
        self.calls += 1
        return ToolOutput(
            ToolResult.success_with_message("cancel_task", args, "custom cancel handled")
        )
