"""The floor: one row in one transaction, on a thread of its own, awaited from an event loop.

SQLite as it comes but for WAL and `synchronous=FULL`, by hand: no checks, no fences, no readers.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from pathlib import Path

from benchmarks.durable.disk import Disk, Reading

ROW = b"x" * 600

Job = tuple[bytes, asyncio.Future[None]]


class Floor:
    """A writer thread and the way to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    async def commit(self, row: bytes) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.put((row, done))
        await done

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _write(self) -> None:
        db = sqlite3.connect(self._path, isolation_level=None)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, row BLOB)")
        while (job := self._queue.get()) is not None:
            row, done = job
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT INTO rows (row) VALUES (?)", (row,))
            db.execute("COMMIT")
            done.get_loop().call_soon_threadsafe(done.set_result, None)
        db.close()


async def measure(path: Path, commits: int) -> Reading:
    """One of `commits` commits, one after the other."""
    floor, disk = Floor(path), Disk(path)
    try:
        await floor.commit(ROW)
        disk.settle()
        before = disk.take()
        for _ in range(commits):
            await floor.commit(ROW)
        return disk.take().since(before).of(commits)
    finally:
        floor.close()
