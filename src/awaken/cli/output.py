"""Printing to the terminal: lines, tables, values in one line, text that arrives in pieces.

Texts of models and tools may contain terminal escape sequences. Printed as they are, these could
recolour the screen, overwrite earlier lines or rename the window. So all output has its control
characters replaced by visible ones; `Flow` takes text that is clean already. On a terminal, text
is wrapped and the last column of a table is cut to fit; elsewhere neither is.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import webbrowser
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

import click
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from awaken.codec import Json, dumps_text
from awaken.core.unreadable import UnreadableRow

# -- lines ------------------------------------------------------------------------------------

MOST_NAMED = 3


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


# -- tables -----------------------------------------------------------------------------------

_GAP = "  "
_NARROWEST = 12
LONGEST_FIELD = 1_000


def print_table(
    console: Console, columns: Sequence[str], rows: Iterable[Sequence[str | Text]]
) -> None:
    """Print rows under their headings; on a terminal, the last column is cut to fit.

    A column whose heading ends in a colon holds numbers and is aligned to the right.
    """
    table = [[Text(name.rstrip(":"), "dim") for name in columns]]
    table += [[_cell(cell) for cell in row] for row in rows]
    widths = [max(cell.cell_len for cell in column) for column in zip(*table, strict=True)]
    if console.file.isatty():
        room = console.width - sum(widths[:-1]) - len(_GAP) * (len(widths) - 1)
        widths[-1] = min(widths[-1], max(_NARROWEST, room))
    for line in table:
        shown = Text()
        for cell, name, width in zip(line, columns, widths, strict=True):
            shown.append(_GAP if shown.plain else "")
            cell.truncate(width, overflow="ellipsis")
            gap = " " * (width - cell.cell_len)
            shown.append(gap if name.endswith(":") else "").append_text(cell)
            shown.append("" if name.endswith(":") else gap)
        shown.rstrip()
        console.print(shown)


def print_fields(console: Console, fields: Iterable[tuple[str, str | Text]]) -> None:
    """Print names and values, one pair on each line; pairs without a value are left out."""
    for name, value in fields:
        if value:
            console.print(
                Text().append(f"  {name:<12}", "dim").append_text(_cell(value, LONGEST_FIELD))
            )


def _cell(value: str | Text, longest: int = 200) -> Text:
    return value if isinstance(value, Text) else Text(terminal_line(value, longest))


# -- values in one line -----------------------------------------------------------------------

LONGEST = 160
SHORT_ID = 18


def terminal_line(text: str, longest: int = LONGEST) -> str:
    """`text`, harmless, on one line and not longer than `longest`."""
    # Only the beginning is shown, so the rest of a large output need not be cleaned.
    line = " ".join(clean(text[: 4 * longest + 4]).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def call_words(name: str, arguments: Json, longest: int = LONGEST) -> str:
    """A call in Python's notation: `find_order(number=1042)`."""
    if isinstance(arguments, dict):
        words = ", ".join(f"{key}={dumps_text(value)}" for key, value in arguments.items())
    else:
        words = "" if arguments is None else dumps_text(arguments)
    name = terminal_line(name)
    return f"{name}({terminal_line(words, max(8, longest - len(name) - 2))})"


def result_words(value: Json, longest: int = LONGEST) -> str:
    """The result of a call: text as it is, anything else as JSON."""
    return terminal_line(value if isinstance(value, str) else dumps_text(value), longest)


def short(id: str) -> str:
    """A shortened id, for places of little room; commands accept it."""
    return id if len(id) <= SHORT_ID else id[:SHORT_ID]


def count(number: int, noun: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def seconds(ms: int) -> str:
    """A duration for people: `0.4 s`, `12 s`, `3 min 5 s`."""
    if ms < 9_950:
        return f"{ms / 1000:.1f} s"
    whole = round(ms / 1000)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"


def ago(now_ms: int, at_ms: int) -> str:
    """The distance of an instant from now: `3 min ago`, `in 2 h`."""
    away = abs(now_ms - at_ms) // 1000
    if away < 5:
        return "just now"
    words = f"{away} s"
    for unit, length in (("min", 60), ("h", 3_600), ("d", 86_400)):
        if away >= length:
            words = f"{away // length} {unit}"
    return f"{words} ago" if now_ms >= at_ms else f"in {words}"


def size(number: int) -> str:
    """Bytes for people: `512 bytes`, `3.4 MB`."""
    if number < 1_000:
        return count(number, "byte")
    for unit, length in (("kB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        words = f"{number / length:.1f} {unit}"
        if number < 999.5 * length:
            break
    return words


# -- control characters -----------------------------------------------------------------------

_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but for tab and newline, DEL, and C1
    "\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that turn the reading direction
    "\ud800-\udfff]"  # half characters, which no terminal can be sent
)


def clean(text: str) -> str:
    """`text` with every control character replaced by a visible one; newlines and tabs stay."""
    return _CONTROL.sub(_picture, text.replace("\r\n", "\n"))


def json_text(value: Json) -> str:
    """A value as JSON in one line; characters that could control a terminal are escaped."""
    # In JSON such characters occur only inside strings, where an escape means the same character.
    return _CONTROL.sub(lambda found: escape(found[0]), dumps_text(value))


def escape(character: str) -> str:
    """A character as JSON escapes it."""
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)  # U+241B is a small picture of "ESC"
    return "\u2421" if code == 0x7F else "\ufffd"


# -- text that arrives in pieces --------------------------------------------------------------

# Scripts written without spaces may break between any two characters.
_IDEOGRAPHS = "\u2e80-\uffef"
_TOKENS = re.compile(rf"\n|[^\S\n]+|[{_IDEOGRAPHS}]|[^\s{_IDEOGRAPHS}]+")


class Flow:
    """Indents text and, given a width, wraps it at words.

    With wrapping, a word is shown once it is complete. Without a width, every piece is written as
    it comes.

    Args:
        write: is called with the next text to show.
        width: columns, including the indent; `None` for output that does not go to a terminal.
    """

    def __init__(self, write: Callable[[str], None], indent: str, width: int | None) -> None:
        self._write = write
        self._indent = indent
        self._width = width
        self._column = 0
        self._space = ""
        self._word = ""

    def feed(self, piece: str) -> None:
        """Add text that is already free of control characters."""
        for token in _TOKENS.findall(piece):
            if token == "\n":
                self._end_word()
                self._write("\n")
                self._column, self._space = 0, ""
            elif token.isspace():
                self._end_word()
                self._space += token
            else:
                self._word += token
                if self._width is None or "\u2e80" <= token[-1] <= "\uffef":
                    self._end_word()

    def end(self) -> None:
        """Show the last word, and end the line if one is open."""
        self._end_word()
        if self._column:
            self._write("\n")
        self._column, self._space = 0, ""

    def _end_word(self) -> None:
        word, self._word = self._word, ""
        if not word:
            return
        space, self._space = self._space, ""
        wanted = cell_len(space) + cell_len(word)
        if self._width is not None and self._column and self._column + wanted > self._width:
            self._write("\n")
            self._column, space = 0, ""
        if not self._column:
            space = self._indent + space
        self._write(space + word)
        self._column += cell_len(space) + cell_len(word)


# -- the browser ------------------------------------------------------------------------------

_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def has_browser() -> bool:
    """Whether a page can be shown in a window on this machine."""
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in _DISPLAYS):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def open_page(address: str) -> bool:
    """Open a page in the user's browser. Returns `False` if there is none."""
    return has_browser() and webbrowser.open(address)
