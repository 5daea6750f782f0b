"""Tickets, decisions and the states of a call (01 §1.7)."""

from __future__ import annotations

import msgspec
import pytest

from awaken.codec import dumps, from_json, loads, to_json
from awaken.core.suspension import (
    PendingToolCall,
    ResumeAction,
    SuspendTicket,
    Suspension,
    ToolCallOutcome,
    ToolCallResume,
    ToolCallResumeMode,
    ToolCallStatus,
)
from awaken.core.tool import ToolStatus

EVERY = "new running suspended resuming succeeded failed cancelled"


def test_call_status_moves_only_as_the_table_says() -> None:
    """01/C-11: new to any; suspended not to running, succeeded or failed; running not to resuming;
    a status may always move to itself."""
    table = {
        "new": EVERY,
        "running": "running suspended succeeded failed cancelled",
        "suspended": "suspended resuming cancelled",
        "resuming": "resuming running suspended succeeded failed cancelled",
        "succeeded": "succeeded",
        "failed": "failed",
        "cancelled": "cancelled",
    }

    for status in ToolCallStatus:
        moves = {other.value for other in ToolCallStatus if status.can_go_to(other)}
        assert moves == set(table[status.value].split())


def test_three_call_statuses_are_terminal() -> None:
    """01/C-11: succeeded, failed and cancelled."""
    terminal = {status.value for status in ToolCallStatus if status.is_terminal}

    assert terminal == {"succeeded", "failed", "cancelled"}


def test_a_resume_without_result_and_reason_writes_neither() -> None:
    """01/C-12: both keys are absent; the others have no omit mark and are always written."""
    resume = ToolCallResume(action=ResumeAction.CANCEL)

    assert to_json(resume) == {"decision_id": "", "action": "cancel", "updated_at": 0}


def test_a_full_resume_round_trips() -> None:
    """01/C-12: result and reason are written when they are there."""
    resume = ToolCallResume(
        decision_id="d1",
        action=ResumeAction.RESUME,
        result={"approved": True},
        reason="looks fine",
        updated_at=123,
    )

    assert to_json(resume)["reason"] == "looks fine"
    assert loads(dumps(resume), ToolCallResume) == resume


def test_a_resume_needs_an_action() -> None:
    with pytest.raises(msgspec.ValidationError, match="action"):
        from_json({"decision_id": "d1"}, ToolCallResume)


def test_approve_and_deny_are_short_for_resume_and_cancel() -> None:
    assert ToolCallResume.approve({"x": 1}, id="d1") == ToolCallResume(
        decision_id="d1", action=ResumeAction.RESUME, result={"x": 1}
    )
    assert ToolCallResume.deny("no") == ToolCallResume(action=ResumeAction.CANCEL, reason="no")


def test_an_empty_ticket_reads_and_writes_its_defaults() -> None:
    ticket = from_json({}, SuspendTicket)

    assert ticket == SuspendTicket()
    assert to_json(ticket) == {
        "suspension": {"id": "", "action": ""},
        "pending": {"id": "", "name": "", "arguments": None},
        "resume_mode": "replay_tool_call",
    }


def test_a_full_ticket_round_trips() -> None:
    ticket = SuspendTicket(
        suspension=Suspension(
            id="s1",
            action="confirm",
            message="sure?",
            parameters={"path": "/"},
            response_schema={"type": "object"},
        ),
        pending=PendingToolCall(id="c1", name="rm", arguments={"path": "/"}),
        resume_mode=ToolCallResumeMode.PASS_DECISION_TO_TOOL,
    )

    assert loads(dumps(ticket), SuspendTicket) == ticket
    assert to_json(ticket)["resume_mode"] == "pass_decision_to_tool"


def test_the_outcome_of_a_call_follows_the_status_of_its_result() -> None:
    assert {status.value: status.outcome for status in ToolStatus} == {
        "success": ToolCallOutcome.SUCCEEDED,
        "pending": ToolCallOutcome.SUSPENDED,
        "error": ToolCallOutcome.FAILED,
    }
