"""Decoding server-sent events from chunks of bytes."""

from __future__ import annotations

import re

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class SseDecoder:
    """Takes chunks of bytes, and returns the events that are complete.

    Text is decoded by line, not by chunk, because a chunk may end within a character.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._first = True
        self._after_cr = False
        self._event = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> list[tuple[str, str]]:
        """The events that end in `chunk`, as name and data.

        Raises:
            UnicodeDecodeError: a line is not UTF-8.
        """
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        if b"\n" not in chunk and b"\r" not in chunk:
            self._pieces.append(chunk)
            return []
        self._after_cr = chunk.endswith(b"\r")
        *lines, rest = _LINE_END.split(b"".join((*self._pieces, chunk)))
        self._pieces = [rest] if rest else []
        return [event for line in lines if (event := self._line(line)) is not None]

    def _line(self, line: bytes) -> tuple[str, str] | None:
        if self._first:
            line, self._first = line.removeprefix(_BOM), False
        if not line:
            return self._dispatch()
        field, _, value = line.decode().partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._event = value
        return None  # comments, ids and other fields are ignored

    def _dispatch(self) -> tuple[str, str] | None:
        name, data = self._event or "message", self._data
        self._event, self._data = "", []
        return (name, "\n".join(data)) if data else None
