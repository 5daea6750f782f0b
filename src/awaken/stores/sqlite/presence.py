"""Whether the files that are open are still those at their names.

A file that was deleted, or replaced by a restore, stays open and takes every commit; no other
process would ever read them.
"""

from __future__ import annotations

import os

from awaken.errors import StoreUnavailable
from awaken.stores.sqlite.address import MEMORY


class Presence:
    """Device and inode of the database and its log, as they were when they were opened."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._names = () if path == MEMORY else (path, f"{path}-wal")
        self._known: dict[str, tuple[int, int]] = {}
        self._missing: str | None = None

    def begin(self) -> None:
        """Remember the database that is about to be opened. Its log may still be another's, who
        takes it away."""
        for name in self._names[:1]:
            self._look(name)

    def check(self) -> None:
        """Look at both files. What was not there before is remembered.

        Raises:
            StoreUnavailable: one of them was deleted or replaced, now or at an earlier look.
        """
        for name in self._names:
            if self._missing is None:
                self._look(name)
        if self._missing is not None:
            # For good: what was written since the file went may be in neither file.
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
            pass  # this process may not look any more: that says nothing of the file
        else:
            found = (there.st_dev, there.st_ino)
            if self._known.setdefault(name, found) != found:
                self._missing = name
