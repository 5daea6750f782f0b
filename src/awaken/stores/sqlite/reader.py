"""The thread that reads, on a connection of its own, so that reads never delay a commit."""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

from awaken.errors import StoreUnavailable
from awaken.stores.sqlite.errors import explain
from awaken.stores.sqlite.jobs import Job, Post
from awaken.stores.sqlite.presence import Presence


class Reader:
    """Runs read jobs one after the other, on its own thread."""

    def __init__(
        self,
        path: str,
        presence: Presence,
        open: Callable[[], sqlite3.Connection],
        note: Callable[[Exception], None],
    ) -> None:
        self._path = path
        self._presence = presence
        self._open = open
        self._note = note
        self._queue: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def put(self, job: Job[Any]) -> None:
        with self._lock:
            if self._stopping:
                raise StoreUnavailable(f"the store of {self._path} was closed: open it again")
            self._queue.put(job)
            if self._thread is None:
                name = f"awaken reads {self._path}"
                self._thread = threading.Thread(target=self._main, name=name, daemon=True)
                self._thread.start()

    def stop(self, *, wait: bool = True) -> None:
        """Finish the queued jobs, then end the thread."""
        with self._lock:
            self._stopping = True
            self._queue.put(None)
        if wait and self._thread is not None:
            self._thread.join()

    def _main(self) -> None:
        db: sqlite3.Connection | None = None
        while (job := self._queue.get()) is not None:
            try:
                db = db or self._open()
                self._read(db, job)
            except Exception as error:
                self._note(error)
                job.error = explain(self._path, error, doing="read")
            post = Post()
            job.finish(post)
            post.send()
        if db is not None:
            db.close()

    def _read(self, db: sqlite3.Connection, job: Job[Any]) -> None:
        self._presence.check()
        db.execute("BEGIN")
        try:
            job.value = job.work(db)
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")
