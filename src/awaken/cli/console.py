"""Printing to the terminal: control characters in all output are made harmless."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from awaken.cli.text import clean, json_text, terminal_line


class CleanConsole(Console):
    """A console whose texts cannot control the terminal: any id or name may come from a model.

    Colours and cursor movements are rich's own control segments, which are kept.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(clean(text), style)


def open_console(file: TextIO) -> Console:
    """A console that prints text as it is: no markup, no emoji codes, no wrapping."""
    return CleanConsole(file=file, markup=False, emoji=False, highlight=False, soft_wrap=True)


def say(text: str, *, err: bool = False) -> None:
    """Print a line of text."""
    click.echo(clean(text), err=err)


def complain(text: str) -> None:
    """Print a line on standard error."""
    say(f"awaken: {terminal_line(text, 1000)}", err=True)


def say_json(value: object) -> None:
    """Print one value as a line of JSON; characters that could control a terminal are escaped."""
    click.echo(json_text(value))
