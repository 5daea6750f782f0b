"""Checking that every row of a store can be read, and mending those that can be mended.

A row is mended by compare and set: only if its bytes are still those that were read, and if no live
process owns its thread. The old bytes are in a file before the first row is changed.
"""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from awaken.codec import Json, dumps, loads
from awaken.core.access import Deed, KeyEntry, Session
from awaken.core.run import RunRecord
from awaken.core.store.commands import ThreadCommand
from awaken.core.store.commits import StreamLogEntry
from awaken.core.suspension import Ticket
from awaken.core.thread import ThreadMetadata
from awaken.core.unreadable import RowKind, UnreadableRow
from awaken.stores.sql.cursors import UNREADABLE, reason_of
from awaken.stores.sql.delta import Delta
from awaken.stores.sql.fold import FoldedState
from awaken.stores.sql.mending import mend

ROWS_AT_ONCE = 100
"""How many rows are read, and changed, at once. The row of a commit may have a megabyte."""
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag

TYPES: dict[RowKind, Any] = {
    RowKind.THREAD: ThreadMetadata,
    RowKind.RUN: RunRecord,
    RowKind.COMMIT: Delta,
    RowKind.SNAPSHOT: FoldedState,
    RowKind.TICKET: Ticket,
    RowKind.COMMAND: ThreadCommand,
    RowKind.STREAM: StreamLogEntry,
    RowKind.PROFILE: Json,
    RowKind.KEY: KeyEntry,
    RowKind.SESSION: Session,
    RowKind.DEED: Deed,
}
"""What the rows of each kind are decoded as."""


class StoredRow(NamedTuple):
    """A row as it is stored. `key` is its primary key; `thread` that of its thread, if it has
    one."""

    key: tuple[Any, ...]
    id: str
    thread: int | None
    thread_id: str | None
    body: Any


class RowChange(NamedTuple):
    """A row that is to be mended."""

    kind: RowKind
    row: StoredRow
    body: bytes


@runtime_checkable
class HasRows(Protocol):
    """A store whose rows can be checked and mended."""

    async def load_rows(
        self, kind: RowKind, after: tuple[Any, ...] | None, limit: int
    ) -> Sequence[StoredRow]:
        """The first `limit` rows of a kind behind the key `after`, in the order of their keys."""
        ...

    async def replace_rows(self, changes: Sequence[RowChange]) -> Sequence[str | None]:
        """Change rows, each if its bytes are still the same and no live process owns its thread.
        Returns for each `None`, or why it was left as it is."""
        ...


class CheckedRow(UnreadableRow, frozen=True, kw_only=True):
    """A row that cannot be decoded. It `can_be_mended`, or `was_mended`, or was left for the reason
    `why_left`."""

    can_be_mended: bool = False
    was_mended: bool = False
    why_left: str | None = None


class CheckedRows(NamedTuple):
    """The result for some rows: how many there were, and those that cannot be decoded."""

    rows: int
    unreadable: Sequence[CheckedRow]


async def check_rows(store: HasRows, backup: Backup | None = None) -> AsyncIterator[CheckedRows]:
    """Decode every row of a store. With `backup`, mend those that can be mended.

    Raises:
        OSError: the old bytes cannot be written to the file; the rows were not changed.
    """
    for kind in TYPES:
        after: tuple[Any, ...] | None = None
        while rows := await store.load_rows(kind, after, ROWS_AT_ONCE):
            after = rows[-1].key
            found = [(row, error) for row in rows if (error := _error_in(kind, row)) is not None]
            changes = [
                RowChange(kind, row, mended)
                for row, _ in found
                if isinstance(row.body, bytes)
                and (mended := mend(row.body, TYPES[kind])) is not None
            ]
            refused: dict[tuple[Any, ...], str | None] = {}
            if backup is not None and changes:
                backup.write(changes)
                outcomes = await store.replace_rows(changes)
                for change, why in zip(changes, outcomes, strict=True):
                    refused[change.row.key] = why
            mendable = {change.row.key for change in changes}
            yield CheckedRows(
                len(rows),
                [
                    CheckedRow(
                        kind=kind,
                        id=row.id,
                        thread_id=row.thread_id,
                        reason=error,
                        can_be_mended=row.key in mendable,
                        was_mended=row.key in refused and refused[row.key] is None,
                        why_left=refused.get(row.key),
                    )
                    for row, error in found
                ],
            )


def _error_in(kind: RowKind, row: StoredRow) -> str | None:
    """Why a row cannot be decoded; `None` if it can."""
    try:
        loads(row.body, TYPES[kind])
    except UNREADABLE as error:
        return reason_of(error)
    return None


class Backup:
    """A file with the old bytes of the rows that are mended. It is made for the first of them, for
    this user alone, and never overwrites another."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_made = False

    def write(self, changes: Sequence[RowChange]) -> None:
        """Write the old and the new bytes of rows, and return when they are on the disk.

        Raises:
            OSError: they cannot be written; `FileExistsError` if there is such a file.
        """
        flags = os.O_WRONLY | os.O_APPEND | _NO_FOLLOW
        if not self.is_made:
            flags |= os.O_CREAT | os.O_EXCL
        fd = os.open(self.path, flags, 0o600)
        with open(fd, "wb") as file:
            self.is_made = True
            for change in changes:
                file.write(dumps(_line(change)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        _sync_folder(self.path.parent)


def _line(change: RowChange) -> Json:
    row = change.row
    return {
        "kind": change.kind,
        "id": row.id,
        "thread_id": row.thread_id,
        "key": row.key,
        "old": base64.b64encode(row.body).decode(),
        "new": base64.b64encode(change.body).decode(),
    }


def _sync_folder(folder: Path) -> None:
    """Make the name of a new file durable, where a folder can be opened for that."""
    if os.name == "nt":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
