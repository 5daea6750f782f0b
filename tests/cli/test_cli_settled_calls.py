"""How the command line shows a call that waited, by what its last event says."""

from __future__ import annotations

import io

import pytest

from awaken.cli.output import open_console
from awaken.cli.transcript import TurnPrinter
from awaken.core.event import (
    AgentEvent,
    RunEvent,
    RunFinish,
    RunStart,
    ToolCallDone,
    ToolCallReady,
    ToolCallResumed,
)
from awaken.core.identity import RunIdentity
from awaken.core.lifecycle import CANCELLED
from awaken.core.suspension import ResumedOutcome
from awaken.core.tool import ToolResult


def _asked(run: str, parent: str | None, *events: AgentEvent) -> list[RunEvent]:
    """A run that waits for an answer to `pay`, and what comes then."""
    identity = RunIdentity(thread_id=run, run_id=run, agent_id=f"agent-{run}")
    waits = ToolResult.suspended("pay", "?")
    told: list[AgentEvent] = [
        RunStart(thread_id=run, run_id=run, identity=identity),
        ToolCallReady(id="1", name="pay", arguments={}),
        ToolCallDone(id="1", message_id="", result=waits, outcome=waits.outcome),
        *events,
    ]
    return [
        RunEvent(thread_id=run, run_id=run, parent_run_id=parent, at_ms=0, event=event)
        for event in told
    ]


def _ended(outcome: ResumedOutcome, reason: str | None) -> ToolCallResumed:
    return ToolCallResumed(target_id="1", name="pay", result=None, outcome=outcome, reason=reason)


def _shown(*events: RunEvent) -> list[str]:
    file = io.StringIO()
    transcript = TurnPrinter(open_console(file))
    for event in events:
        transcript.show(event)
    transcript.finish()
    return [line for line in file.getvalue().split("\n") if line]


@pytest.mark.parametrize(
    ("outcome", "reason", "line"),
    [
        (ResumedOutcome.DENIED, "too much", "  ✗ pay was denied: too much"),
        (ResumedOutcome.DENIED, None, "  ✗ pay was denied"),
        (ResumedOutcome.EXPIRED, "in time", "  ✗ pay was given up: in time"),
        (ResumedOutcome.SUPERSEDED, "superseded", "  ✗ pay was given up: superseded"),
        (ResumedOutcome.CANCELLED, "the run ended", "  ✗ pay was given up: the run ended"),
    ],
)
def test_a_call_that_was_not_let_go_on_says_why(
    outcome: ResumedOutcome, reason: str | None, line: str
) -> None:
    assert line in _shown(*_asked("r", None, _ended(outcome, reason)))


def test_a_call_of_a_cancelled_run_never_ran() -> None:
    end = RunFinish(thread_id="r", run_id="r", termination=CANCELLED)

    shown = _shown(*_asked("r", None, _ended(ResumedOutcome.CANCELLED, "the run ended"), end))

    assert "never ran: pay" in shown


def test_a_refusal_beneath_is_no_success() -> None:
    """A delegate's call that was denied has no result, as one that returned nothing has none."""
    top = RunIdentity(thread_id="r", run_id="r", agent_id="boss")
    start = RunStart(thread_id="r", run_id="r", identity=top)
    root = RunEvent(thread_id="r", run_id="r", at_ms=0, event=start)

    shown = _shown(root, *_asked("a", "r", _ended(ResumedOutcome.DENIED, "too much")))

    assert "    ✗ agent-a: pay: too much" in shown
