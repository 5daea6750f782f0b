"""Tools that run in the user's front end: the call waits for the front end's answer."""

from __future__ import annotations

from awaken.codec import Json
from awaken.core.schema import as_object, check_arguments
from awaken.core.suspension import (
    PendingToolCall,
    SuspendTicket,
    Suspension,
    ToolCallResume,
    ToolCallResumeMode,
)
from awaken.core.tool import ToolDescriptor, ToolResult
from awaken.core.tool_context import ToolCallContext, ToolOutput


class FrontEndTool:
    """A tool that has only a descriptor: the call suspends, and the answer becomes its result."""

    def __init__(self, descriptor: ToolDescriptor) -> None:
        self._descriptor = descriptor

    def descriptor(self) -> ToolDescriptor:
        return self._descriptor

    def validate_args(self, args: Json) -> Json:
        """Returns the arguments unchanged; null is read as `{}`.

        Raises:
            ToolError: they are not an object, or do not fit the descriptor's schema.
        """
        given = as_object(args)
        check_arguments(self._descriptor, given)
        return given

    def only_asks(self, args: Json, decision: ToolCallResume | None) -> bool:
        return decision is None

    async def execute(self, args: Json, ctx: ToolCallContext) -> ToolOutput:
        """A suspension that carries `args`; after the resume, the decision's result unchanged."""
        described = self._descriptor
        if ctx.resume_input is not None:
            return ToolOutput(ToolResult.success(described.name, ctx.resume_input.result))
        pending_id = ctx.call_id if ctx.call_id.strip() else described.id
        ticket = SuspendTicket(
            suspension=Suspension(
                id=f"suspend_{pending_id}", action=f"tool:{described.id}", parameters=args
            ),
            pending=PendingToolCall(id=pending_id, name=described.id, arguments=args),
            resume_mode=ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT,
        )
        waiting = f"{described.name} waits for the front end"
        return ToolOutput(ToolResult.suspended_with(described.name, waiting, ticket))
