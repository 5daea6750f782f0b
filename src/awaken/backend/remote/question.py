"""The questions of a run elsewhere, as tickets that somebody can answer.

What the agent itself asks is answered by a message to it; whether the run may use up more is
decided here, and never told to the other side.
"""

from __future__ import annotations

import msgspec

from awaken.codec import Json
from awaken.domain.budget import BUDGET_LIMIT, question_of
from awaken.domain.identity import RunIdentity
from awaken.domain.run import RunRecord, RunWaitingTicket, WaitingReason
from awaken.domain.suspension import ToolCallResumeMode
from awaken.domain.ticket import Ticket, call_digest
from awaken.errors import BudgetExhausted

_FOR_PEOPLE = (WaitingReason.USER_INPUT, WaitingReason.TOOL_PERMISSION)


def agents_question(record: RunRecord, said: str | None, at_ms: int) -> Ticket | None:
    """What a run that waits asks somebody; nothing if it waits for no person."""
    waiting = record.waiting
    if waiting is None or waiting.reason not in _FOR_PEOPLE:
        return None
    return _ticket(
        record.run_id,
        record.thread_id,
        record.revision,
        at_ms,
        tool_name=record.agent_id,
        reason=waiting.message,
        message=said or f"agent '{record.agent_id}' waits for an answer",
        resume_mode=ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT,
    )


def budget_question(
    identity: RunIdentity, revision: int, error: BudgetExhausted, at_ms: int
) -> Ticket:
    """Whether a run may use up more."""
    return _ticket(
        identity.run_id,
        identity.thread_id,
        revision,
        at_ms,
        tool_name="budget",
        arguments=question_of(error),
        reason=BUDGET_LIMIT,
        message=f"{error}. Allow more?",
    )


def _ticket(
    run_id: str,
    thread_id: str,
    revision: int,
    at_ms: int,
    *,
    tool_name: str,
    arguments: Json = None,
    reason: str | None,
    message: str,
    resume_mode: ToolCallResumeMode = ToolCallResumeMode.REPLAY_TOOL_CALL,
) -> Ticket:
    # Every stand of a record is another one, and no more than one question is put with it.
    key = f"{run_id}:question-{revision}"
    return Ticket(
        key=key,
        thread_id=thread_id,
        run_id=run_id,
        ticket_id=key,
        call_id=key,
        tool_name=tool_name,
        digest=call_digest(key, tool_name, arguments),
        asked_at=at_ms,
        arguments=arguments,
        resume_mode=resume_mode,
        reason=reason,
        message=message,
    )


def asking(record: RunRecord, question: Ticket) -> RunRecord:
    """The record of a run that waits, with its question."""
    assert record.waiting is not None, "only what waits asks"
    waiting = msgspec.structs.replace(
        record.waiting, ticket_ids=(question.ticket_id,), tickets=(RunWaitingTicket.of(question),)
    )
    return msgspec.structs.replace(record, waiting=waiting)
