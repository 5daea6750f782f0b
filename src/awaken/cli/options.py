"""Options and set-up that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from typing import Any, TextIO, TypeVar

import click

from awaken.cli.decide import AtTerminal, Decider, Unattended
from awaken.cli.lines import Lines, is_terminal
from awaken.cli.text import one_line
from awaken.cli.transcript import Transcript, open_console
from awaken.cli.view import JsonLines, View

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
    "--store", metavar="ADDRESS", help="Where threads are kept.  [default: memory:]"
)
yes_option = click.option(
    "--yes", is_flag=True, help="Approve every call that needs it, without asking."
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print each event as one line of JSON, nothing else."
)


def runs_agents(command: F) -> F:
    """The options of a command that runs the user's agents."""
    for option in (store_option, model_option, agent_option, thread_option):
        command = option(command)
    return command


def open_view(as_json: bool, out: TextIO) -> View:
    """A transcript, or lines of JSON."""
    return JsonLines(out, sys.stderr) if as_json else Transcript(open_console(out))


def stdout_for_events(as_json: bool) -> AbstractContextManager[object]:
    """With `--json`, keep what tools and modules print themselves out of the lines."""
    return redirect_stdout(sys.stderr) if as_json else nullcontext()


def open_decider(
    lines: Lines, view: Callable[[], View], *, yes: bool, say: Callable[[str], None] | None = None
) -> Decider:
    """Whoever can answer: the person at the terminal, or nobody, who says yes or no to all.

    Args:
        view: the view of the current turn; only a transcript has room for questions.
        say: where nobody's answers are told; standard error if not given.
    """

    def transcript() -> Transcript:
        shown = view()
        assert isinstance(shown, Transcript), "questions are asked in transcripts only"
        return shown

    if isinstance(view(), Transcript) and is_terminal():
        return AtTerminal(lines, transcript, yes=yes)
    why = "--yes" if yes else "no terminal to ask: run it in one, or with --yes"
    return Unattended(approve=yes, why=why, say=say or complain)


def complain(text: str) -> None:
    """Say something on standard error."""
    click.echo(f"awaken: {one_line(text, 1000)}", err=True)
