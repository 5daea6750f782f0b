"""Printing to the terminal: control characters in all output are made harmless."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from awaken.cli.text import clean, count, json_text, terminal_line
from awaken.core.unreadable import UnreadableRow

MOST_NAMED = 3


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


def complain_unreadable(rows: Sequence[UnreadableRow]) -> None:
    """Say on standard error how many rows of a list cannot be read, if there are some."""
    if rows:
        names = ", ".join(row.name for row in rows[:MOST_NAMED])
        more = ", …" if len(rows) > MOST_NAMED else ""
        complain(
            f"{count(len(rows), 'row')} of this list cannot be read ({names}{more}): `awaken db "
            "check` says what is wrong in them"
        )


@contextmanager
def silence_unreadable() -> Iterator[None]:
    """Keep the store from logging rows that cannot be read: the command names them itself."""
    log = logging.getLogger("awaken.stores.unreadable")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def say_json(value: object) -> None:
    """Print one value as a line of JSON; characters that could control a terminal are escaped."""
    click.echo(json_text(value))
