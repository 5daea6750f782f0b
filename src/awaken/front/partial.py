"""Reading JSON that is still being written."""

from __future__ import annotations

import msgspec

from awaken.codec import Json, loads

_CLOSES = {"{": "}", "[": "]"}
_WORDS = ("true", "false", "null")


class PartialJson:
    """Takes an object in pieces, and says at any time what it amounts to so far.

    Words before it do not count.
    Strings show what has come of them; a key without a value, and a number or word that may go on,
    are not shown yet.
    """

    def __init__(self) -> None:
        self._text: list[str] = []
        self._open: list[str] = []
        self._in_string = self._escaped = False
        self._size = 0
        self._string_at = 0
        self._settled = 0

    def push(self, piece: str) -> None:
        """Take the next piece."""
        if not self._size:
            piece = piece[piece.find("{") :] if "{" in piece else ""
        for offset, letter in enumerate(piece):
            self._step(letter, self._size + offset)
        self._size += len(piece)
        self._text.append(piece)

    def _step(self, letter: str, at: int) -> None:
        if self._in_string:
            if self._escaped:
                self._escaped = False
            elif letter == "\\":
                self._escaped = True
            elif letter == '"':
                self._in_string = False
        elif letter == '"':
            self._in_string, self._string_at = True, at
        elif letter in _CLOSES:
            self._open.append(_CLOSES[letter])
            self._settled = at + 1
        elif letter in "}]":
            if self._open:
                self._open.pop()
            self._settled = at + 1
        elif letter == ",":
            self._settled = at

    def value(self) -> Json:
        """What has come so far, as a value; `None` before there is one."""
        text = "".join(self._text)
        self._text = [text]
        ends = "".join(reversed(self._open))
        for candidate in self._candidates(text):
            try:
                return loads(candidate + ends)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                continue
        return None

    def _candidates(self, text: str) -> list[str]:
        """Ways to end it, the one that shows most first."""
        settled = text[: self._settled]
        if not self._in_string:
            return [text, settled] if not self._open or _is_closed(text) else [settled]
        # A surrogate or an escape that is cut in the middle goes with its backslash.
        ends = [len(text), *(len(text) - back for back in range(1, 13))]
        return [*(text[:end] + '"' for end in ends if end > self._string_at), settled]


def _is_closed(text: str) -> bool:
    """Whether what came last cannot go on: a string or a word, but not a number."""
    last = text.rstrip()
    return last.endswith(('"', "}", "]", *_WORDS))
