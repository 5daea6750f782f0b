"""Views of a run: a transcript for people, or lines of JSON for programs."""

from __future__ import annotations

from typing import Protocol, TextIO

from awaken.cli.exit_codes import WAITS_FOR_TASKS, ExitCode, describe_ending, exit_code_for
from awaken.cli.output import count, json_text, seconds, terminal_line
from awaken.cli.run_summary import CallState, Tally
from awaken.cli.store_address import WayBack
from awaken.core.event import RunEvent
from awaken.core.lifecycle import CancelledEnd, Suspended
from awaken.core.run import RunWaitingTicket
from awaken.core.suspension import ToolCallResume


class View(Protocol):
    """Shows one turn of a conversation."""

    tally: Tally

    def show(self, event: RunEvent) -> None: ...

    def decided(self, ticket: RunWaitingTicket, answer: ToolCallResume) -> None:
        """Note that a waiting call was answered; its events follow."""
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
        self.tally = Tally()
        self._out, self._err = out, err
        self._way_back = way_back

    def show(self, event: RunEvent) -> None:
        self.tally.add(event)
        self._out.write(f"{json_text(event)}\n")
        self._out.flush()

    def decided(self, ticket: RunWaitingTicket, answer: ToolCallResume) -> None:
        self.tally.decided(ticket.tool_call_id, answer, ticket.asker)

    def note(self, text: str) -> None:
        self._err.write(f"awaken: {terminal_line(text, 1000)}\n")
        self._err.flush()

    def finish(self) -> None:
        for words in afterword(self.tally, self._way_back):
            self.note(words)
        self.note(summary(self.tally, self._way_back))


def summary(tally: Tally, way_back: WayBack | None) -> str:
    """How a turn ended and what it used, in one line."""
    ending = WAITS_FOR_TASKS if tally.awaits_tasks else describe_ending(tally.ending)
    if not tally.awaits_tasks and exit_code_for(tally.ending) is ExitCode.FAILED:
        ending = f"not finished, {ending}"
    parts = [
        terminal_line(ending, 400),
        count(tally.steps, "step"),
        count(tally.tokens, "token"),
        seconds(tally.took_ms),
    ]
    if tally.cost is not None:
        parts.insert(3, f"cost {tally.cost:,.4g}")
    # The time a person takes to answer is shown apart from the agent's own.
    if tally.waited_ms >= 100:
        parts[-1] += f", {seconds(tally.waited_ms)} of it waiting for an answer"
    if way_back is not None and way_back.new_thread:
        parts.append(f"thread {terminal_line(tally.thread)}")
    return " · ".join(parts)


def afterword(tally: Tally, way_back: WayBack | None) -> list[str]:
    """Lines about a turn that did not finish by itself: what waits, and how to go on."""
    match tally.ending:
        case CancelledEnd():
            return [_what_was_done(tally)]
        case Suspended():
            waiting = ", ".join(
                terminal_line(call.name) for call in tally.in_state(CallState.WAITING)
            )
            lines = [f"still waits for an answer: {waiting} (thread {terminal_line(tally.thread)})"]
            if way_back is not None:
                open_ = tally.open_questions()
                lines += [f"to answer:  {way_back.decide(tally.thread, one)}" for one in open_]
                lines.append(f"to go on:   {way_back.resume(tally.thread)}")
            return lines
    return []


def _what_was_done(tally: Tally) -> str:
    """What a cancelled turn has done: which calls took effect, and which did not."""
    parts = [
        f"{label}: {', '.join(terminal_line(call.name) for call in calls)}"
        for label, calls in (
            ("finished", tally.in_state(CallState.DONE, CallState.FAILED)),
            ("interrupted", tally.cut_short()),
            ("never ran", tally.never_begun()),
        )
        if calls
    ]
    if tally.said_something:
        parts.append("the text so far was kept")
    return "; ".join(parts) or "nothing had been done yet"
