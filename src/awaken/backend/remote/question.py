"""The questions of a remote run, as tickets for an approver.

An answer to the agent's own question is sent to it as a message. A decision about the run's budget
is applied in this process and is not sent to the backend.
"""

from __future__ import annotations

import msgspec

from awaken.codec import Json
from awaken.core.budget import BUDGET_LIMIT, question_of
from awaken.core.identity import RunIdentity
from awaken.core.run import RunRecord, RunWaitingTicket, WaitingReason
from awaken.core.suspension import ToolCallResumeMode
from awaken.core.ticket import Ticket, call_digest
from awaken.errors import BudgetExhausted

_FOR_PEOPLE = (WaitingReason.USER_INPUT, WaitingReason.TOOL_PERMISSION)


def agents_question(record: RunRecord, said: str | None, at_ms: int) -> Ticket | None:
    """The ticket of a waiting run. Returns `None` if the run does not wait for an approver."""
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
    """The ticket that asks whether a run may exceed its budget."""
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
    # Each commit of the record has a new revision and opens at most one ticket, so the key is
    # unique.
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
    """The record of a waiting run, with its ticket added."""
    assert record.waiting is not None, "only what waits asks"
    waiting = msgspec.structs.replace(
        record.waiting, ticket_ids=(question.ticket_id,), tickets=(RunWaitingTicket.of(question),)
    )
    return msgspec.structs.replace(record, waiting=waiting)
