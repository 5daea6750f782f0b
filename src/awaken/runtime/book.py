"""What processes that carry on parts of one run tree tell each other of its budget."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from weakref import WeakValueDictionary

import msgspec

from awaken.budget.account import Account, book_key
from awaken.clock import Clock
from awaken.codec import from_json, to_json
from awaken.contract.profile import ProfileOwner
from awaken.contract.store import Store
from awaken.domain.budget import Amount, Spending
from awaken.domain.lifecycle import RunStatus
from awaken.domain.value import Value
from awaken.errors import VersionConflict

LOOK_AGAIN = 0.2
"""How often whoever finds too little looks whether another process has freed some, in seconds."""

_OWNER = ProfileOwner()
_NOTHING = Amount()


class Entry(Value, frozen=True, kw_only=True):
    """What a part of a tree has used up, as seen from itself, and has set aside; `runs` are the one
    at its top and those above it."""

    runs: tuple[str, ...]
    known: Spending = Spending()
    aside: Amount = _NOTHING


class TreeBook:
    """One value in the store for the whole tree, replaced only by who has read it.

    Whoever sets something aside tells so first, and learns that way what the others have told. What
    was used up is told before it is on record with its run.
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
        """Read what is told of a tree, some parts of which may be carried on here; whether there is
        something, or this is to begin it."""
        for part in parts:
            self._parts[part.name] = part
        async with self._writing:
            await self._read()
            while begin and not (self._version or self._is_deleted):
                await self._write(self._now())
                await self._know()
            return bool(self._version)

    async def agree(self, account: Account) -> bool:
        """Tell the others what is set aside here, unless that is too much; see `Book`."""
        async with self._writing:
            while True:
                await self._know()
                if account.is_overdrawn:
                    return False
                if await self._write(self._now()):
                    return True

    async def publish(self) -> None:
        """Tell the others what was used up here."""
        async with self._writing:
            while True:
                await self._know()
                if await self._write(self._now()):
                    return

    async def refresh(self) -> None:
        """Wait a little, and read what the others have told; what those had set aside who are gone
        is free."""
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
            # It goes with its root: whoever is left of the tree has nobody to tell.
            self._is_deleted = self._is_begun
            return
        self._is_begun = True
        self._entries = from_json(found.value, dict[str, Entry])
        for name, told in self._entries.items():
            if not self._is_here(told):
                self._hear(name, told)

    def _hear(self, name: str, told: Entry) -> None:
        """Pass on what is told of a part to its account, or the first above it that is here."""
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
        """Whether a part has something set aside, and nobody carries it on."""
        if told.aside == _NOTHING or self._is_here(told):
            return False
        run = await self._store.load_run(told.runs[0])
        if run is None or run.status is not RunStatus.RUNNING:
            return True
        thread = await self._store.load_thread(run.thread_id)
        return thread is None or thread.owner is None

    # -- writing ------------------------------------------------------------------------------

    def _now(self) -> dict[str, Entry]:
        """What there is to tell: of the parts that are here, and what others have told."""
        entries = dict(self._entries)
        for part in list(self._parts.values()):
            if part.is_here:
                runs, own = tuple(account.name for account in part.chain()), part.own_spending()
                known = Spending(spent=own.spent.without_time(), granted=own.granted)
                entries[part.name] = Entry(runs=runs, known=known, aside=part.reserved_here())
        return entries

    async def _write(self, entries: dict[str, Entry]) -> bool:
        """Replace what is told; false if somebody else has, since it was read."""
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
            self._version = None  # it may have been written all the same
            raise
        self._version, self._entries, self._is_begun = written.version, entries, True
        return True
