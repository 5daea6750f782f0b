"""The `awaken` command: its subcommands and its error handling."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Mapping, Sequence

import click

from awaken.cli.cancel import cancel
from awaken.cli.chaos import chaos
from awaken.cli.chat import chat
from awaken.cli.console import say
from awaken.cli.console_command import console_command
from awaken.cli.db import db
from awaken.cli.decide import decide
from awaken.cli.demo import demo
from awaken.cli.exits import Exit
from awaken.cli.export import export
from awaken.cli.fork import fork
from awaken.cli.gc import gc
from awaken.cli.keys import keys
from awaken.cli.options import complain
from awaken.cli.replay import replay
from awaken.cli.resume import resume
from awaken.cli.run import run
from awaken.cli.runs import runs
from awaken.cli.send import send
from awaken.cli.serve import serve
from awaken.cli.show import show
from awaken.cli.tasks import tasks
from awaken.cli.threads import threads
from awaken.cli.watch import watch
from awaken.errors import AwakenError, BuildError, ConfigError, ResolveError, RuntimeFault

_SECTIONS: Mapping[str, Sequence[click.Command]] = {
    "Run agents": (run, chat, resume, demo),
    "Serve them": (serve, keys),
    "See what they do": (console_command, threads, runs, tasks, show, watch),
    "Steer them, from any process": (decide, cancel, send, fork),
    "Be sure": (export, replay, chaos),
    "Look after the store": (gc, db),
}


class Sections(click.Group):
    """A group whose help lists its commands by purpose."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(str(command.name), command.get_short_help_str(72)) for command in commands]
                )


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


for _command in (command for commands in _SECTIONS.values() for command in commands):
    cli.add_command(_command)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal cannot show becomes a question mark, not a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    logging.lastResort = CleanLog(logging.WARNING)
    try:
        return int(cli.main(args, prog_name="awaken", standalone_mode=False) or Exit.DONE)
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(shown)  # the message quotes the user's input
        say(shown.getvalue().removesuffix("\n"), err=True)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output is gone; Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED
    except (ConfigError, BuildError, ResolveError, RuntimeFault) as error:
        complain(str(error))
        return Exit.MISUSED
    except AwakenError as error:
        complain(str(error))
        return Exit.FAILED
