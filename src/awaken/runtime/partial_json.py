"""Reading JSON that is still being written."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from awaken.codec import Json, loads

FINENESS = 1024
"""New text is shown once it is a 1/1024th of all text so far; a smaller piece waits for more."""

_SPACE = " \t\n\r"
_VALUE = '{["-0123456789tfn'
_WORDS = ("true", "false", "null")
_LONGEST_WORD = 5
_PLAIN = re.compile(r'[^"\\]*')
_SCALAR = re.compile(r"[-+.\w]*")
# The two halves of a surrogate pair are one escape.
_ESCAPE = re.compile(r"\\(?:[^u]|u(?:[dD][89abAB]..\\u|(?![dD][89abAB])).{4})", re.DOTALL)
_LONGEST_ESCAPE = 12


class _NotJson(Exception):
    """The text is not JSON."""


class PartialJson:
    """Reads a JSON object in pieces; `value` is the object as far as it has come.

    Text before the object is ignored, and so are braces in that text; of several objects the last
    one counts. An unfinished string is shown as far as it has come. A key without a value, and a
    number or word that may go on, are not shown yet. A finished part is never parsed again: later
    values hold the same Python objects.
    """

    def __init__(self) -> None:
        self._read: Callable[[str, int], int] = self._seek
        self._tree = _OpenObject()
        self._before: Json = None
        self._allowed = ""
        self._parts: list[str] = []
        self._rest = ""
        self._size = self._shown = 0
        self._has_news = False
        # All text since a brace that may belong to plain text, and where in this piece it
        # continues.
        self._doubted: list[str] | None = None
        self._from = 0
        self._depth = 0
        self._quoted = False

    def push(self, piece: str) -> bool:
        """Read the next piece. Returns whether there is now enough new text to show."""
        text, at = self._rest + piece, 0
        self._rest, self._from = "", 0
        while at < len(text):
            try:
                at = self._read(text, at)
            except _NotJson:
                text, at = self._give_up(text, at)
        if self._doubted is not None:
            self._doubted.append(text[self._from : len(text) - len(self._rest)])
        self._size += len(piece)
        is_little = (self._size - self._shown) * FINENESS < self._size
        if not self._has_news or (is_little and self._tree.open):
            return False
        self._has_news, self._shown = False, self._size
        return True

    def value(self) -> Json:
        """The object as far as it has come; `None` before it begins."""
        now = self._tree.now(self._join_parts() if self._read == self._string else None)
        return now if now or self._before is None else self._before

    def _join_parts(self) -> str:
        """The unfinished string, number or word."""
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    # -- words --------------------------------------------------------------------------------

    def _seek(self, text: str, at: int) -> int:
        """Look for the start of an object."""
        start = text.find("{", at)
        if start < 0:
            return len(text)
        self._doubted, self._from = [], start
        self._begin({})
        self._has_news |= self._before is None
        return start + 1

    def _give_up(self, text: str, at: int) -> tuple[str, int]:
        """Continue after something that is not JSON. Returns the text to read and where to start in
        it.

        If no value was read, it was plain text, and the object may begin within it. Otherwise it
        was an object that is broken: the values read so far are kept, and the rest of it is
        skipped.
        """
        if self._doubted is not None:
            if self._before is None and not self._has_news:
                self._before = {}  # an object was shown already, and is not taken back
            text, at = "".join([*self._doubted, text[self._from :]])[1:], 0
            self._doubted, self._has_news, self._read = None, False, self._seek
        else:
            self._before = self.value()
            self._depth, self._quoted = len(self._tree.open), self._read == self._string
            self._read = self._skip
        self._tree = _OpenObject()
        return text, at

    def _skip(self, text: str, at: int) -> int:
        """Find the end of a broken object."""
        letter = text[at]
        if letter == "\\" and at + 1 == len(text):
            self._rest = letter
        elif letter == "\\":
            return at + 2
        elif letter == '"':
            self._quoted = not self._quoted
        elif not self._quoted:
            self._depth += (letter in "{[") - (letter in "}]")
            if self._depth == 0:
                self._read = self._seek
        return at + 1

    # -- the object ---------------------------------------------------------------------------

    def _mark(self, text: str, at: int) -> int:
        """Read the marks between values, and the first character of a value."""
        letter = text[at]
        if letter in _SPACE:
            return at + 1
        if letter not in self._allowed:
            raise _NotJson
        if letter in "{[":
            self._begin({} if letter == "{" else [])
        elif letter in "}]":
            self._end()
        elif letter == ",":
            self._allowed = '"' if self._tree.next() else _VALUE
        elif letter == ":":
            self._allowed = _VALUE
        elif letter == '"':
            if not self._tree.wants_key:
                self._add("")
            self._parts, self._read = [], self._string
        else:
            self._parts, self._read = [], self._scalar
            return at
        return at + 1

    def _string(self, text: str, at: int) -> int:
        plain = _PLAIN.match(text, at)
        assert plain is not None, "it matches anything"
        end = plain.end()
        if end > at:
            self._grow(text[at:end])
        if end == len(text):
            return end
        if text[end] == '"':
            self._end_string()
            return end + 1
        escape = _ESCAPE.match(text, end)
        if escape is None:
            if len(text) - end >= _LONGEST_ESCAPE:
                raise _NotJson
            self._rest = text[end:]
            return len(text)
        self._grow(_loads(f'"{escape[0]}"'))
        return escape.end()

    def _grow(self, text: str) -> None:
        self._parts.append(text)
        self._has_news |= not self._tree.wants_key

    def _end_string(self) -> None:
        if self._tree.wants_key:
            self._tree.name(self._join_parts())
            self._allowed = ":"
        else:
            self._tree.put(self._join_parts())
        self._read = self._mark

    def _scalar(self, text: str, at: int) -> int:
        """Read a number or a word. A number ends only where something else follows."""
        found = _SCALAR.match(text, at)
        assert found is not None, "it matches anything"
        self._parts.append(found[0])
        is_word = self._parts[0][0] in "tfn"
        if found.end() < len(text) or (is_word and self._join_parts() in _WORDS):
            self._read = self._mark
            self._add(_loads(self._join_parts()))
        elif is_word and len(self._join_parts()) > _LONGEST_WORD:
            raise _NotJson
        return found.end()

    def _begin(self, container: Any) -> None:
        if self._tree.open:
            self._add(container)
        self._tree.begin(container)
        self._allowed = '"}' if isinstance(container, dict) else _VALUE + "]"
        self._read = self._mark

    def _end(self) -> None:
        whole = self._tree.end()
        self._allowed = self._tree.may_follow
        if not self._tree.open:
            self._doubted, self._read = None, self._seek
            if whole or self._before is None:
                self._before = whole

    def _add(self, value: Any) -> None:
        self._tree.add(value)
        self._allowed = self._tree.may_follow
        self._has_news, self._doubted = True, None


class _OpenObject:
    """The unfinished object: its open containers, from the outermost to the innermost."""

    def __init__(self) -> None:
        self.open: list[Any] = []
        self._places: list[Any] = []  # the key of the last value in each, or -1 in a list

    @property
    def wants_key(self) -> bool:
        return self._places[-1] is None

    @property
    def may_follow(self) -> str:
        """The characters that may follow a value."""
        return (",}" if isinstance(self.open[-1], dict) else ",]") if self.open else ""

    def begin(self, container: Any) -> None:
        self.open.append(container)
        self._places.append(None if isinstance(container, dict) else -1)

    def end(self) -> Any:
        self._places.pop()
        return self.open.pop()

    def next(self) -> bool:
        """Prepare for another value. Returns whether it has a key."""
        is_object = isinstance(self.open[-1], dict)
        self._places[-1] = None if is_object else -1
        return is_object

    def name(self, key: str) -> None:
        """Set the key of the next value."""
        self._places[-1] = key

    def add(self, value: Any) -> None:
        if isinstance(self.open[-1], list):
            self.open[-1].append(value)
        else:
            self.put(value)

    def put(self, value: Any) -> None:
        """Replace the last value."""
        self.open[-1][self._places[-1]] = value

    def now(self, text: str | None) -> Any:
        """The object so far, with `text` as its unfinished string. Open containers are copied."""
        inner: Any = text
        for container, place in zip(reversed(self.open), reversed(self._places), strict=True):
            now = container.copy()
            if inner is not None and place is not None:
                now[place] = inner
            inner = now
        return inner


def _loads(text: str) -> Any:
    try:
        return loads(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _NotJson from error
