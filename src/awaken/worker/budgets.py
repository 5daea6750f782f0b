"""The book of a run tree: through it, processes that run parts of the tree share its budget."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from weakref import WeakValueDictionary

import msgspec

from awaken.clock import Clock
from awaken.codec import from_json, to_json
from awaken.core.account import Account, book_key
from awaken.core.budget import Amount, Spending
from awaken.core.lifecycle import RunStatus
from awaken.core.profile import ProfileOwner
from awaken.core.store.store import Store
from awaken.core.value import Value
from awaken.errors import VersionConflict

LOOK_AGAIN = 0.2
"""The seconds that `refresh` waits before it reads the book again."""

_OWNER = ProfileOwner()
_NOTHING = Amount()


class Entry(Value, frozen=True, kw_only=True):
    """One part's entry in the book: its spending (`known`, as the part itself counts it) and what
    it has reserved (`aside`). `runs` are the ids of the part's top run and of the runs above it."""

    runs: tuple[str, ...]
    known: Spending = Spending()
    aside: Amount = _NOTHING


class TreeBook:
    """A `Book` that is one value in the store, written by compare-and-swap.

    A process publishes a reservation before the reserved call starts; to write the book it must
    have read what others have reserved. Spending is published before it is committed with its run.
    """

    def __init__(
        self, store: Store, clock: Clock, root: str, accounts: Mapping[str, Account]
    ) -> None:
        self._store = store
        self._clock = clock
        self._key = book_key(root)
        self._accounts = accounts
        self._parts: WeakValueDictionary[str, Account] = WeakValueDictionary()
        self._entries: dict[str, Entry] = {}
        self._version: int | None = None
        self._is_begun = self._is_deleted = False
        self._writing = asyncio.Lock()

    async def open(self, *parts: Account, begin: bool) -> bool:
        """Read the book of a tree whose `parts` may run in this process; with `begin`, create it
        if it is missing. Returns whether the tree has a book."""
        for part in parts:
            self._parts[part.name] = part
        async with self._writing:
            await self._read()
            while begin and not (self._version or self._is_deleted):
                await self._write(self._now())
                await self._know()
            return bool(self._version)

    async def agree(self, account: Account) -> bool:
        """Publish this process's reservations, unless `account` is overdrawn; see `Book.agree`."""
        async with self._writing:
            while True:
                await self._know()
                if account.is_overdrawn:
                    return False
                if await self._write(self._now()):
                    return True

    async def publish(self) -> None:
        """Publish this process's spending."""
        async with self._writing:
            while True:
                await self._know()
                if await self._write(self._now()):
                    return

    async def refresh(self) -> None:
        """Wait `LOOK_AGAIN` seconds, then read the book. Reservations of parts that no process runs
        any more are removed."""
        await self._clock.sleep(LOOK_AGAIN)
        async with self._writing:
            await self._read()
            freed = {
                name: msgspec.structs.replace(told, aside=_NOTHING)
                for name, told in self._entries.items()
                if await self._is_gone(told)
            }
            if freed:
                await self._write({**self._entries, **freed})
                await self._read()

    # -- reading ------------------------------------------------------------------------------

    async def _know(self) -> None:
        if self._version is None:
            await self._read()

    async def _read(self) -> None:
        found = await self._store.profiles.get(_OWNER, self._key)
        self._version = found.version if found is not None else 0
        if found is None:
            # Deleting the root run deletes its book. If there was one, it is not written again.
            self._is_deleted = self._is_begun
            return
        self._is_begun = True
        self._entries = from_json(found.value, dict[str, Entry])
        for name, told in self._entries.items():
            if not self._is_here(told):
                self._hear(name, told)

    def _hear(self, name: str, told: Entry) -> None:
        """Pass a part's entry on to the account of its top run, or of the nearest run above it
        whose account is in use here."""
        known = told.known
        for run_id in told.runs:
            account = self._accounts.get(run_id)
            if account is not None:
                return account.update_part(name, known, told.aside)
            known = known.as_parents()

    def _is_here(self, told: Entry) -> bool:
        part = self._parts.get(told.runs[0])
        return part is not None and part.is_here

    async def _is_gone(self, told: Entry) -> bool:
        """Whether a part has reservations although no process runs it."""
        if told.aside == _NOTHING or self._is_here(told):
            return False
        run = await self._store.load_run(told.runs[0])
        if run is None or run.status is not RunStatus.RUNNING:
            return True
        thread = await self._store.load_thread(run.thread_id)
        return thread is None or thread.owner is None

    # -- writing ------------------------------------------------------------------------------

    def _now(self) -> dict[str, Entry]:
        """The book's entries, with those of this process's parts brought up to date."""
        entries = dict(self._entries)
        for part in list(self._parts.values()):
            if part.is_here:
                runs, own = tuple(account.name for account in part.chain()), part.own_spending()
                known = Spending(spent=own.spent.without_time(), granted=own.granted)
                entries[part.name] = Entry(runs=runs, known=known, aside=part.reserved_here())
        return entries

    async def _write(self, entries: dict[str, Entry]) -> bool:
        """Replace the book's entries. Returns false if another process has written the book since
        it was read."""
        if self._is_deleted or (entries == self._entries and self._version):
            return True
        try:
            written = await self._store.profiles.set(
                _OWNER, self._key, to_json(entries), expected_version=self._version
            )
        except VersionConflict:
            self._version = None
            return False
        except BaseException:
            self._version = None  # the write may have succeeded: read again before the next one
            raise
        self._version, self._entries, self._is_begun = written.version, entries, True
        return True
