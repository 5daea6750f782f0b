"""Events in, text out."""

from __future__ import annotations

import io

from awaken.cli.output import open_console
from awaken.cli.transcript import TurnPrinter
from awaken.codec import Json
from awaken.core.event import (
    ActivitySnapshot,
    AgentEvent,
    InferenceComplete,
    ReasoningDelta,
    RunEvent,
    RunFinish,
    RunStart,
    StateSnapshot,
    StepEnd,
    StreamReset,
    TextDelta,
    ToolCallDone,
    ToolCallReady,
    ToolCallResumed,
    ToolCallStreamDelta,
)
from awaken.core.identity import RunIdentity
from awaken.core.inference import TokenUsage
from awaken.core.lifecycle import (
    AWAITING_TASKS,
    CANCELLED,
    NATURAL_END,
    SUSPENDED_END,
    Stopped,
    StoppedReason,
    TerminationReason,
)
from awaken.core.run import RunWaitingTicket
from awaken.core.state.run_keys import ACTIVE_AGENT
from awaken.core.suspension import ToolCallOutcome, ToolCallResume
from awaken.core.tool import ToolError, ToolResult

IDENTITY = RunIdentity(thread_id="t", run_id="r", agent_id="ada")
START = RunStart(thread_id="t", run_id="r", identity=IDENTITY)


class Reader:
    """A transcript, and what it has printed."""

    def __init__(self) -> None:
        self.file = io.StringIO()
        self.transcript = TurnPrinter(open_console(self.file))

    def show(self, *events: AgentEvent, at_ms: int = 0) -> None:
        for event in events:
            self.transcript.show(RunEvent(thread_id="t", run_id="r", at_ms=at_ms, event=event))

    def finish(self, ending: TerminationReason, at_ms: int = 0) -> None:
        self.show(RunFinish(thread_id="t", run_id="r", termination=ending), at_ms=at_ms)
        self.transcript.finish()

    @property
    def lines(self) -> list[str]:
        return [line for line in self.file.getvalue().split("\n") if line]


def call(id: str, name: str, arguments: Json = None) -> ToolCallReady:
    return ToolCallReady(id=id, name=name, arguments=arguments or {})


def done(id: str, result: ToolResult) -> ToolCallDone:
    return ToolCallDone(id=id, message_id="m", result=result, outcome=result.outcome)


def test_text_calls_and_the_end_in_order() -> None:
    reader = Reader()
    usage = TokenUsage(prompt_tokens=1000, completion_tokens=200)
    reader.show(START, TextDelta(delta="Let me "), TextDelta(delta="look."), call("1", "look"))
    reader.show(done("1", ToolResult.success("look", {"a": 1})), at_ms=1400)
    reader.show(InferenceComplete(model="m", usage=usage, duration_ms=3), StepEnd(), at_ms=1500)
    reader.finish(NATURAL_END, at_ms=1600)
    assert reader.lines == [
        "● ada",
        "  Let me look.",
        "  → look()",
        '  ✓ 1.4 s  look: {"a":1}',
        "done · 1 step · 1,200 tokens · 1.6 s",
    ]


def test_markup_and_escapes_in_text_and_results_are_only_text() -> None:
    reader = Reader()
    reader.show(START, TextDelta(delta="[red]a[/red] :smile: \x1b[2J"), call("1", "[b]x\x1b[0m"))
    reader.show(done("1", ToolResult.error("x", "\x1b]0;t\x07 [link=x]y[/link]")))
    assert reader.lines[1:] == [
        "  [red]a[/red] :smile: ␛[2J",
        "  → [b]x␛[0m()",
        "  ✗ 0.0 s  [b]x␛[0m: ␛]0;t␇ [link=x]y[/link]",
    ]


def test_without_a_terminal_nothing_is_styled() -> None:
    reader = Reader()
    reader.show(START, ReasoningDelta(delta="hm"), TextDelta(delta="yes"), call("1", "look"))
    reader.finish(CANCELLED)
    assert "\x1b" not in reader.file.getvalue()
    assert reader.lines[1:3] == ["  hm", "  yes"]


def test_what_tools_say_while_they_run_is_kept_apart_by_line() -> None:
    reader = Reader()
    reader.show(START, call("1", "left"), call("2", "right"))
    reader.show(ToolCallStreamDelta(id="1", name="left", delta="one\ntw"))
    reader.show(ToolCallStreamDelta(id="2", name="right", delta="uno\n"))
    reader.show(ActivitySnapshot(message_id="2", activity_type="status", content="halfway"))
    reader.show(ToolCallStreamDelta(id="1", name="left", delta="o"))
    reader.show(done("1", ToolResult.success("left", 1)))
    assert reader.lines[3:] == [
        "    ┊ left: one",
        "    ┊ right: uno",
        "    · right: halfway",
        "    ┊ left: two",
        "  ✓ 0.0 s  left: 1",
    ]


def test_a_hand_over_begins_a_new_part() -> None:
    reader = Reader()
    reader.show(START, TextDelta(delta="Over to Bob."))
    reader.show(StateSnapshot(snapshot={"extensions": {ACTIVE_AGENT.name: "bob"}}), StepEnd())
    reader.show(TextDelta(delta="Hello."))
    assert reader.lines == ["● ada", "  Over to Bob.", "● bob", "  Hello."]


def test_waiting_for_a_person_is_not_counted_as_the_tools_time() -> None:
    reader = Reader()
    pause = RunFinish(thread_id="t", run_id="r", termination=SUSPENDED_END)
    reader.show(START, call("1", "pay"), done("1", ToolResult.suspended("pay", "?")), pause)
    ticket = RunWaitingTicket(ticket_id="1", tool_call_id="1", tool_name="pay", updated_at=0)
    reader.transcript.on_decision(ticket, ToolCallResume.approve())
    reader.show(START, at_ms=5000)
    reader.show(ToolCallResumed(target_id="1", result="paid"), at_ms=5300)
    reader.finish(NATURAL_END, at_ms=5400)
    assert reader.lines[2:] == [
        "  ? pay waits for an answer",
        "  ✓ 0.3 s  pay: paid",
        "done · 0 steps · 0 tokens · 5.4 s, 5.0 s of it waiting for an answer",
    ]


def test_a_resumed_call_that_fails_is_shown_as_failed() -> None:
    reader = Reader()
    reader.show(START, call("1", "pay"), done("1", ToolResult.suspended("pay", "?")))
    reader.show(ToolCallResumed(target_id="1", result={"error": "no money"}))
    assert reader.lines[-1] == "  ✗ 0.0 s  pay: no money"


def test_a_cancelled_turn_says_what_became_of_each_call() -> None:
    cancelled = str(ToolError.cancelled("the run was cancelled"))
    reader = Reader()
    reader.show(START, call("1", "quick"), call("2", "slow"), call("3", "pay"), call("4", "late"))
    reader.show(done("1", ToolResult.success("quick", 1)))
    reader.show(done("2", ToolResult.error("slow", cancelled)))
    reader.show(
        ToolCallDone(
            id="3",
            message_id="",
            result=ToolResult.suspended("pay", "?"),
            outcome=ToolCallOutcome.SUSPENDED,
        )
    )
    reader.finish(CANCELLED)
    assert reader.lines[-3:] == [
        "  ? pay waits for an answer",
        "finished: quick; interrupted: slow; never ran: pay, late",
        "cancelled · 0 steps · 0 tokens · 0.0 s",
    ]


def test_other_endings_name_their_reason() -> None:
    reader = Reader()
    reader.show(START, StreamReset(reason="connection lost"))
    reader.finish(Stopped(value=StoppedReason(code="max_rounds", detail="16 rounds")))
    assert reader.lines == [
        "  ↺ the model starts over: connection lost",
        "not finished, stopped: 16 rounds · 0 steps · 0 tokens · 0.0 s",
    ]


def test_what_runs_beneath_do_is_shown_by_name_further_in_and_their_words_are_not() -> None:
    reader = Reader()

    def beneath(run: str, parent: str, *events: AgentEvent) -> None:
        identity = RunIdentity(thread_id=run, run_id=run, agent_id=f"agent-{run}")
        start = RunStart(thread_id=run, run_id=run, identity=identity)
        for event in (start, *events):
            told = RunEvent(thread_id=run, run_id=run, parent_run_id=parent, at_ms=0, event=event)
            reader.transcript.show(told)

    reader.show(START, TextDelta(delta="Clerk!"), call("1", "agent_run_a"))
    beneath("a", "r", TextDelta(delta="Hm."), call("1", "agent_run_b"))
    beneath("b", "a", call("1", "pay"), done("1", ToolResult.suspended("pay", "?")))
    beneath("b", "a", ToolCallResumed(target_id="1", result="paid"), call("2", "lose"))
    beneath("b", "a", done("2", ToolResult.error("lose", "lost")))
    answer = {"agent_id": "a", "response": "All paid.", "steps": 2}
    reader.show(ToolCallResumed(target_id="1", result={"data": answer, "metadata": {}}))
    assert reader.lines[1:] == [
        "  Clerk!",
        "  → agent_run_a()",
        "    → agent-a: agent_run_b()",
        "      → agent-b: pay()",
        "      ✓ agent-b: pay: paid",
        "      → agent-b: lose()",
        "      ✗ agent-b: lose: lost",
        "  ✓ 0.0 s  agent_run_a: All paid.",
    ]
    assert reader.transcript.summary.calls[0].name == "agent_run_a"
    assert len(reader.transcript.summary.calls) == 1


def test_a_run_that_waits_for_its_tasks_is_not_called_done() -> None:
    reader = Reader()
    waits = {"status": "waiting", "status_reason": AWAITING_TASKS}
    reader.show(START, TextDelta(delta="On it."))
    reader.show(RunFinish(thread_id="t", run_id="r", termination=NATURAL_END, result=waits))
    reader.transcript.finish()
    assert reader.lines[-1] == "waiting for tasks · 0 steps · 0 tokens · 0.0 s"
