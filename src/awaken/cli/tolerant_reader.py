"""Reading a thread although some of its rows cannot be read, and naming those rows."""

from __future__ import annotations

from collections.abc import Iterable

from awaken.cli.options import MOST_LISTED
from awaken.core.message import MessageRecord
from awaken.core.store.commits import CallEntry
from awaken.core.store.store import Store
from awaken.core.store.threads import ThreadQuery
from awaken.core.thread import Thread
from awaken.core.unreadable import RowKind, UnreadableRow
from awaken.errors import UnreadableRecord


class TolerantReader:
    """Reads a thread, and collects the rows that cannot be read in `rows`."""

    def __init__(self, store: Store, thread: Thread) -> None:
        self._store = store
        self._thread = thread
        self._rows: dict[str, UnreadableRow] = {}

    @property
    def rows(self) -> tuple[UnreadableRow, ...]:
        return tuple(self._rows.values())

    def add(self, rows: Iterable[UnreadableRow]) -> None:
        for row in rows:
            self._rows.setdefault(row.name, row)

    async def check_thread(self) -> None:
        """Add the row of the thread itself to `rows`, if it cannot be read."""
        query = ThreadQuery(prefix=self._thread.id, limit=MOST_LISTED)
        page = await self._store.list_threads(query)
        self.add(row for row in page.unreadable if row.id == self._thread.id)

    async def last_messages(self, limit: int) -> tuple[MessageRecord, ...]:
        """The last `limit` messages in view, or all if it is 0; if some cannot be read, the last of
        the whole log."""
        try:
            context = await self._store.load_context(self._thread.id, tail=limit or None)
            after = context.skipped if context is not None else 0
            return tuple(await self._store.load_records(self._thread.id, after=after))
        except UnreadableRecord as error:
            self._note(error)
        return (await self.messages(0, self._thread.message_count))[-limit:]

    async def messages(self, after: int, until: int) -> tuple[MessageRecord, ...]:
        """The messages behind position `after` up to `until`, also those out of view."""
        found: list[MessageRecord] = []
        skipped: set[str] = set()
        while after < until:
            try:
                return (*found, *await self._load(after, until))
            except UnreadableRecord as error:
                self._note(error)
                if error.messages is None or error.name in skipped:
                    break
                skipped.add(error.name)
                first, last = error.messages
                found += await self._load(after, first - 1)
                after = max(last, after)
        return tuple(found)

    async def _load(self, after: int, until: int) -> list[MessageRecord]:
        if until <= after:
            return []
        records = self._store.load_records(
            self._thread.id, after=after, limit=until - after, hidden=True
        )
        return list(await records)

    async def calls(self, run_id: str) -> tuple[CallEntry, ...]:
        try:
            return tuple(await self._store.load_calls(run_id))
        except UnreadableRecord as error:
            self._note(error)
            return ()

    def _note(self, error: UnreadableRecord) -> None:
        self.add(
            [
                UnreadableRow(
                    kind=RowKind(error.kind),
                    id=error.name,
                    reason=error.reason,
                    thread_id=error.thread_id,
                )
            ]
        )
