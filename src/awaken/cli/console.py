"""The only way to the terminal: whatever a command prints is made harmless on its way out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from awaken.cli.text import clean, json_text


class CleanConsole(Console):
    """A console whose texts cannot steer the terminal: ids, names and all else may be a model's.

    Colours and the cursor's moves are rich's own control segments, and pass.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(clean(text), style)


def open_console(file: TextIO) -> Console:
    """A console that takes text as text: no markup, no emoji codes, no wrapping of its own."""
    return CleanConsole(file=file, markup=False, emoji=False, highlight=False, soft_wrap=True)


def say(text: str, *, err: bool = False) -> None:
    """Print a text and the end of its line."""
    click.echo(clean(text), err=err)


def say_json(value: object) -> None:
    """Print one value as a line of JSON; what could steer a terminal is escaped, as JSON allows."""
    click.echo(json_text(value))
