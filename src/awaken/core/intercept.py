"""The decisions of gates and policies about a tool call."""

from __future__ import annotations

from awaken.codec import Json
from awaken.core.identity import Adapter, RunMode
from awaken.core.suspension import SuspendTicket, Suspension
from awaken.core.tool import ToolKind, ToolResult
from awaken.core.value import Value


class Block(Value, frozen=True, kw_only=True):
    """Refuse the call and end the run."""

    reason: str


class Suspend(Value, frozen=True, kw_only=True):
    """Suspend the call until an approver decides.

    After a yes the gates are called again: the same ticket counts as answered, a ticket with
    another suspension id is a further question.
    """

    ticket: SuspendTicket

    @classmethod
    def ask(
        cls,
        message: str,
        *,
        id: str = "",
        response_schema: Json = None,
        expires_in: float | None = None,
    ) -> Suspend:
        """Ask an approver `message`; after a yes the call runs with its own arguments.

        No answer within `expires_in` seconds counts as a no.
        """
        suspension = Suspension(id=id, message=message, response_schema=response_schema)
        return cls(ticket=SuspendTicket(suspension=suspension, expires_in=expires_in))


class SetResult(Value, frozen=True, kw_only=True):
    """Use this result and do not run the tool."""

    result: ToolResult


ToolInterceptPayload = Block | Suspend | SetResult


def priority(payload: ToolInterceptPayload) -> int:
    """The rank of a decision: of several gates' decisions the highest one counts."""
    return 3 if isinstance(payload, Block) else 2 if isinstance(payload, Suspend) else 1


def intercept_to_json(payload: ToolInterceptPayload) -> Json:
    """The externally tagged wire form: `{"Block": {"reason": …}}`."""
    match payload:
        case Block(reason=reason):
            return {"Block": {"reason": reason}}
        case Suspend(ticket=ticket):
            return {"Suspend": ticket}
        case SetResult(result=result):
            return {"SetResult": result}


class Allow(Value, frozen=True, kw_only=True):
    """Let the call pass."""


class AuditOnly(Value, frozen=True, kw_only=True):
    """Let the call pass; the policy only wanted to see it."""


class Deny(Value, frozen=True, kw_only=True):
    """Refuse the call and end the run."""

    reason: str


class ReplaceResult(Value, frozen=True, kw_only=True):
    """Use this result and do not run the tool."""

    result: ToolResult


ToolPolicyDecision = Allow | AuditOnly | Deny | Suspend | ReplaceResult


def policy_payload(decision: ToolPolicyDecision) -> ToolInterceptPayload | None:
    """A policy's decision as a gate's, or `None` if the call may pass."""
    match decision:
        case Deny(reason=reason):
            return Block(reason=reason)
        case Suspend():
            return decision
        case ReplaceResult(result=result):
            return SetResult(result=result)
        case _:
            return None


class ToolPolicyContext(Value, frozen=True, kw_only=True):
    """The tool call that a policy decides about."""

    thread_id: str
    run_id: str
    dispatch_id: str | None = None
    run_mode: RunMode
    adapter: Adapter
    tool_name: str
    tool_kind: ToolKind
    arguments: Json
