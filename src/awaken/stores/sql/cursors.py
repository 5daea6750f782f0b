"""The cursors of lists, and rows that this version cannot decode.

A cursor holds the sort key of a page's last row, and is valid for one query. Lists leave out the
rows that cannot be decoded; each of these is logged once.
"""

from __future__ import annotations

import base64
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from awaken.codec import digest, dumps, loads, to_json
from awaken.core.run import RunRecord
from awaken.core.store.commands import ThreadCommand
from awaken.core.store.commits import StreamLogEntry
from awaken.core.store.threads import RunQuery, ThreadQuery, TicketQuery
from awaken.core.suspension import Ticket, TicketStatus
from awaken.core.thread import NO_METADATA, ThreadMetadata
from awaken.core.unreadable import RowKind, UnreadableRow
from awaken.errors import InvalidRecord, Serialization, UnreadableRecord

log = logging.getLogger("awaken.stores.unreadable")

_replace = msgspec.structs.replace
T = TypeVar("T")
Query = RunQuery | ThreadQuery | TicketQuery


def cursor_after(query: Query, rows: Sequence[Any], *sort_key: int | str) -> str | None:
    """The cursor of a page that ends at `sort_key`; `None` if `rows` has no row behind it."""
    if len(rows) <= query.limit:
        return None
    return base64.urlsafe_b64encode(dumps([_name(query), *sort_key])).decode()


def parse_cursor(query: Query, *types: type) -> list[Any] | None:
    """The sort key of the last row of the previous page, or `None` without a cursor.

    Raises:
        InvalidRecord: the cursor does not belong to this query.
    """
    if query.cursor is None:
        return None
    try:
        text = base64.b64decode(query.cursor, b"-_", validate=True)
        name, *sort_key = loads(text, list[int | str])
    except (ValueError, msgspec.DecodeError) as error:
        raise InvalidRecord(f"{query.cursor!r} is not a cursor: use the one a page gave") from error
    if (
        name != _name(query)
        or [type(value) for value in sort_key] != list(types)
        or not all(abs(value) < 2**63 for value in sort_key if isinstance(value, int))
    ):
        raise InvalidRecord(
            f"cursor {query.cursor!r} belongs to another list: use it with the query that gave it"
        )
    return list(sort_key)


def _name(query: Query) -> str:
    """A digest of the query without cursor and limit: the size of the pages may change."""
    asked = to_json(_replace(query, limit=1, cursor=None))
    return digest([type(query).__name__, asked])


UNREADABLE = (msgspec.MsgspecError, Serialization, ValueError, TypeError, RecursionError)
"""What decoding a row raises that does not fit."""
MAX_KNOWN = 10_000
"""How many rows are remembered, so that each is logged and counted once."""


class UnreadableRows:
    """The rows that a store has failed to decode. It is used by all threads of a store.

    `runs` and `commands` are the ids of those that a worker has to pass over: runs whose record,
    and commands whose body or whose run's record cannot be decoded. They are checked again before
    they are used (`recheck`), since `awaken db check --mend` may have mended them meanwhile.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], UnreadableRow] = {}
        self.runs: set[str] = set()
        self.commands: set[int] = set()

    def count(self) -> Mapping[str, int]:
        """How many rows of each kind were met."""
        return Counter(kind for kind, _ in list(self._known))

    def note(
        self, kind: RowKind, id: str, error: BaseException, thread_id: str | None = None
    ) -> UnreadableRow:
        """Log a row, if it is met for the first time, and return it."""
        row = UnreadableRow(kind=kind, id=id, reason=reason_of(error), thread_id=thread_id)
        key = (kind.value, row.name)
        if key not in self._known and len(self._known) < MAX_KNOWN:
            self._known[key] = row
            log.error(
                "%s cannot be read and is left out (%s): `awaken db check` lists all such rows",
                row.name,
                row.reason,
            )
        return row

    def note_record(self, error: UnreadableRecord) -> None:
        """The same, for a row without which an operation failed."""
        self.note(RowKind(error.kind), error.name, error, error.thread_id)

    def read(
        self, kind: RowKind, id: str, body: Any, type_: type[T], thread_id: str | None = None
    ) -> T | None:
        """The value of a row, or `None` if it cannot be decoded."""
        try:
            return loads(body, type_)
        except UNREADABLE as error:
            self.note(kind, id, error, thread_id)
            return None

    def read_stream(self, thread_id: str, pieces: Iterable[Any]) -> tuple[StreamLogEntry, ...]:
        """The log of an unfinished answer; nothing if a part of it cannot be decoded, since its
        model can be asked again."""
        found: list[StreamLogEntry] = []
        for number, piece in enumerate(pieces, start=1):
            entry = self.read(RowKind.STREAM, str(number), piece, StreamLogEntry, thread_id)
            if entry is None:
                return ()
            found.append(entry)
        return tuple(found)

    def collect(
        self, kind: RowKind, rows: Iterable[tuple[str, Callable[[], T]]]
    ) -> tuple[tuple[T, ...], tuple[UnreadableRow, ...]]:
        """The values of the rows of a list, and the rows that cannot be decoded."""
        found: list[T] = []
        left_out: list[UnreadableRow] = []
        for id, read in rows:
            try:
                found.append(read())
            except UNREADABLE as error:
                left_out.append(self.note(kind, id, error))
        return tuple(found), tuple(left_out)

    # -- for workers --------------------------------------------------------------------------

    def read_run(self, id: str, body: Any) -> RunRecord | None:
        """The record of a run that a worker looks at, or `None` if it has to be passed over."""
        record = self.read(RowKind.RUN, id, body, RunRecord)
        if record is None:
            self.runs.add(id)
        return record

    def read_command(self, id: int, body: Any) -> ThreadCommand | None:
        """A command that a worker looks at, or `None` if it has to be passed over."""
        command = self.read(RowKind.COMMAND, str(id), body, ThreadCommand)
        if command is None:
            self.commands.add(id)
            return None
        return msgspec.structs.replace(command, id=id)

    def recheck(
        self, runs: Iterable[tuple[str, Any]], commands: Iterable[tuple[int, Any, Any]]
    ) -> None:
        """Keep those runs and commands that still cannot be decoded. `runs` has the ids and records
        of the known ones, `commands` the ids and bodies, and the records of their runs."""
        self.runs = {id for id, body in runs if not _fits(body, RunRecord)}
        self.commands = {
            id
            for id, body, record in commands
            if not _fits(body, ThreadCommand)
            or (record is not None and not _fits(record, RunRecord))
        }


class UnreadableCommit(Exception):
    """The row of a commit, or a snapshot, cannot be decoded. `thread` is the primary key of its
    thread; the store turns this into an `UnreadableRecord`, which names the thread."""

    def __init__(self, kind: RowKind, thread: int, position: int, error: BaseException) -> None:
        super().__init__(str(error))
        self.kind, self.thread, self.position = kind, thread, position

    def to_record(self, thread_id: str, first: int, following: int) -> UnreadableRecord:
        """The error for callers: it names the thread, and the messages of the commit, of which
        `first` is the first; `following` is the first message behind them."""
        return UnreadableRecord(
            self.kind,
            str(self.position),
            str(self),
            thread_id=thread_id,
            messages=(first, following - 1),
        )


def load_row(
    kind: RowKind, id: str, body: bytes, type_: type[T], thread_id: str | None = None
) -> T:
    """The value of a row.

    Raises:
        UnreadableRecord: it cannot be decoded.
    """
    try:
        return loads(body, type_)
    except UNREADABLE as error:
        raise UnreadableRecord(kind, id, reason_of(error), thread_id=thread_id) from error


def load_metadata(
    thread_id: str, record: bytes | None, unreadable: UnreadableRows | None
) -> ThreadMetadata:
    """The metadata of a thread. Where it cannot be decoded and `unreadable` is given, that is noted
    there, and the thread has none.

    Raises:
        UnreadableRecord: it cannot be decoded.
    """
    if record is None:
        return NO_METADATA
    if unreadable is None:
        return load_row(RowKind.THREAD, thread_id, record, ThreadMetadata)
    return unreadable.read(RowKind.THREAD, thread_id, record, ThreadMetadata) or NO_METADATA


def load_ticket(key: str, status: str, record: bytes) -> Ticket:
    """The ticket of a row, with the status that the row has.

    Raises:
        UnreadableRecord: it cannot be decoded.
    """
    ticket = load_row(RowKind.TICKET, key, record, Ticket)
    if ticket.status == status:
        return ticket
    return msgspec.structs.replace(ticket, status=TicketStatus(status))


def readable_commands(bodies: Iterable[Any]) -> list[ThreadCommand]:
    """Those of the commands that can be decoded."""
    return [loads(body, ThreadCommand) for body in bodies if _fits(body, ThreadCommand)]


def reason_of(error: BaseException) -> str:
    """What is wrong in a row, in the words of the error."""
    if isinstance(error, UnreadableRecord):
        return error.reason
    return str(error) or type(error).__name__


def _fits(body: Any, type_: type[Any]) -> bool:
    try:
        loads(body, type_)
    except UNREADABLE:
        return False
    return True
