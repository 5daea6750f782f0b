"""Options and setup code that several commands share."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from typing import Any, TextIO, TypeVar

import click
from rich.console import Console
from rich.text import Text

from awaken.cli.decider import Decider, RuleDecider, TerminalDecider
from awaken.cli.exit_codes import ExitCode
from awaken.cli.output import complain, open_console, say_json
from awaken.cli.stdin_lines import StdinLines, is_tty
from awaken.cli.store_address import DEFAULT_STORE, STORE_VARIABLE, WayBack
from awaken.cli.transcript import TurnPrinter
from awaken.cli.view import JsonLines, TurnView

MOST_LISTED = 1_000

F = TypeVar("F", bound=Callable[..., Any])

thread_option = click.option(
    "--thread", metavar="ID", help="The thread to go on with; a new one if not given."
)
agent_option = click.option(
    "--agent", metavar="ID", help="Which agent to ask, if the target has several; else the first."
)
model_option = click.option(
    "--model", metavar="NAME", help="Ask this model instead, for example `demo`."
)
store_option = click.option(
    "--store",
    metavar="ADDRESS",
    help=f"Where threads are kept.  [env: {STORE_VARIABLE}; default: {DEFAULT_STORE}]",
)
yes_option = click.option(
    "--yes", is_flag=True, help="Approve every call that needs it, without asking."
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print each event as one line of JSON, nothing else."
)
json_value_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON value instead."
)
limit_option = click.option(
    "--limit",
    type=click.IntRange(1, MOST_LISTED),
    default=20,
    show_default=True,
    help="The most items to list.",
)
cursor_option = click.option(
    "--cursor",
    metavar="TEXT",
    help="Continue an earlier list, with the text it printed at its end.",
)


def runs_agents(command: F) -> F:
    """The options of a command that runs the user's agents."""
    for option in (store_option, model_option, agent_option, thread_option):
        command = option(command)
    return command


def lists(command: F) -> F:
    """The options of a command that lists what is in a store."""
    for option in (json_value_option, store_option, cursor_option, limit_option):
        command = option(command)
    return command


def steers(command: F) -> F:
    """The options of a command that acts on one thread or run of a store."""
    for option in (json_value_option, store_option):
        command = option(command)
    return command


def open_view(as_json: bool, out: TextIO, way_back: WayBack | None = None) -> TurnView:
    """A transcript, or lines of JSON."""
    if as_json:
        return JsonLines(out, sys.stderr, way_back)
    return TurnPrinter(open_console(out), way_back)


def stdout_for_events(as_json: bool) -> AbstractContextManager[object]:
    """With `--json`, send the prints of tools and modules to stderr."""
    return redirect_stdout(sys.stderr) if as_json else nullcontext()


def open_decider(lines: StdinLines, view: Callable[[], TurnView], *, yes: bool) -> Decider:
    """The person at the terminal, if there is one; else a decider that approves or denies all.

    Args:
        view: the view of the current turn; only a transcript has room for questions.
    """

    def transcript() -> TurnPrinter:
        shown = view()
        assert isinstance(shown, TurnPrinter), "questions are asked in transcripts only"
        return shown

    if isinstance(view(), TurnPrinter) and is_tty():
        return TerminalDecider(lines, transcript, yes=yes)
    reason = "--yes" if yes else "no terminal to ask: run it in one, or with --yes"
    return RuleDecider(approve=yes, reason=reason, say=complain)


def print_json(value: object) -> ExitCode:
    """Print one value as a line of JSON."""
    say_json(value)
    return ExitCode.DONE


def print_more(console: Console, any_shown: bool, none: str, cursor: str | None) -> ExitCode:
    """End a list: say that it is empty, or how to see the rest."""
    if cursor is not None:
        console.print(Text(f"there are more: --cursor {shlex.quote(cursor)}", "dim"))
    elif not any_shown:
        console.print(Text(none, "dim"))
    return ExitCode.DONE
