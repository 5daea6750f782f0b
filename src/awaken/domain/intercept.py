"""What a gate or a policy may say about a call."""

from __future__ import annotations

from awaken.codec import Json
from awaken.domain.identity import Adapter, RunMode
from awaken.domain.suspension import SuspendTicket, Suspension
from awaken.domain.tool import ToolKind, ToolResult
from awaken.domain.value import Value


class Block(Value, frozen=True, kw_only=True):
    """Refuse the call and end the run."""

    reason: str


class Suspend(Value, frozen=True, kw_only=True):
    """Hold the call until somebody decides.

    Once that was a yes, the gates are asked again: the same ticket counts as answered, one with
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
        """Ask somebody `message`; the call runs with its own arguments if the answer is yes.

        No answer within `expires_in` seconds is a no.
        """
        suspension = Suspension(id=id, message=message, response_schema=response_schema)
        return cls(ticket=SuspendTicket(suspension=suspension, expires_in=expires_in))


class SetResult(Value, frozen=True, kw_only=True):
    """Answer in the tool's place."""

    result: ToolResult


ToolInterceptPayload = Block | Suspend | SetResult


def priority(payload: ToolInterceptPayload) -> int:
    """The higher one wins."""
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
    """Let the call pass; somebody only wanted to see it."""


class Deny(Value, frozen=True, kw_only=True):
    """Refuse the call and end the run."""

    reason: str


class ReplaceResult(Value, frozen=True, kw_only=True):
    """Answer in the tool's place."""

    result: ToolResult


ToolPolicyDecision = Allow | AuditOnly | Deny | Suspend | ReplaceResult


def policy_payload(decision: ToolPolicyDecision) -> ToolInterceptPayload | None:
    """What a policy's decision means at the gate."""
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
    """What a policy is told of a call."""

    thread_id: str
    run_id: str
    dispatch_id: str | None = None
    run_mode: RunMode
    adapter: Adapter
    tool_name: str
    tool_kind: ToolKind
    arguments: Json
