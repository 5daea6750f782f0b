"""How runs stand and how they end (01 §1.6)."""

from __future__ import annotations

import pytest

from awaken.codec import Json, dumps, from_json, loads, to_json
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
    from_done_reason,
    read_termination,
    to_run_status,
)

DONE = RunStatus.DONE

ENDS: list[tuple[TerminationReason, RunStatus, str | None]] = [
    (NATURAL_END, DONE, "natural"),
    (BEHAVIOR_REQUESTED, DONE, "behavior_requested"),
    (CANCELLED, DONE, "cancelled"),
    (Blocked(value="no rm"), DONE, "blocked:no rm"),
    (Stopped(value=StoppedReason(code="timeout", detail="30 s")), DONE, "stopped:timeout"),
    (Failed(value="the model is gone"), DONE, "error"),
    (SUSPENDED_END, RunStatus.WAITING, None),
]


@pytest.mark.parametrize(("reason", "status", "text"), ENDS, ids=lambda v: type(v).__name__)
def test_a_termination_gives_status_and_reason(
    reason: TerminationReason, status: RunStatus, text: str | None
) -> None:
    """01/C-10: the table from termination to status; detail and error text are lost in it."""
    assert to_run_status(reason) == (status, text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("natural", NATURAL_END),
        ("behavior_requested", BEHAVIOR_REQUESTED),
        ("cancelled", CANCELLED),
        ("blocked:no rm", Blocked(value="no rm")),
        ("blocked:a:b", Blocked(value="a:b")),
        ("blocked:", Blocked(value="")),
        ("stopped:timeout", Stopped(value=StoppedReason(code="timeout"))),
        ("stopped:", Stopped(value=StoppedReason(code=""))),
        ("error:x:y", Failed(value="x:y")),
        ("error", Failed(value="error")),
        ("", Failed(value="")),
        ("unknown", Failed(value="unknown")),
        ("natural:x", Failed(value="natural:x")),
        ("blocked", Failed(value="blocked")),
        ("Natural", Failed(value="Natural")),
    ],
)
def test_a_reason_string_gives_a_termination(text: str, reason: TerminationReason) -> None:
    """01/C-10: the way back keeps colons; anything unknown is an error with the whole text."""
    assert from_done_reason(text) == reason


@pytest.mark.parametrize(
    ("reason", "json"),
    [
        (NATURAL_END, {"type": "natural_end"}),
        (BEHAVIOR_REQUESTED, {"type": "behavior_requested"}),
        (CANCELLED, {"type": "cancelled"}),
        (SUSPENDED_END, {"type": "suspended"}),
        (Blocked(value="x"), {"type": "blocked", "value": "x"}),
        (Failed(value=""), {"type": "error", "value": ""}),
        (
            Stopped(value=StoppedReason(code="timeout")),
            {"type": "stopped", "value": {"code": "timeout"}},
        ),
        (
            Stopped(value=StoppedReason(code="timeout", detail="30 s")),
            {"type": "stopped", "value": {"code": "timeout", "detail": "30 s"}},
        ),
    ],
)
def test_a_termination_round_trips_on_the_wire(reason: TerminationReason, json: Json) -> None:
    """01/C-10: `{"type"}` or `{"type", "value"}`."""
    assert to_json(reason) == json
    assert read_termination(loads(dumps(reason))) == reason


def test_the_old_name_of_behavior_requested_is_read() -> None:
    """01/C-10: `plugin_requested` is accepted."""
    assert read_termination({"type": "plugin_requested"}) is BEHAVIOR_REQUESTED


def test_an_unknown_termination_is_refused() -> None:
    with pytest.raises(ValueError, match="vanished"):
        from_json({"type": "vanished"}, TerminationReason)


def test_run_status_moves_only_as_the_table_says() -> None:
    """01/C-11: done to done yes, done to running no, and every other cell."""
    table = {
        "created": "created running done",
        "running": "running waiting done",
        "waiting": "running waiting done",
        "done": "done",
    }

    for status in RunStatus:
        moves = {other.value for other in RunStatus if status.can_go_to(other)}
        assert moves == set(table[status.value].split())


def test_only_done_is_terminal() -> None:
    assert [status for status in RunStatus if status.is_terminal] == [RunStatus.DONE]
