"""Asking an approver before a tool runs."""

from __future__ import annotations

from awaken.codec import Json
from awaken.core.suspension import (
    PendingToolCall,
    ResumeAction,
    SuspendTicket,
    Suspension,
    ToolCallResume,
)
from awaken.core.tool import ToolError, ToolResult
from awaken.core.tool_context import ToolCallContext


def ask_for_approval(
    tool: str, arguments: Json, ctx: ToolCallContext, *, expires_in: float | None = None
) -> ToolResult:
    """The result of a call that waits until an approver has answered."""
    question = question_of(tool)
    ticket = SuspendTicket(
        suspension=Suspension(
            id=f"approval_{ctx.call_id}",
            action=f"tool:{tool}",
            message=question,
            parameters=arguments,
        ),
        pending=PendingToolCall(id=ctx.call_id, name=tool, arguments=arguments),
        expires_in=expires_in,
    )
    return ToolResult.suspended_with(tool, question, ticket)


def question_of(tool: str) -> str:
    """The question to the approver of a call."""
    return f"Approve {tool}?"


def check_approved(tool: str, decision: ToolCallResume) -> None:
    """
    Raises:
        ToolError: the approver said no.
    """
    if decision.action is not ResumeAction.RESUME:
        raise ToolError.denied(decision.reason or f"{tool} was not approved")
