"""Running several jobs in one transaction, and each on its own if that fails."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from awaken.errors import AwakenError, CommitUnknown, StoreUnavailable
from awaken.stores.sqlite.errors import code_of, explain
from awaken.stores.sqlite.jobs import Job
from awaken.stores.sqlite.presence import Presence

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_NOT_KNOWN = object()


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

    def run(self, db: sqlite3.Connection, batch: Sequence[Job[Any]]) -> None:
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
                self._find_out(db, batch, error)

    def run_bare(self, db: sqlite3.Connection, job: Job[Any]) -> None:
        """Run a job that must not be inside a transaction."""
        try:
            if self._damage is not None:
                raise self._damage
            self._presence.check()
            job.value = job.work(db)
        except Exception as error:
            self.fail([job], error)

    def fail(self, batch: Sequence[Job[Any]], error: Exception) -> None:
        self.note(error)
        for job in batch:
            job.error = explain(self._path, error, doing="written")

    def _retry(self, db: sqlite3.Connection, batch: Sequence[Job[Any]], error: Exception) -> None:
        if len(batch) == 1:
            self.fail(batch, error)
            return
        for job in batch:
            self.run(db, [job])

    def _find_out(
        self, db: sqlite3.Connection, batch: Sequence[Job[Any]], error: sqlite3.Error
    ) -> None:
        """Find out whether each job was written, after SQLite ended a transaction with an error."""
        for job in batch:
            if job.error is not None:
                continue
            try:
                found = job.lost(db) if job.lost is not None else _NOT_KNOWN
            except (sqlite3.Error, AwakenError):
                found = _NOT_KNOWN
            if found is None:
                self.fail([job], error)
            elif found is _NOT_KNOWN:
                job.error = CommitUnknown(error)
                job.error.__cause__ = error
            else:
                job.value = found


def _work(db: sqlite3.Connection, job: Job[Any]) -> None:
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
