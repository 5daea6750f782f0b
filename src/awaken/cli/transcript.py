"""Printing a run for people: text as it comes, calls as they start and end."""

from __future__ import annotations

from functools import singledispatchmethod

from rich.console import Console
from rich.live import Live
from rich.padding import Padding
from rich.spinner import Spinner
from rich.text import Text

from awaken.cli.children import Children
from awaken.cli.output import LONGEST, Flow, call_words, clean, result_words, seconds, terminal_line
from awaken.cli.run_summary import (
    UNANSWERED,
    CallState,
    CallSummary,
    RunSummary,
    extract_error,
    extract_result,
)
from awaken.cli.store_address import WayBack
from awaken.cli.view import render_closing_notes, render_summary
from awaken.codec import Json
from awaken.core.event import (
    ActivitySnapshot,
    ReasoningDelta,
    RunEvent,
    StepEnd,
    StreamReset,
    TextDelta,
    ToolCallCancel,
    ToolCallDone,
    ToolCallReady,
    ToolCallResumed,
    ToolCallStreamDelta,
)
from awaken.core.lifecycle import NaturalEnd
from awaken.core.run import RunWaitingTicket
from awaken.core.suspension import ToolCallResume
from awaken.core.tool import PROGRESS_ACTIVITY

WIDEST = 96
_INDENT = "  "
_MARKS = {
    CallState.DONE: ("✓", "green"),
    CallState.WAITING: ("?", "yellow"),
    CallState.FAILED: ("✗", "red"),
    CallState.DENIED: ("✗", "red"),
    CallState.EXPIRED: ("✗", "yellow"),
    CallState.SUPERSEDED: ("✗", "yellow"),
    CallState.CANCELLED: ("✗", "yellow"),
    CallState.INTERRUPTED: ("✗", "yellow"),
    CallState.UNKNOWN: ("✗", "yellow"),
    CallState.RUNNING: ("→", "cyan"),
}


class TurnPrinter:
    """Prints one turn.

    On a terminal there are colours, wrapped text, and a spinner while tools run. Anywhere else it
    is plain text, line after line.
    """

    def __init__(
        self,
        console: Console,
        way_back: WayBack | None = None,
        children: Children | None = None,
    ) -> None:
        self.summary = RunSummary()
        self._children = children or Children()
        self.is_finished = False
        self.console = console
        self._way_back = way_back
        # FORCE_COLOR makes anything a terminal to rich; it asks for colours, not for a spinner.
        self._is_live = console.file.isatty() and not console.is_dumb_terminal
        self._spinner: Live | None = None
        self._speaker: str | None = None
        self._below_calls = False
        self._flow: Flow | None = None
        self._flow_style = ""
        self._tool_output: dict[str, str] = {}

    # -- public methods -----------------------------------------------------------------------

    def show(self, event: RunEvent) -> None:
        self.summary.add(event)
        if self.summary.is_own(event):
            self._show(event.event)
        elif note := self._children.render_event(event, self._available_width):
            self._detail(*note)
        self._spin()

    def on_decision(self, ticket: RunWaitingTicket, answer: ToolCallResume) -> None:
        self.summary.add_decision(ticket.tool_call_id, answer, ticket.asker)
        self._spin()

    def note(self, text: str) -> None:
        self._line("!", "yellow", terminal_line(text, 1000))

    def print_question(self, question: str) -> None:
        """Print a question, and leave the cursor at its end."""
        self._end_line()
        self._print(f"{_INDENT}{question} ", "bold", end="")

    def break_line(self) -> None:
        """End the line of an unanswered question."""
        self._print("", end="\n")

    def _print_speaker(self, name: str) -> None:
        """Print the name of a speaker, above the texts and calls of that speaker."""
        self._end_line()
        self._speaker, self._below_calls = name, False
        self._print("")
        self._print(f"● {terminal_line(name)}", "bold cyan")

    def print_message(self, name: str, text: str) -> None:
        """Print a complete message of the speaker `name`."""
        self._end_line()
        if self._speaker != name:
            self._print_speaker(name)
        elif not self._below_calls:
            self._print("")
        self._flow = self._open_flow("")
        self._flow.feed(clean(text))
        self._end_line()

    def print_remark(self, mark: str, words: str, style: str = "dim") -> None:
        """Print a line among the calls."""
        self._line(mark, style, words)

    def finish(self) -> None:
        self._end_line()
        self.is_finished = True
        ending = self.summary.ending
        style = "green" if isinstance(ending, NaturalEnd) else "yellow"
        self._print("")
        for words in render_closing_notes(self.summary, self._way_back):
            self._print(words, style)
        self._print(render_summary(self.summary, self._way_back), f"bold {style}")

    # -- events -------------------------------------------------------------------------------

    @singledispatchmethod
    def _show(self, event: object) -> None:
        """Other events are not shown."""

    @_show.register
    def _(self, event: TextDelta) -> None:
        self._stream(event.delta, "")

    @_show.register
    def _(self, event: ReasoningDelta) -> None:
        self._stream(event.delta, "dim italic")

    @_show.register
    def _(self, event: StreamReset) -> None:
        self._line("↺", "yellow", f"the model starts over: {terminal_line(event.reason)}")

    @_show.register
    def _(self, event: ToolCallReady) -> None:
        self._header()
        self._line("→", "cyan", call_words(event.name, event.arguments, self._available_width(4)))

    @_show.register
    def _(self, event: ToolCallCancel) -> None:
        self._line(
            "✗", "yellow", f"{terminal_line(event.name)} was dropped: {terminal_line(event.reason)}"
        )

    @_show.register
    def _(self, event: ToolCallStreamDelta) -> None:
        # Tools run concurrently: printing whole lines keeps their outputs apart.
        *lines, rest = (self._tool_output.get(event.id, "") + event.delta).split("\n")
        self._tool_output[event.id] = rest
        for line in lines:
            self._detail("┊", event.name, line)

    @_show.register
    def _(self, event: ActivitySnapshot) -> None:
        call = self.summary.call(event.message_id)
        text = event.content
        if event.activity_type == PROGRESS_ACTIVITY and isinstance(text, dict):
            text = text.get("message")
        if call is not None and isinstance(text, str):
            self._detail("·", call.name, text)

    @_show.register
    def _(self, event: ToolCallDone) -> None:
        if call := self.summary.call(event.id):
            result = event.result
            self._print_call_end(call, result.data if result.message is None else result.message)

    @_show.register
    def _(self, event: ToolCallResumed) -> None:
        if call := self.summary.call(event.target_id):
            said = extract_error(event.result) or extract_result(event.result)
            self._print_call_end(call, event.reason if call.state in UNANSWERED else said)

    @_show.register
    def _(self, event: StepEnd) -> None:
        self._end_line()

    # -- printing -----------------------------------------------------------------------------

    def _stream(self, delta: str, style: str) -> None:
        if self._flow is None or self._flow_style != style:
            self._end_line()
            self._header()
            self._flow_style = style
            self._flow = self._open_flow(style)
        self._flow.feed(clean(delta))

    def _open_flow(self, style: str) -> Flow:
        if self._below_calls:
            self._print("")
            self._below_calls = False
        return Flow(
            lambda text: self._print(text, style, end=""),
            _INDENT,
            min(self.console.width, WIDEST) if self._is_live else None,
        )

    def _header(self) -> None:
        if self.summary.agent is not None and self._speaker != self.summary.agent:
            self._print_speaker(self.summary.agent)

    def _print_call_end(self, call: CallSummary, result: Json) -> None:
        if self._speaker is None:
            self._header()  # the call was made before this transcript began
        if rest := self._tool_output.pop(call.id, ""):
            self._detail("┊", call.name, rest)
        mark, style = _MARKS[call.state]
        took = seconds(call.duration_ms)
        room = self._available_width(len(took) + len(call.name) + 8)
        match call.state:
            case CallState.WAITING:
                return self._line(mark, style, f"{terminal_line(call.name)} waits for an answer")
            case CallState.DENIED:
                reason = call.answer.reason if call.answer is not None else result
                words = (
                    f"was denied: {terminal_line(str(reason), room)}" if reason else "was denied"
                )
                return self._line(mark, style, f"{terminal_line(call.name)} {words}")
            case CallState.EXPIRED | CallState.SUPERSEDED | CallState.CANCELLED:
                words = (
                    f"{terminal_line(call.name)} was given up: {terminal_line(str(result), room)}"
                )
                return self._line(mark, style, words)
            case CallState.INTERRUPTED:
                words = f"{terminal_line(call.name)} was interrupted"
            case CallState.UNKNOWN:
                words = f"{terminal_line(call.name)} was interrupted, with an unknown outcome"
            case _:
                words = f"{terminal_line(call.name)}: {result_words(result, room)}"
        self._line(mark, style, words, took)

    def _detail(self, mark: str, name: str, text: str, level: int = 1) -> None:
        self._end_line()
        margin = _INDENT * (level + 1)
        words = terminal_line(f"{name}: {text}", self._available_width(len(margin) + 2))
        self._print(f"{margin}{mark} {words}", "dim")

    def _line(self, mark: str, style: str, words: str, took: str = "") -> None:
        self._end_line()
        self._below_calls = True
        line = Text(_INDENT).append(f"{mark} ", style)
        if took:
            line.append(f"{took}  ", "dim")
        self.console.print(line.append(words))

    def _print(self, text: str, style: str = "", end: str = "\n") -> None:
        self.console.print(Text(text, style), end=end)

    def _available_width(self, taken: int) -> int:
        """How long a text may be if `taken` characters of its line are used."""
        return max(24, min(self.console.width, LONGEST) - taken) if self._is_live else LONGEST

    def _end_line(self) -> None:
        """Move the cursor to the beginning of a new line."""
        if self._spinner is not None:
            self._spinner.stop()
            self._spinner = None
        if self._flow is not None:
            self._flow.end()
            self._flow = None

    def _spin(self) -> None:
        """Show a spinner with the running calls while no text arrives."""
        names = [
            terminal_line(call.name, 24) for call in self.summary.calls_in_state(CallState.RUNNING)
        ]
        if self._is_live and names and self._flow is None and self._spinner is None:
            words = Text(", ".join(names[:4]) + (", …" if len(names) > 4 else ""), "dim")
            spinner = Padding(Spinner("dots", words, style="cyan"), (0, 0, 0, 2), expand=False)
            self._spinner = Live(
                spinner, console=self.console, transient=True, refresh_per_second=12.5
            )
            self._spinner.start()
