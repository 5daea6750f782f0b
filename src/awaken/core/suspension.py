"""Suspended tool calls: their questions, the answers to them, and the status of a call.

A ticket is a question that waits for an approver, or that was answered.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Self

import msgspec

from awaken.codec import Json, digest
from awaken.core.value import Value, nullable


class ToolCallStatus(StrEnum):
    """The status of a tool call."""

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
    """What happens to a suspended call after a yes.

    `replay_tool_call` runs it with its own arguments, `use_decision_as_tool_result` makes the
    answer's result the result of the call, and `pass_decision_to_tool` runs the call with the
    answer's result as its arguments.
    """

    REPLAY_TOOL_CALL = "replay_tool_call"
    USE_DECISION_AS_TOOL_RESULT = "use_decision_as_tool_result"
    PASS_DECISION_TO_TOOL = "pass_decision_to_tool"


class ToolCallOutcome(StrEnum):
    """How a call ended, or that it is suspended. `denied`: a gate refused it."""

    SUSPENDED = "suspended"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DENIED = "denied"


class ResumedOutcome(StrEnum):
    """How a suspended call ended.

    After an approver's yes it `succeeded` or `failed`. It was `denied` by an approver or a gate.
    It `expired` without an answer, was `superseded` by a new message of the user, or was
    `cancelled` with its run.
    """

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DENIED = "denied"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    CANCELLED = "cancelled"


# -- questions and answers --------------------------------------------------------------------


class Suspension(Value, frozen=True, kw_only=True):
    """The question that a suspended call asks."""

    id: str = msgspec.field(default_factory=str)
    action: str = msgspec.field(default_factory=str)
    message: str = ""
    parameters: Json = None
    response_schema: Json = None


class PendingToolCall(Value, frozen=True, kw_only=True):
    """The call that is suspended."""

    id: str = msgspec.field(default_factory=str)
    name: str = msgspec.field(default_factory=str)
    arguments: Json = nullable()


class Asker(Value, frozen=True, kw_only=True):
    """The delegate's run on whose behalf a call asks a question; the answer goes to that run.

    `ticket` is the key of that run's own ticket; without one the run waits for a message.
    `agent_id` is the agent that asked the question, which may be further down the tree. `reason`,
    `resume_mode` and `expires_at` are those of its question.
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
    """A question, the call that waits for it, and how the call is resumed.

    No answer within `expires_in` seconds counts as a no. A ticket with an `asker` passes the
    answer on to the asker, yes or no, and expires with the asker's own ticket.
    """

    suspension: Suspension = msgspec.field(default_factory=Suspension)
    pending: PendingToolCall = msgspec.field(default_factory=PendingToolCall)
    resume_mode: ToolCallResumeMode = msgspec.field(
        default_factory=lambda: ToolCallResumeMode.REPLAY_TOOL_CALL
    )
    expires_in: float | None = None
    asker: Asker | None = None


class ResumeAction(StrEnum):
    """The answer to a suspended call: `resume` is yes, `cancel` is no."""

    RESUME = "resume"
    CANCEL = "cancel"


class ToolCallResume(Value, frozen=True, kw_only=True):
    """The answer to a suspended call; `by` is the approver.

    If `digest` is given, it must be the digest of the ticket; a stored answer always has it.
    `mode` overrides the resume mode of the ticket. `message_id` is the id that the call's tool
    message gets in the log; a client that has the message already knows it by that id.
    """

    decision_id: str = msgspec.field(default_factory=str)
    action: ResumeAction
    result: Json = None
    reason: str | None = None
    updated_at: int = msgspec.field(default_factory=int)
    by: str | None = None
    digest: str | None = None
    mode: ToolCallResumeMode | None = None
    message_id: str | None = None

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
        """A yes. `result` is the answer itself if the ticket asks for one; else the call runs with
        its own arguments, and its gates and tool may read the result."""
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
        """A yes with other arguments, which are checked like those of a model."""
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
        """A no; the model gets the reason."""
        return cls(decision_id=id, action=ResumeAction.CANCEL, reason=reason, by=by, digest=digest)


Decision = tuple[str, ToolCallResume]
"""A ticket key, call id or suspension id, and the answer."""


def sign_decisions(decisions: Iterable[Decision], by: str) -> tuple[Decision, ...]:
    """The decisions with `by` as their approver, in place of the one they name."""
    return tuple((target, msgspec.structs.replace(one, by=by)) for target, one in decisions)


# -- tickets ----------------------------------------------------------------------------------


class AskedCall(Value, frozen=True, kw_only=True):
    """A suspended call as an approver sees it, whether it is read from a store (`Ticket`) or from
    the record of the run that waits (`RunWaitingTicket`).

    `key` is unique: the call's key in the ledger and, if the call asks again, the number of the
    question. `ticket_id` comes from the tool and may repeat in other turns. An answer that names
    the `digest` is refused if the question has changed since. With an `asker`, `tool_name` and
    `arguments` are those of the call in that run. `expires_at` is in milliseconds. `message` is the
    question in words, `response_schema` the JSON schema of an answer, if the tool gave them.
    """

    key: str | None = None
    ticket_id: str
    tool_name: str
    arguments: Json = None
    resume_mode: ToolCallResumeMode = ToolCallResumeMode.REPLAY_TOOL_CALL
    reason: str | None = None
    digest: str | None = None
    expires_at: int | None = None
    asker: Asker | None = None
    message: str | None = None
    response_schema: Json = None

    @property
    def answered_by(self) -> str:
        """The name to answer the question by: its key, if it has one."""
        return self.key or self.ticket_id

    @property
    def answer_mode(self) -> ToolCallResumeMode:
        """What becomes of the answer: as the call says, or the call of the run that asks."""
        return self.resume_mode if self.asker is None else self.asker.resume_mode

    def __hash__(self) -> int:
        """Tickets can be keys of `answers`; their arguments alone could not be hashed."""
        return hash(self.key)


class TicketStatus(StrEnum):
    """A ticket is open until it is answered, once, or until its answer is no longer needed."""

    OPEN = "open"
    ANSWERED = "answered"
    EXPIRED = "expired"
    CLOSED = "closed"


class Ticket(AskedCall, frozen=True, kw_only=True):
    """A suspended call as stores keep it, with its place and its answer.

    `call_id` comes from the model and may repeat in other turns. `digest` is the `call_digest` of
    tool, arguments and run. `parameters` is the JSON schema of the tool, so that every node can
    check edited arguments; a ticket with an `asker` leaves it to the asker's own ticket.
    """

    key: str
    thread_id: str
    run_id: str
    call_id: str
    digest: str
    asked_at: int
    status: TicketStatus = TicketStatus.OPEN
    decision: ToolCallResume | None = None
    parameters: Json = None

    def answers_to(self, target: str) -> bool:
        """Whether `target` is the ticket's key, ticket id or call id."""
        return target in (self.key, self.ticket_id, self.call_id)

    def is_bound(self, target: str, answer: ToolCallResume) -> bool:
        """Whether an answer to `target` can only mean this question.

        A key names one question. Ticket and call ids may repeat in other turns: an answer to one of
        them needs a digest, which says what the approver has seen.
        """
        return target == self.key or bool(answer.digest)


# -- digests of questions ---------------------------------------------------------------------


_EARLIER_LENGTH = 16
"""How many characters a digest had in earlier versions, whose tickets may still be open."""


def is_digest_of(given: str, digest: str) -> bool:
    """Whether `given` is that digest, or the shorter one earlier versions gave the question."""
    return given == digest or (len(given) == _EARLIER_LENGTH and digest.startswith(given))


def call_digest(run_id: str, tool_name: str, arguments: Json) -> str:
    """The digest that binds an approval to this tool, with these arguments, in this run."""
    return digest([run_id, tool_name, arguments])
