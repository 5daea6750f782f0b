"""The world outside the demo's process: what was paid there stays paid, whoever dies."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from awaken.codec import dumps, loads


class BookEntry(msgspec.Struct, frozen=True):
    """Something that was done, and the key it was asked for by."""

    key: str
    what: str


class Books:
    """A file of entries, one a line, as a bank or a carrier would keep them."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def enter(self, key: str, what: str) -> None:
        """Do it: from here on, it has happened."""
        line = dumps(BookEntry(key, what)) + b"\n"
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)

    def entries(self) -> list[BookEntry]:
        """Everything that was done, in order."""
        if not self._path.exists():
            return []
        return [loads(line, BookEntry) for line in self._path.read_bytes().splitlines()]

    def find(self, key: str) -> BookEntry | None:
        """What was done by that key, if anything was."""
        return next((entry for entry in self.entries() if entry.key == key), None)
