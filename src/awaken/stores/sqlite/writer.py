"""The operating-system thread that does all writing to a database file.

Jobs that wait share a transaction; a job that fails does not keep the others from being written.
Between jobs the thread checks whether other processes have written, as long as a task waits for a
change.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from awaken.core.aio.callbacks import Callbacks
from awaken.errors import AwakenError, CommitUnknown, StoreUnavailable
from awaken.stores.sql.cursors import UnreadableRows
from awaken.stores.sqlite.errors import code_of, explain
from awaken.stores.sqlite.jobs import ResultBatch, StoreJob
from awaken.stores.sqlite.open import Presence
from awaken.stores.sqlite.watch import Watch
from awaken.stores.write_health import WriteHealth

T = TypeVar("T")
ALL = "*"
"""The channel of a job after which anything may have changed."""

Batch = tuple[int, float]
"""How many jobs were done together, and the seconds that took."""
_MAX_BATCH = 500
_POLL_SECONDS = 0.07
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_UNKNOWN = object()


class WriterThread:
    """Starts the thread, which owns the writing connection, and hands it jobs.

    Args:
        presence: checks that the file is still the one at its path.
        watch: the tasks that wait for changes, and are woken by them.
        batches: called after each batch of jobs, on the thread.
        writes: notes whether the file takes writes.
        unreadable: notes the rows that a job cannot decode.
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
        unreadable: UnreadableRows,
        open: Callable[[], sqlite3.Connection],
        finish: Callable[[sqlite3.Connection], None],
    ) -> None:
        self._path = path
        self._presence = presence
        self._watch = watch
        self._batches, self._writes, self._unreadable = batches, writes, unreadable
        self._open = open
        self._finish = finish
        self._queue: queue.SimpleQueue[StoreJob[Any] | None] = queue.SimpleQueue()
        self._next_job: StoreJob[Any] | None = None
        self._lock = threading.Lock()
        self.is_over = False
        """Whether the thread has ended, is ending, or failed to open the file."""
        self._opened = threading.Event()
        self._end_error: Exception | None = None
        self._ended: list[asyncio.Future[None]] = []
        self._damage: sqlite3.Error | None = None
        self._seen = 0
        self._next_poll = 0.0
        self._thread = threading.Thread(
            target=self._main, name=f"awaken writes {path}", daemon=True
        )
        self._thread.start()

    def submit(
        self,
        work: Callable[[sqlite3.Connection], T],
        *,
        channels: tuple[str, ...] = (),
        lost: Callable[[sqlite3.Connection], T | None] | None = None,
        alone: bool = False,
        ended: Callable[[BaseException | None], None] | None = None,
    ) -> asyncio.Future[T]:
        """Run `work` in a transaction, which other waiting jobs may share; see `StoreJob`.

        Raises:
            StoreUnavailable: the store was closed, or the file could not be opened.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.put(StoreJob(work, future, channels, lost, alone, ended))
        return future

    def put(self, job: StoreJob[Any] | None) -> None:
        """Queue a job. With `None`, the thread checks now for changes by other processes, and
        repeats that while a task waits.

        Raises:
            StoreUnavailable: the store was closed, or the file could not be opened.
        """
        with self._lock:
            if self.is_over:
                raise self.make_end_error()
            self._queue.put(job)

    def make_end_error(self) -> StoreUnavailable:
        """The error for a job that comes after the end of the thread."""
        text = str(self._end_error or f"the store of {self._path} was closed: open it again")
        error = StoreUnavailable(text)
        error.__cause__ = self._end_error
        return error

    def wait_until_open(self) -> None:
        """Block the calling thread until the file is open.

        Raises:
            StoreUnavailable: the file could not be opened.
        """
        self._opened.wait()
        if self._end_error is not None:
            raise StoreUnavailable(str(self._end_error)) from self._end_error

    def note_damage(self, error: Exception) -> None:
        """Remember an error that shows damage: nothing more is written to a damaged file."""
        if isinstance(error, sqlite3.Error) and code_of(error) in _DAMAGE:
            self._damage = error

    def abandon(self) -> None:
        """Finish the queued jobs, then end; for a finalizer: it takes no lock and never waits."""
        self.is_over = True
        self._queue.put(None)

    def stop(self) -> asyncio.Future[None]:
        """Finish the queued jobs, then end; the returned future is done after that."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._end_error is not None:
                future.set_result(None)
                return future
            self._ended.append(future)
            self.is_over = True
            self._queue.put(None)
        return future

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
        ending: Exception = self.make_end_error()
        try:
            while (batch := self._take(db)) is not None:
                self._serve(db, batch)
            self._finish(db)
        except Exception as error:
            ending = explain(self._path, error, doing="used")
        finally:
            db.close()
            self._end(ending)

    def _end(self, error: Exception) -> None:
        """Fail the remaining jobs and wake all tasks: this thread is about to end."""
        results = ResultBatch()
        with self._lock:
            self._end_error, self.is_over = error, True
            while not self._queue.empty():
                job = self._queue.get()
                if job is not None:
                    job.error = error
                    job.finish(results)
            for future in self._ended:
                results.add(future)
        self._opened.set()
        self._watch.mark_all(results, error)
        results.send()

    # -- taking jobs, and changes by other processes ------------------------------------------

    def _take(self, db: sqlite3.Connection) -> list[StoreJob[Any]] | None:
        """The waiting jobs in order, or `None` when the writer is to stop and none is left."""
        first, self._next_job = self._next_job, None
        while first is None:
            if self.is_over and self._queue.empty():
                return None
            first = self._wait_for_job(db)
        batch = [first]
        while not first.alone and len(batch) < _MAX_BATCH and not self._queue.empty():
            job = self._queue.get()
            if job is not None and job.alone:
                self._next_job = job
                break
            if job is not None:
                batch.append(job)
        return batch

    def _wait_for_job(self, db: sqlite3.Connection) -> StoreJob[Any] | None:
        """The next job; `None` if the thread was asked to check for changes, or it was time to."""
        is_asked = True
        try:
            job = self._queue.get(timeout=_POLL_SECONDS if self._watch.waiting else None)
        except queue.Empty:
            job, is_asked = None, False
        if self._watch.waiting:
            self._poll(db, now=job is None and is_asked)
        return job

    def _poll(self, db: sqlite3.Connection, *, now: bool) -> None:
        """Wake waiting tasks if another process has written since the last check."""
        clock = time.monotonic()
        if clock < self._next_poll and not now:
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

    # -- batches ------------------------------------------------------------------------------

    def _serve(self, db: sqlite3.Connection, batch: list[StoreJob[Any]]) -> None:
        """Do the jobs of a batch, and report their results."""
        began, before = time.monotonic(), db.total_changes
        try:
            if batch[0].alone:
                self._run_alone(db, batch[0])
            else:
                self._run(db, batch)
        except Exception as error:
            self._fail(batch, error)
        self._batches.notify((len(batch), time.monotonic() - began))
        if not batch[0].alone:
            self._note_writes(batch, has_changes=db.total_changes != before)
        results = ResultBatch()
        channels: list[str] = []
        for job in batch:
            job.finish(results)
            if job.error is None:
                channels.extend(job.channels)
        if ALL in channels:
            self._watch.mark_all(results)
        else:
            self._watch.mark(channels, results)
        results.send()

    def _note_writes(self, batch: Sequence[StoreJob[Any]], *, has_changes: bool) -> None:
        """Note whether the file takes writes: a transaction that changes nothing does not show."""
        errors = [job.error for job in batch if job.error is not None]
        if has_changes and len(errors) < len(batch):
            self._writes.note_success()
        for error in errors:
            self._writes.note_error(error)

    def _run(self, db: sqlite3.Connection, batch: Sequence[StoreJob[Any]]) -> None:
        """Run all jobs in one transaction; if it fails, run each in a transaction of its own.
        Afterwards each job has its value or its error."""
        try:
            if self._damage is not None:
                raise self._damage
            _undo(db)  # a transaction is open here only if the disk refused a rollback before
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            self._fail(batch, error)
            return
        try:
            self._work(db, batch)
        except Exception as error:
            _undo(db)
            self._retry(db, batch, error)
            return
        try:
            self._presence.check()
            db.execute("COMMIT")
        except StoreUnavailable as error:
            _undo(db)
            self._fail(batch, error)
        except sqlite3.Error as error:
            if db.in_transaction:
                _undo(db)
                self._retry(db, batch, error)
            else:
                self._resolve_lost(db, batch, error)

    def _work(self, db: sqlite3.Connection, batch: Sequence[StoreJob[Any]]) -> None:
        for job in batch:
            before = db.total_changes
            try:
                job.run(db, self._unreadable)
            except AwakenError as error:
                job.error = error
                if db.total_changes != before:
                    raise  # the job's changes must not be committed with the other jobs

    def _run_alone(self, db: sqlite3.Connection, job: StoreJob[Any]) -> None:
        """Run a job that must not be inside a transaction."""
        try:
            if self._damage is not None:
                raise self._damage
            self._presence.check()
            job.run(db, self._unreadable)
        except Exception as error:
            self._fail([job], error)

    def _fail(self, batch: Sequence[StoreJob[Any]], error: Exception) -> None:
        self.note_damage(error)
        for job in batch:
            job.error = explain(self._path, error, doing="written")

    def _retry(
        self, db: sqlite3.Connection, batch: Sequence[StoreJob[Any]], error: Exception
    ) -> None:
        if len(batch) == 1:
            self._fail(batch, error)
            return
        for job in batch:
            self._run(db, [job])

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
                self._fail([job], error)
            elif found is _UNKNOWN:
                job.error = CommitUnknown(error)
                job.error.__cause__ = error
            else:
                job.value = found


def _undo(db: sqlite3.Connection) -> None:
    # SQLite may have rolled back itself, for example because the disk is full.
    if db.in_transaction:
        db.execute("ROLLBACK")
