"""Calls that wait for somebody: tickets, decisions, and the states of a call."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

import msgspec

from awaken.codec import Json
from awaken.domain.value import Value, nullable


class ToolCallStatus(StrEnum):
    """Where a call stands."""

    NEW = "new"
    RUNNING = "running"
    SUSPENDED = "suspended"
    RESUMING = "resuming"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        return self in _TERMINAL

    def can_go_to(self, other: ToolCallStatus) -> bool:
        return self is other or other in _CALL_MOVES[self]


_TERMINAL = frozenset({ToolCallStatus.SUCCEEDED, ToolCallStatus.FAILED, ToolCallStatus.CANCELLED})
_CALL_MOVES: dict[ToolCallStatus, frozenset[ToolCallStatus]] = {
    ToolCallStatus.NEW: frozenset(ToolCallStatus),
    ToolCallStatus.RUNNING: _TERMINAL | {ToolCallStatus.SUSPENDED},
    ToolCallStatus.SUSPENDED: frozenset({ToolCallStatus.RESUMING, ToolCallStatus.CANCELLED}),
    ToolCallStatus.RESUMING: _TERMINAL | {ToolCallStatus.RUNNING, ToolCallStatus.SUSPENDED},
    ToolCallStatus.SUCCEEDED: frozenset(),
    ToolCallStatus.FAILED: frozenset(),
    ToolCallStatus.CANCELLED: frozenset(),
}


class ToolCallResumeMode(StrEnum):
    """What a positive decision means for the call.

    `replay_tool_call` runs it with its own arguments, `use_decision_as_tool_result` takes the
    decision's result as the call's, `pass_decision_to_tool` runs it with that result as arguments.
    """

    REPLAY_TOOL_CALL = "replay_tool_call"
    USE_DECISION_AS_TOOL_RESULT = "use_decision_as_tool_result"
    PASS_DECISION_TO_TOOL = "pass_decision_to_tool"


class ToolCallOutcome(StrEnum):
    """How a call ended, for now."""

    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class ResumedOutcome(StrEnum):
    """How a call ended that had waited for an answer.

    An approver's yes lets it succeed or fail; `denied` is an approver's, or a gate's, no. `expired`
    got no answer in time, `superseded` gave way to a new message of the user, and `cancelled` ended
    with its run.
    """

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DENIED = "denied"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    CANCELLED = "cancelled"


class ResumeAction(StrEnum):
    """Yes or no."""

    RESUME = "resume"
    CANCEL = "cancel"


class Suspension(Value, frozen=True, kw_only=True):
    """What is asked of whom."""

    id: str = msgspec.field(default_factory=str)
    action: str = msgspec.field(default_factory=str)
    message: str = ""
    parameters: Json = None
    response_schema: Json = None


class PendingToolCall(Value, frozen=True, kw_only=True):
    """The call that waits."""

    id: str = msgspec.field(default_factory=str)
    name: str = msgspec.field(default_factory=str)
    arguments: Json = nullable()


class Asker(Value, frozen=True, kw_only=True):
    """The run a call asks for, where it was given a task: the answer goes there.

    `ticket` is the key of that run's own ticket; without one it waits for a message. `agent_id`
    names who has put the question, which may be further down, `reason` and `resume_mode` say of
    what kind it is, and `expires_at` how long it stands.
    """

    thread_id: str
    run_id: str
    agent_id: str
    tool_name: str
    arguments: Json = None
    ticket: str | None = None
    reason: str | None = None
    resume_mode: ToolCallResumeMode = ToolCallResumeMode.REPLAY_TOOL_CALL
    expires_at: int | None = None


class SuspendTicket(Value, frozen=True, kw_only=True):
    """Everything needed to ask, and to go on once answered; without an answer within `expires_in`
    seconds, if that is given, the answer is no. One with an `asker` passes the answer on, be it
    yes or no, and lasts as long as the asker's own."""

    suspension: Suspension = msgspec.field(default_factory=Suspension)
    pending: PendingToolCall = msgspec.field(default_factory=PendingToolCall)
    resume_mode: ToolCallResumeMode = msgspec.field(
        default_factory=lambda: ToolCallResumeMode.REPLAY_TOOL_CALL
    )
    expires_in: float | None = None
    asker: Asker | None = None


class ToolCallResume(Value, frozen=True, kw_only=True):
    """An answer to a suspended call; `by` is who gave it.

    `digest` is that of the ticket it answers: given, it must fit; kept, it always does. `mode` says
    how to take the answer where it is not as the ticket has it.
    """

    decision_id: str = msgspec.field(default_factory=str)
    action: ResumeAction
    result: Json = None
    reason: str | None = None
    updated_at: int = msgspec.field(default_factory=int)
    by: str | None = None
    digest: str | None = None
    mode: ToolCallResumeMode | None = None

    @classmethod
    def approve(
        cls,
        result: Json = None,
        *,
        reason: str | None = None,
        by: str | None = None,
        digest: str | None = None,
        id: str = "",
    ) -> Self:
        """Yes. `result` is the answer itself where the ticket asks for one; a call that is run
        again keeps its own arguments, and its gates and tool may read the result."""
        return cls(
            decision_id=id,
            action=ResumeAction.RESUME,
            result=result,
            reason=reason,
            by=by,
            digest=digest,
        )

    @classmethod
    def edit(
        cls,
        arguments: Json,
        *,
        reason: str | None = None,
        by: str | None = None,
        digest: str | None = None,
        id: str = "",
    ) -> Self:
        """Yes, with other arguments; they are checked like a model's."""
        return cls(
            decision_id=id,
            action=ResumeAction.RESUME,
            result=arguments,
            reason=reason,
            by=by,
            digest=digest,
            mode=ToolCallResumeMode.PASS_DECISION_TO_TOOL,
        )

    @classmethod
    def deny(
        cls,
        reason: str | None = None,
        *,
        by: str | None = None,
        digest: str | None = None,
        id: str = "",
    ) -> Self:
        """No; the model is told the reason."""
        return cls(decision_id=id, action=ResumeAction.CANCEL, reason=reason, by=by, digest=digest)


Decision = tuple[str, ToolCallResume]
"""A call id or suspension id, and the answer."""
