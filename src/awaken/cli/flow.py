"""Laying out text while it arrives in pieces."""

from __future__ import annotations

import re
from collections.abc import Callable

from rich.cells import cell_len

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
