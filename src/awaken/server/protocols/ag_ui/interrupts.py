"""Questions to the user: interrupts, and calls of tools that the client carries out."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from awaken.codec import Json
from awaken.core.budget import BUDGET_LIMIT
from awaken.core.run import RunWaitingTicket
from awaken.core.suspension import AskedCall, Ticket, ToolCallResume, ToolCallResumeMode
from awaken.server.protocols.ag_ui.wire import ResumeEntry
from awaken.server.protocols.base import BadRequest

T = TypeVar("T")

_APPROVAL: Json = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "reason": {"type": "string", "description": "Why; the model is told."},
        "editedArgs": {
            "type": "object",
            "description": "Arguments to use in place of the model's, all of them.",
        },
    },
    "required": ["approved"],
}
"""The schema of the payload that answers an approval."""


def is_frontend(ticket: AskedCall) -> bool:
    """Whether the call is one of a tool that the client carries out."""
    return (
        ticket.asker is None
        and ticket.resume_mode is ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT
        and ticket.reason == f"tool:{ticket.tool_name}"
    )


def interrupt(ticket: RunWaitingTicket) -> Json:
    """The question as an interrupt; its id is the ticket's key."""
    asks_for_yes = ticket.answer_mode is ToolCallResumeMode.REPLAY_TOOL_CALL
    schema = _APPROVAL if asks_for_yes else ticket.response_schema
    found: dict[str, Any] = {
        "id": ticket.answered_by,
        "reason": _reason(ticket, asks_for_yes=asks_for_yes),
        "message": ticket.message or f"Approve {ticket.tool_name}?",
        "metadata": {
            "toolName": ticket.tool_name,
            "arguments": ticket.arguments,
            "digest": ticket.digest,
        },
    }
    if ticket.reason != BUDGET_LIMIT:  # the model has made no call for it
        found["toolCallId"] = ticket.tool_call_id
    if isinstance(schema, dict):
        found["responseSchema"] = schema
    if ticket.expires_at is not None:
        found["expiresAt"] = _iso(ticket.expires_at)
    if ticket.asker is not None:
        found["subagentRunId"] = ticket.asker.run_id
    return found


def _reason(ticket: AskedCall, *, asks_for_yes: bool) -> str:
    if ticket.reason == BUDGET_LIMIT:
        return "confirmation"
    return "tool_call" if asks_for_yes else "input_required"


def _iso(at_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def decision(ticket: Ticket, entry: ResumeEntry, run_id: str) -> ToolCallResume:
    """The answer to a ticket. If the client sends back the digest of the question that it has
    shown, an answer to another question is refused.

    Raises:
        BadRequest: the answer to an approval says neither yes nor no.
    """
    answer = _decision(ticket, entry)
    sent = (entry.metadata or {}).get("digest")
    digest = sent if isinstance(sent, str) else None
    return msgspec.structs.replace(answer, decision_id=run_id, digest=digest)


def _decision(ticket: Ticket, entry: ResumeEntry) -> ToolCallResume:
    payload = entry.payload
    if entry.is_cancelled:
        return ToolCallResume.deny(_find(payload, "reason", str))
    if ticket.answer_mode is not ToolCallResumeMode.REPLAY_TOOL_CALL:
        return ToolCallResume.approve(payload)
    is_approved = payload if isinstance(payload, bool) else _find(payload, "approved", bool)
    if is_approved is None:
        raise BadRequest(
            f"the answer to interrupt {ticket.key!r} says neither yes nor no: send the payload "
            '{"approved": true} or {"approved": false}',
            code="bad_answer",
        )
    reason = _find(payload, "reason", str)
    if not is_approved:
        return ToolCallResume.deny(reason)
    edited = _find(payload, "editedArgs", dict)
    if edited is not None:
        return ToolCallResume.edit(edited, reason=reason)
    return ToolCallResume.approve(reason=reason)


def _find(payload: Json, name: str, type_: type[T]) -> T | None:
    found = payload.get(name) if isinstance(payload, dict) else None
    return found if isinstance(found, type_) else None
