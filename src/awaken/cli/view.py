"""Views of a run: a transcript for people, or lines of JSON for programs."""

from __future__ import annotations

from typing import Protocol, TextIO

from awaken.cli.exit_codes import WAITS_FOR_TASKS, ExitCode, describe_ending, exit_code_for
from awaken.cli.output import count, json_text, seconds, terminal_line
from awaken.cli.run_summary import CallState, RunSummary
from awaken.cli.store_address import WayBack
from awaken.core.event import RunEvent
from awaken.core.lifecycle import CancelledEnd, Suspended
from awaken.core.run import RunWaitingTicket
from awaken.core.suspension import ToolCallResume


class TurnView(Protocol):
    """Shows one turn of a conversation."""

    summary: RunSummary

    def show(self, event: RunEvent) -> None: ...

    def on_decision(self, ticket: RunWaitingTicket, answer: ToolCallResume) -> None:
        """Called when an approver has answered a waiting call; the events of the call follow."""
        ...

    def note(self, text: str) -> None:
        """Show a remark of the command itself."""
        ...

    def finish(self) -> None:
        """Show how the turn ended."""
        ...


class JsonLines:
    """Writes each event as one line of JSON to `out`, and everything else to `err`."""

    def __init__(self, out: TextIO, err: TextIO, way_back: WayBack | None = None) -> None:
        self.summary = RunSummary()
        self._out, self._err = out, err
        self._way_back = way_back

    def show(self, event: RunEvent) -> None:
        self.summary.add(event)
        self._out.write(f"{json_text(event)}\n")
        self._out.flush()

    def on_decision(self, ticket: RunWaitingTicket, answer: ToolCallResume) -> None:
        self.summary.add_decision(ticket.tool_call_id, answer, ticket.asker)

    def note(self, text: str) -> None:
        self._err.write(f"awaken: {terminal_line(text, 1000)}\n")
        self._err.flush()

    def finish(self) -> None:
        for words in render_closing_notes(self.summary, self._way_back):
            self.note(words)
        self.note(render_summary(self.summary, self._way_back))


def render_summary(summary: RunSummary, way_back: WayBack | None) -> str:
    """One line: how a turn ended and what it used."""
    ending = WAITS_FOR_TASKS if summary.awaits_tasks else describe_ending(summary.ending)
    if not summary.awaits_tasks and exit_code_for(summary.ending) is ExitCode.FAILED:
        ending = f"not finished, {ending}"
    parts = [
        terminal_line(ending, 400),
        count(summary.steps, "step"),
        count(summary.tokens, "token"),
        seconds(summary.duration_ms),
    ]
    if summary.cost is not None:
        parts.insert(3, f"cost {summary.cost:,.4g}")
    # The time a person takes to answer is shown apart from the agent's own.
    if summary.waited_ms >= 100:
        parts[-1] += f", {seconds(summary.waited_ms)} of it waiting for an answer"
    if way_back is not None and way_back.new_thread:
        parts.append(f"thread {terminal_line(summary.thread)}")
    return " · ".join(parts)


def render_closing_notes(summary: RunSummary, way_back: WayBack | None) -> list[str]:
    """Lines about a turn that was cancelled or paused: its calls, and the commands that answer the
    open tickets and resume the run."""
    match summary.ending:
        case CancelledEnd():
            return [_describe_calls(summary)]
        case Suspended():
            waiting = ", ".join(
                terminal_line(call.name) for call in summary.calls_in_state(CallState.WAITING)
            )
            thread = terminal_line(summary.thread)
            lines = [f"still waits for an answer: {waiting} (thread {thread})"]
            if way_back is not None:
                open_ = summary.open_questions()
                lines += [f"to answer:  {way_back.decide(summary.thread, one)}" for one in open_]
                lines.append(f"to go on:   {way_back.resume(summary.thread)}")
            return lines
    return []


def _describe_calls(summary: RunSummary) -> str:
    """The calls of a cancelled turn: those that finished, were interrupted, or never ran."""
    parts = [
        f"{label}: {', '.join(terminal_line(call.name) for call in calls)}"
        for label, calls in (
            ("finished", summary.calls_in_state(CallState.DONE, CallState.FAILED)),
            ("interrupted", summary.list_interrupted_calls()),
            ("never ran", summary.list_unstarted_calls()),
        )
        if calls
    ]
    if summary.has_text:
        parts.append("the text so far was kept")
    return "; ".join(parts) or "nothing had been done yet"
