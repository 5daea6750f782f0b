"""The `awaken` command: its subcommands and its error handling."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Mapping, Sequence

import click

from awaken.cli.exit_codes import ExitCode
from awaken.cli.output import complain, say
from awaken.errors import AwakenError, BuildError, ConfigError, ResolveError, RuntimeFault
from awaken.lazy import lazy_names

_SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Run agents": {
        "run": "Ask one of your agents once, and watch it answer.",
        "chat": "Talk with an agent, turn by turn, on one thread.",
        "resume": "Go on with what a process has left behind.",
        "demo": "Watch agents settle a case, and kill them in the middle.",
    },
    "Serve them": {
        "serve": "Serve your agents over HTTP.",
        "keys": "Make, list and revoke the keys of a server.",
    },
    "See what they do": {
        "console": "See and answer your agents in the browser.",
        "threads": "List threads, those with the latest runs first.",
        "runs": "List runs, the newest first.",
        "tasks": "List background tasks, the newest first.",
        "show": "Show a thread or a run: what was said, done, and waits.",
        "watch": "Watch a thread or a run, in whichever process it is.",
    },
    "Steer them, from any process": {
        "decide": "Answer a call that waits for a person.",
        "cancel": "Cancel a run, in whichever process it is.",
        "send": "Write to a run that is under way.",
        "fork": "Start a new thread from any point of an old one.",
    },
    "Be sure": {
        "export": "Write a finished run as a pytest file that replays it.",
        "replay": "Run a finished run again and show the first difference.",
        "chaos": "Kill an agent of yours again and again, and see what it survives.",
    },
    "Look after the store": {
        "gc": "Delete old threads, and say what was freed.",
        "db": "Check a store, migrate one in Postgres, or forget a tenant.",
    },
}
"""The commands and their short help. A command's module is loaded when the command is called."""
_NAMES = [name for commands in _SECTIONS.values() for name in commands]
_PACKAGES = ("chaos", "demo")
"""The commands with a package of their own."""
_load = lazy_names(
    __name__,
    {f"awaken.cli.{'' if name in _PACKAGES else 'commands.'}{name}": name for name in _NAMES},
)


class Sections(click.Group):
    """A group whose help lists its commands by purpose."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _NAMES:
            return None
        command: click.Command = _load(cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))


@click.group(
    cls=Sections,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 96},
)
@click.version_option(package_name="awaken", message="awaken %(version)s")
def cli() -> None:
    """Awaken runs AI agents: typed state, plugins, approvals, hand-overs, and a loop that loses
    nothing.

    \b
    New here?   awaken demo               watch two agents settle a case, in ten seconds
                awaken chat               talk to a built-in agent; no key needed
    Your own    awaken chat app:agent     the `agent` in app.py
                awaken run app:agent "…"  one question, one answer
                awaken serve app.py       over HTTP, for browsers and programs
                awaken console            what they did, in the browser

    Threads are kept in ./awaken.db unless --store or AWAKEN_STORE says otherwise. An id may be
    given by its first characters. Every command has --help.
    """


class CleanLog(logging.Handler):
    """The default log handler: prints records with terminal control characters made harmless."""

    def emit(self, record: logging.LogRecord) -> None:
        say(self.format(record), err=True)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal cannot show becomes a question mark, not a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    logging.lastResort = CleanLog(logging.WARNING)
    try:
        return int(cli.main(args, prog_name="awaken", standalone_mode=False) or ExitCode.DONE)
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)  # the message quotes the user's input
        say(shown.getvalue().removesuffix("\n"), err=True)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output is gone; Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FAILED
    except (ConfigError, BuildError, ResolveError, RuntimeFault) as error:
        complain(str(error))
        return ExitCode.MISUSED
    except AwakenError as error:
        complain(str(error))
        return ExitCode.FAILED
    except Exception as error:
        if _is_interrupt(error):
            say("", err=True)  # as click does for an interrupt that is not replaced
            return ExitCode.INTERRUPTED
        raise


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C has led to the error: Python replaces the interrupt if it comes while a class
    is made, as many are when a command is loaded."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
