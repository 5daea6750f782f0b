"""Tables: columns that fit a terminal; elsewhere nothing is cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from awaken.cli.text import terminal_line

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
