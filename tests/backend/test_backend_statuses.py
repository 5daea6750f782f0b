"""How a run elsewhere stands, and what that means here (02 §2.6, §2.11, §2.15)."""

from __future__ import annotations

import pytest

from awaken.backend import BackendRunStatus, BackendStatusKind, map_termination
from awaken.core.lifecycle import (
    BEHAVIOR_REQUESTED,
    CANCELLED,
    NATURAL_END,
    SUSPENDED_END,
    Blocked,
    Failed,
    RunStatus,
    Stopped,
    StoppedReason,
    TerminationReason,
)
from awaken.core.run import WaitingReason

WAITING, DONE = RunStatus.WAITING, RunStatus.DONE
STOPPED = Stopped(value=StoppedReason(code="max_rounds"))
EVERY_END: list[TerminationReason] = [
    NATURAL_END,
    BEHAVIOR_REQUESTED,
    CANCELLED,
    Blocked(value="no"),
    Failed(value="should not win"),
    STOPPED,
    SUSPENDED_END,
]


# -- the seeds --------------------------------------------------------------------------------


def test_backend_status_timeout_is_first_class_at_runtime_boundary() -> None:
    """02/B1 [S]: a timeout is done, for the reason `timeout`, whatever the termination says."""
    status = BackendRunStatus.timeout()
    termination = Failed(value="polling timeout exceeded")

    assert status.durable_run_status(termination) is RunStatus.DONE
    assert status.durable_status_reason(termination) == "timeout"
    assert status.result_status_label(termination) == "timeout"


def test_backend_status_waiting_is_first_class_at_runtime_boundary() -> None:
    """02/B2 [S]: waiting for input wins over an error beside it."""
    status = BackendRunStatus.waiting_input("need details")
    termination = Failed(value="should not win")

    assert status.durable_run_status(termination) is RunStatus.WAITING
    assert status.durable_status_reason(termination) == "input_required"
    assert status.result_status_label(termination) == "waiting_input"


# -- the tables -------------------------------------------------------------------------------

ROWS = [
    (BackendRunStatus.waiting_input(), "waiting_input", WAITING, "input_required"),
    (BackendRunStatus.waiting_input("city?"), "waiting_input: city?", WAITING, "input_required"),
    (BackendRunStatus.waiting_auth(), "waiting_auth", WAITING, "auth_required"),
    (BackendRunStatus.waiting_auth("sign in"), "waiting_auth: sign in", WAITING, "auth_required"),
    (BackendRunStatus.suspended(), "suspended", WAITING, "suspended"),
    (BackendRunStatus.suspended("approve"), "suspended: approve", WAITING, "suspended"),
    (BackendRunStatus.failed("boom"), "failed: boom", DONE, "error"),
    (BackendRunStatus.failed(""), "failed: ", DONE, "error"),
    (BackendRunStatus.cancelled(), "cancelled", DONE, "cancelled"),
    (BackendRunStatus.timeout(), "timeout", DONE, "timeout"),
]


@pytest.mark.parametrize(("status", "display", "run_status", "reason"), ROWS)
@pytest.mark.parametrize("termination", EVERY_END)
def test_every_status_but_completed_wins_over_the_termination(
    status: BackendRunStatus,
    display: str,
    run_status: RunStatus,
    reason: str,
    termination: TerminationReason,
) -> None:
    """02/B14: the rows of §2.6, with and without the optional message; the label has none."""
    assert str(status) == display
    assert status.durable_run_status(termination) is run_status
    assert status.durable_status_reason(termination) == reason
    assert status.result_status_label(termination) == display.partition(":")[0]


@pytest.mark.parametrize(
    ("termination", "run_status", "reason"),
    [
        (NATURAL_END, DONE, "natural"),
        (BEHAVIOR_REQUESTED, DONE, "behavior_requested"),
        (CANCELLED, DONE, "cancelled"),
        (Blocked(value="no"), DONE, "blocked:no"),
        (Failed(value="boom"), DONE, "error"),
        (STOPPED, DONE, "stopped:max_rounds"),
        (SUSPENDED_END, WAITING, None),
    ],
)
def test_completed_asks_the_termination(
    termination: TerminationReason, run_status: RunStatus, reason: str | None
) -> None:
    """02/B14: only Completed consults the termination (§2.6)."""
    status = BackendRunStatus.completed()

    assert str(status) == "completed"
    assert status.durable_run_status(termination) is run_status
    assert status.durable_status_reason(termination) == reason
    assert status.result_status_label(termination) == run_status.value


def test_no_status_is_left_out_of_the_tables() -> None:
    """02/B14: §2.6 has seven rows."""
    told = {status.kind for status, *_ in ROWS} | {BackendStatusKind.COMPLETED}

    assert told == set(BackendStatusKind)
    assert [status.value for status in RunStatus] == ["created", "running", "waiting", "done"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("input_required", WaitingReason.USER_INPUT),
        ("user_input_required", WaitingReason.USER_INPUT),
        ("auth_required", WaitingReason.TOOL_PERMISSION),
        ("suspended", WaitingReason.TOOL_PERMISSION),
        ("awaiting_tasks", WaitingReason.BACKGROUND_TASKS),
        ("rate_limit", WaitingReason.RATE_LIMIT),
        ("manual_pause", WaitingReason.MANUAL_PAUSE),
        ("something else", WaitingReason.EXTERNAL_EVENT),
        ("", WaitingReason.EXTERNAL_EVENT),
        (None, WaitingReason.EXTERNAL_EVENT),
    ],
)
def test_what_a_status_reason_waits_for(text: str | None, reason: WaitingReason) -> None:
    """02/B14: every row of the waiting-reason map (§2.11)."""
    assert WaitingReason.from_status_reason(text) is reason


@pytest.mark.parametrize(
    ("termination", "status"),
    [
        (NATURAL_END, BackendRunStatus.completed()),
        (BEHAVIOR_REQUESTED, BackendRunStatus.completed()),
        (CANCELLED, BackendRunStatus.cancelled()),
        (STOPPED, BackendRunStatus.failed("stopped: max_rounds")),
        (
            Stopped(value=StoppedReason(code="timeout", detail="61 s")),
            BackendRunStatus.failed("stopped: timeout (61 s)"),
        ),
        (Blocked(value="not allowed"), BackendRunStatus.failed("blocked: not allowed")),
        (SUSPENDED_END, BackendRunStatus.suspended()),
        (Failed(value="inference failed: boom"), BackendRunStatus.failed("inference failed: boom")),
    ],
)
def test_map_termination(termination: TerminationReason, status: BackendRunStatus) -> None:
    """02 §2.15: how a local run's end looks from outside."""
    assert map_termination(termination) == status
