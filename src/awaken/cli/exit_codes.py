"""The exit codes of the commands."""

from __future__ import annotations

from enum import IntEnum

import click

from awaken.cli.output import clean
from awaken.core.lifecycle import (
    BehaviorRequested,
    Blocked,
    CancelledEnd,
    Failed,
    NaturalEnd,
    Stopped,
    Suspended,
    TerminationReason,
)

WAITS_FOR_TASKS = "waiting for tasks"


class ExitCode(IntEnum):
    """The exit codes of the commands; 130 is what shells expect after Ctrl-C."""

    DONE = 0
    FAILED = 1
    MISUSED = 2
    SUSPENDED = 3
    INTERRUPTED = 130


class Mistake(click.ClickException):
    """Something on the command line cannot work; the message says what to do instead."""

    exit_code = ExitCode.MISUSED

    def __init__(self, message: str) -> None:
        super().__init__(clean(message))  # the text may quote the user's own code


def exit_code_for(ending: TerminationReason | None) -> ExitCode:
    """The exit code for a run's end. A run without a recorded end has failed."""
    match ending:
        case NaturalEnd() | BehaviorRequested():
            return ExitCode.DONE
        case CancelledEnd():
            return ExitCode.INTERRUPTED
        case Suspended():
            return ExitCode.SUSPENDED
        case Blocked() | Stopped() | Failed() | None:
            return ExitCode.FAILED


def describe_ending(ending: TerminationReason | None) -> str:
    """How a run ended, in a few words."""
    match ending:
        case NaturalEnd():
            return "done"
        case BehaviorRequested():
            return "ended by a plugin"
        case CancelledEnd():
            return "cancelled"
        case Suspended():
            return "suspended"
        case Blocked(value=why):
            return f"blocked: {why}"
        case Stopped(value=stopped):
            return f"stopped: {stopped.detail or stopped.code}"
        case Failed(value=why):
            return f"failed: {why}"
        case None:
            return "broken off"
