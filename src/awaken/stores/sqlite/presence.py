"""Checks that the open files are still the ones at their paths.

A file that was deleted, or replaced by a restore, stays open and takes every commit, but no other
process would ever read those commits.
"""

from __future__ import annotations

import os

from awaken.errors import StoreUnavailable
from awaken.stores.sqlite.address import MEMORY


class Presence:
    """Remembers the device and inode of the database file and its log from their opening."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._names = () if path == MEMORY else (path, f"{path}-wal")
        self._known: dict[str, tuple[int, int]] = {}
        self._missing: str | None = None

    def begin(self) -> None:
        """Remember the database file, which is about to be opened.

        Not the log: another process may still remove the one that is there now.
        """
        for name in self._names[:1]:
            self._look(name)

    def check(self) -> None:
        """Check both files. A file that is new is remembered.

        Raises:
            StoreUnavailable: a file was deleted or replaced, now or at an earlier check.
        """
        for name in self._names:
            if self._missing is None:
                self._look(name)
        if self._missing is not None:
            # For good: what was written since then may be in neither of the two files.
            raise StoreUnavailable(
                f"{self._missing} was deleted or replaced while the database {self._path} was "
                "open: nothing more is written or read; find out what did that, then close the "
                "store and open it again"
            )

    def _look(self, name: str) -> None:
        try:
            there = os.stat(name)
        except (FileNotFoundError, NotADirectoryError):
            if name in self._known:
                self._missing = name
        except OSError:
            pass  # no permission to check: that says nothing about the file
        else:
            found = (there.st_dev, there.st_ino)
            if self._known.setdefault(name, found) != found:
                self._missing = name
