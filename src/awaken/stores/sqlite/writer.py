"""The operating-system thread that does all writing to a database file.

Jobs that wait share a transaction; a job that fails does not keep the others from being written
(see `Transactions`). Between jobs the thread checks whether other processes have written, as long
as a task waits for a change.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from awaken.core.aio.callbacks import Callbacks
from awaken.errors import AwakenError, CommitUnknown, StoreUnavailable
from awaken.stores.sqlite.errors import code_of, explain
from awaken.stores.sqlite.jobs import ResultBatch, StoreJob
from awaken.stores.sqlite.open import Presence
from awaken.stores.sqlite.watch import Watch
from awaken.stores.write_health import WriteHealth

ALL = "*"
"""The channel of a job after which anything may have changed."""

Batch = tuple[int, float]
"""How many jobs were done together, and the seconds that took."""
_MAX_BATCH = 500
_POLL_SECONDS = 0.07
_NOTHING = object()


class WriterThread:
    """Starts the thread, which owns the writing connection, and hands it jobs.

    Args:
        presence: checks that the file is still the one at its path.
        watch: the tasks that wait for changes, and are woken by them.
        batches: called after each batch of jobs, on the thread.
        open: opens the connection; called on the thread.
        finish: called on the thread after the last job, before the connection is closed.
    """

    def __init__(
        self,
        path: str,
        presence: Presence,
        watch: Watch,
        batches: Callbacks[Batch],
        writes: WriteHealth,
        open: Callable[[], sqlite3.Connection],
        finish: Callable[[sqlite3.Connection], None],
    ) -> None:
        self._path = path
        self._presence = presence
        self._watch = watch
        self._batches, self._writes = batches, writes
        self._open = open
        self._finish = finish
        self._queue: queue.SimpleQueue[StoreJob[Any] | None] = queue.SimpleQueue()
        self._next_job: StoreJob[Any] | None = None
        self._lock = threading.Lock()
        self._stopping = False
        self._opened = threading.Event()
        self._end_error: Exception | None = None
        self._ended: list[asyncio.Future[None]] = []
        self._transactions = Transactions(path, presence)
        self._seen = 0
        self._next_poll = 0.0
        self._thread = threading.Thread(
            target=self._main, name=f"awaken writes {path}", daemon=True
        )
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether the thread has ended, is ending, or failed to open the file."""
        return self._end_error is not None or self._stopping

    def put(self, job: StoreJob[Any]) -> None:
        """Queue a job.

        Raises:
            StoreUnavailable: the store was closed, or the file could not be opened.
        """
        with self._lock:
            self.check()
            self._queue.put(job)

    def check(self) -> None:
        """Return if jobs can be queued.

        Raises:
            StoreUnavailable: the store was closed, or the file could not be opened.
        """
        if self.is_over:
            raise StoreUnavailable(
                str(self._end_error or self._make_closed_error())
            ) from self._end_error

    def wait_until_open(self) -> None:
        """Block the calling thread until the file is open.

        Raises:
            StoreUnavailable: the file could not be opened.
        """
        self._opened.wait()
        if self._end_error is not None:
            raise StoreUnavailable(str(self._end_error)) from self._end_error

    def nudge(self) -> None:
        """Have the thread check for changes by other processes now; it goes on while a task waits.

        Raises:
            StoreUnavailable: the store was closed, or the file could not be opened.
        """
        with self._lock:
            self.check()
            self._queue.put(None)

    def note(self, error: Exception) -> None:
        """Report an error of a reader: if it shows damage, nothing more is written to the file."""
        self._transactions.note(error)

    def abandon(self) -> None:
        """Finish the queued jobs, then end; for a finalizer: it takes no lock and never waits."""
        self._stopping = True
        self._queue.put(None)

    def stop(self) -> asyncio.Future[None]:
        """Finish the queued jobs, then end; the returned future is done after that."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._end_error is not None:
                future.set_result(None)
                return future
            self._ended.append(future)
            self._stopping = True
            self._queue.put(None)
        return future

    def _make_closed_error(self) -> StoreUnavailable:
        return StoreUnavailable(f"the store of {self._path} was closed: open it again")

    # -- the thread ---------------------------------------------------------------------------

    def _main(self) -> None:
        try:
            db = self._open()
            (self._seen,) = db.execute("PRAGMA data_version").fetchone()
        except Exception as error:
            self._end(explain(self._path, error, doing="opened"))
            return
        self._mark_all_changed()  # other processes may have written while the file was closed
        self._opened.set()
        ending: Exception = self._make_closed_error()
        try:
            while (batch := self._take(db)) is not None:
                self._serve(db, batch)
            self._finish(db)
        except Exception as error:
            ending = explain(self._path, error, doing="used")
        finally:
            db.close()
            self._end(ending)

    def _serve(self, db: sqlite3.Connection, batch: list[StoreJob[Any]]) -> None:
        began, before = time.monotonic(), db.total_changes
        try:
            if batch[0].alone:
                self._transactions.run_bare(db, batch[0])
            else:
                self._transactions.run(db, batch)
        except Exception as error:
            self._transactions.fail(batch, error)
        self._batches.notify((len(batch), time.monotonic() - began))
        if not batch[0].alone:
            self._note(batch, has_changes=db.total_changes != before)
        results = ResultBatch()
        for job in batch:
            job.finish(results)
        self._mark_changes(batch, results)
        results.send()

    def _note(self, batch: Sequence[StoreJob[Any]], *, has_changes: bool) -> None:
        """Note whether the file takes writes. A transaction that changes nothing does not tell."""
        errors = [job.error for job in batch if job.error is not None]
        if has_changes and len(errors) < len(batch):
            self._writes.note_success()
        for error in errors:
            self._writes.note_error(error)

    def _end(self, error: Exception) -> None:
        """Fail the remaining jobs and wake all tasks: this thread is about to end."""
        results = ResultBatch()
        with self._lock:
            self._end_error = error
            while (job := self._take_one(0)) is not _NOTHING:
                if isinstance(job, StoreJob):
                    job.error = error
                    job.finish(results)
            for future in self._ended:
                results.add(future)
        self._opened.set()
        self._watch.mark_all(results, error)
        results.send()

    def _take(self, db: sqlite3.Connection) -> list[StoreJob[Any]] | None:
        """The waiting jobs in order, or `None` when the writer is to stop and none is left."""
        first = self._next_job
        self._next_job = None
        while first is None:
            if self._stopping and self._queue.empty():
                return None
            taken = self._take_one(_POLL_SECONDS if self._watch.has_waiters else None)
            first = taken if isinstance(taken, StoreJob) else None
            self._poll(db, now=taken is None)
        batch = [first]
        while not first.alone and len(batch) < _MAX_BATCH:
            job = self._take_one(0)
            if not isinstance(job, StoreJob):
                if job is _NOTHING:
                    break
                continue
            if job.alone:
                self._next_job = job
                break
            batch.append(job)
        return batch

    def _take_one(self, timeout: float | None) -> StoreJob[Any] | object | None:
        try:
            return self._queue.get(timeout=timeout) if timeout != 0 else self._queue.get_nowait()
        except queue.Empty:
            return _NOTHING

    def _poll(self, db: sqlite3.Connection, *, now: bool) -> None:
        """Wake waiting tasks if another process has written since the last check."""
        clock = time.monotonic()
        if not self._watch.has_waiters or (clock < self._next_poll and not now):
            return
        self._next_poll = clock + _POLL_SECONDS
        try:
            self._presence.check()
            (seen,) = db.execute("PRAGMA data_version").fetchone()
        except StoreUnavailable as error:
            self._mark_all_changed(error)  # no later change could be seen
            return
        except sqlite3.Error:
            return  # the next job will get the same error and report it to its caller
        if seen != self._seen:
            self._seen = seen
            self._mark_all_changed()

    def _mark_all_changed(self, error: StoreUnavailable | None = None) -> None:
        results = ResultBatch()
        self._watch.mark_all(results, error)
        results.send()

    def _mark_changes(self, batch: Sequence[StoreJob[Any]], results: ResultBatch) -> None:
        channels = [name for job in batch if job.error is None for name in job.channels]
        if ALL in channels:
            self._watch.mark_all(results)
        else:
            self._watch.mark(channels, results)


_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_UNKNOWN = object()


class Transactions:
    """Runs jobs on the writing connection; afterwards each job has its value or its error."""

    def __init__(self, path: str, presence: Presence) -> None:
        self._path = path
        self._presence = presence
        self._damage: sqlite3.Error | None = None

    def note(self, error: Exception) -> None:
        """Remember an error that shows damage: nothing more is written to a damaged file."""
        if isinstance(error, sqlite3.Error) and code_of(error) in _DAMAGE:
            self._damage = error

    def run(self, db: sqlite3.Connection, batch: Sequence[StoreJob[Any]]) -> None:
        """Run all jobs in one transaction; if it fails, run each in a transaction of its own."""
        try:
            if self._damage is not None:
                raise self._damage
            _undo(db)  # a transaction is open here only if the disk refused a rollback before
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            self.fail(batch, error)
            return
        try:
            for job in batch:
                _work(db, job)
        except Exception as error:
            _undo(db)
            self._retry(db, batch, error)
            return
        try:
            self._presence.check()
            db.execute("COMMIT")
        except StoreUnavailable as error:
            _undo(db)
            self.fail(batch, error)
        except sqlite3.Error as error:
            if db.in_transaction:
                _undo(db)
                self._retry(db, batch, error)
            else:
                self._resolve_lost(db, batch, error)

    def run_bare(self, db: sqlite3.Connection, job: StoreJob[Any]) -> None:
        """Run a job that must not be inside a transaction."""
        try:
            if self._damage is not None:
                raise self._damage
            self._presence.check()
            job.value = job.work(db)
        except Exception as error:
            self.fail([job], error)

    def fail(self, batch: Sequence[StoreJob[Any]], error: Exception) -> None:
        self.note(error)
        for job in batch:
            job.error = explain(self._path, error, doing="written")

    def _retry(
        self, db: sqlite3.Connection, batch: Sequence[StoreJob[Any]], error: Exception
    ) -> None:
        if len(batch) == 1:
            self.fail(batch, error)
            return
        for job in batch:
            self.run(db, [job])

    def _resolve_lost(
        self, db: sqlite3.Connection, batch: Sequence[StoreJob[Any]], error: sqlite3.Error
    ) -> None:
        """Find out whether each job was written, after SQLite ended a transaction with an error."""
        for job in batch:
            if job.error is not None:
                continue
            try:
                found = job.lost(db) if job.lost is not None else _UNKNOWN
            except (sqlite3.Error, AwakenError):
                found = _UNKNOWN
            if found is None:
                self.fail([job], error)
            elif found is _UNKNOWN:
                job.error = CommitUnknown(error)
                job.error.__cause__ = error
            else:
                job.value = found


def _work(db: sqlite3.Connection, job: StoreJob[Any]) -> None:
    before = db.total_changes
    try:
        job.value, job.error = job.work(db), None
    except AwakenError as error:
        job.error = error
        if db.total_changes != before:
            raise  # the job wrote something, which must not be committed with the other jobs


def _undo(db: sqlite3.Connection) -> None:
    # SQLite may have rolled back itself, for example because the disk is full.
    if db.in_transaction:
        db.execute("ROLLBACK")
