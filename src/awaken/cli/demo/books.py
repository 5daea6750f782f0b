"""A file that stands for the outside world of the demo: its entries survive the process."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from awaken.codec import dumps, loads


class BookEntry(msgspec.Struct, frozen=True):
    """A side effect, and its idempotency key."""

    key: str
    what: str


class Books:
    """A file of entries, one on each line, as a bank or a carrier would keep them."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def enter(self, key: str, what: str) -> None:
        """Carry out a side effect: once this returns, it has happened."""
        line = dumps(BookEntry(key, what)) + b"\n"
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)

    def entries(self) -> list[BookEntry]:
        """All entries, in order."""
        if not self._path.exists():
            return []
        return [loads(line, BookEntry) for line in self._path.read_bytes().splitlines()]

    def find(self, key: str) -> BookEntry | None:
        """The entry with that key, or `None`."""
        return next((entry for entry in self.entries() if entry.key == key), None)
