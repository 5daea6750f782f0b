"""What a program spends on a database file: CPU, time, and bytes. Standard library only."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from benchmarks.work import Unsupported

MS, KB, MB = 1e3, 1e-3, 1e-6
"""What seconds and bytes are multiplied by, to be read."""


class Reading(NamedTuple):
    """The meters of a process and of its database, at one moment or from one to another."""

    cpu: float  # seconds, all threads
    wall: float
    wal: float  # bytes of write-ahead log
    written: float  # bytes the process gave the disk to keep, as the kernel counts them
    read: float  # bytes the process asked the kernel for

    def since(self, before: Reading) -> Reading:
        return Reading(*(now - then for now, then in zip(self, before, strict=True)))

    def of(self, count: int) -> Reading:
        """The share of one out of `count`."""
        return Reading(*(value / count for value in self))


class Disk:
    """A database file, watched from beside; the store that uses it does not know."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._log = Path(f"{path}-wal")

    def settle(self) -> None:
        """Empty the log into the file, so that from here on it grows by what is committed."""
        with closing(sqlite3.connect(self.path)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def take(self) -> Reading:
        """
        Raises:
            Unsupported: the system does not tell.
        """
        # Looked at, never opened: closing a file drops every lock the process has on it.
        log = os.stat(self._log).st_size if self._log.exists() else 0
        written, read = _bytes()
        return Reading(time.process_time(), time.perf_counter(), log, written, read)

    def size(self) -> int:
        """Bytes of the file and whatever lies beside it."""
        return sum(file.stat().st_size for file in self.path.parent.glob(f"{self.path.name}*"))


def _bytes() -> tuple[int, int]:
    try:
        text = Path("/proc/self/io").read_text()
    except OSError:
        raise Unsupported("this system has no /proc to read bytes from") from None
    fields = dict(line.split(": ") for line in text.splitlines())
    return int(fields["write_bytes"]), int(fields["rchar"])


class Transactions:
    """Counts the transactions of an open database, whoever makes them.

    The counter is in the index of the log, where SQLite's processes share it (its documentation,
    `walformat.html`, calls it iChange). The file stays open until `close`, which must come after
    the store's: closing it would drop the store's locks.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(f"{path}-shm", os.O_RDONLY)

    def count(self) -> int:
        return int.from_bytes(os.pread(self._fd, 4, 8), "little")

    def close(self) -> None:
        os.close(self._fd)
