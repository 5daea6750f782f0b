"""The budgets of runs: their accounts, and the ledger by which processes share a tree's budget.

An account is opened from the record of its run and from the account of the run above it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec

from awaken.clock import Clock
from awaken.codec import from_json, to_json
from awaken.core.account import Account, ledger_key
from awaken.core.budget import Amount, Budget, Spending
from awaken.core.lifecycle import RunStatus
from awaken.core.profile import ProfileOwner
from awaken.core.registry import ExecutionResolver
from awaken.core.run import PersistedState, RunRecord
from awaken.core.store.commits import CallPhase
from awaken.core.store.store import Store
from awaken.core.store.threads import ThreadContext
from awaken.core.thread_ids import agent_ids, child_ids
from awaken.core.value import Value
from awaken.errors import AwakenError, VersionConflict
from awaken.ext.tasks.state import BACKGROUND_TASK_STATE
from awaken.worker.delegates import spending_in


class Accounts:
    """Opens the accounts of runs, and keeps each one as long as a run or task uses it.

    A background agent continues while its owner is paused, and both use accounts of one tree. So a
    run that is resumed in the same process gets the account that is still in use. Processes that
    run parts of one tree share its spending through a `StoreBudgetLedger`.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._accounts: WeakValueDictionary[str, Account] = WeakValueDictionary()
        self._ledgers: WeakKeyDictionary[Account, StoreBudgetLedger] = WeakKeyDictionary()

    def is_open(self, run_id: str) -> bool:
        """Whether the run's account is in use in this process."""
        return run_id in self._accounts

    async def open(
        self,
        run_id: str,
        own: Budget | None,
        parent: Account | None,
        state: PersistedState | None,
        context: ThreadContext,
        starter: str | None = None,
    ) -> Account | None:
        """Open the account of a run, with the recorded spending of the run and of its unfinished
        delegates. Returns `None` if neither the run nor one above it has limits.

        Args:
            own: the run's own limits.
            parent: the account of the parent run.
            state: the recorded state of a continued run; `None` for a new one, whose limits are
                then its share of the parent's remaining budget.
            starter: the id of the run or task that started the run.
        """
        account = self._accounts.get(run_id)
        in_task = starter is not None and run_id in agent_ids(starter)
        if account is None or account.parent is not parent or own not in (None, account.budget):
            if parent is not None:
                limits = own if state is not None else parent.share(own)
                account = parent.child(limits, name=run_id, is_part=in_task)
            elif own is not None:
                account = Account(own, name=run_id, clock=self._clock)
            else:
                return None
            self._accounts[run_id] = account
        if state is not None:
            account.restore(run_id, spending_in(state))
            for id, known in await list_delegate_spending(self._store, context):
                account.restore(id, known)
        has_tasks = (
            state is not None and BACKGROUND_TASK_STATE.name in context.thread_state.extensions
        )
        is_spread = in_task or has_tasks
        if is_spread or (state is not None and parent is None):
            await self._share(account, is_spread)
        return account

    async def _share(self, account: Account, is_spread: bool) -> None:
        """Read the tree's ledger. If other processes may run parts of the tree (`is_spread`), or
        have written to the ledger, spending is published there from now on."""
        root = account.root
        ledger = self._ledgers.get(root)
        if ledger is None:
            ledger = StoreBudgetLedger(self._store, self._clock, root.name, self._accounts)
            self._ledgers[root] = ledger
        parts = {root, account} if account.is_part else {root}
        if await ledger.open(*parts, begin=is_spread):
            root.ledger = ledger

    async def spread(self, run_id: str | None) -> None:
        """Start the ledger of a run's tree. Called before the run starts a task with an agent,
        which another process may continue: from then on, spending is published to the ledger."""
        account = self._accounts.get(run_id or "")
        if account is not None and account.root.ledger is None:
            await self._share(account, is_spread=True)

    async def of_run(self, run_id: str | None, resolver: ExecutionResolver) -> Account | None:
        """The account of a recorded run, opened if it is not in use. A task has the account of the
        run above it. Returns `None` if there are no limits or no such run."""
        record = await self._store.load_run(run_id) if run_id is not None else None
        if record is None:
            return None
        account = self._accounts.get(record.run_id)
        if account is not None:
            return account
        parent = await self.of_run(record.parent_run_id, resolver)
        context = await self._store.load_context(record.thread_id, tail=0)
        if record.is_task or context is None:
            return parent
        own, state = _budget_of(record, resolver), record.state or PersistedState()
        starter = record.parent_run_id
        return await self.open(record.run_id, own, parent, state, context, starter)


def _budget_of(record: RunRecord, resolver: ExecutionResolver) -> Budget | None:
    """The limits of the run's request, else those of its agent."""
    extras = record.request.request_extras if record.request is not None else None
    if isinstance(extras, dict) and "budget" in extras:
        return from_json(extras["budget"], Budget)
    try:
        budget: Budget | None = resolver.resolve_execution(record.agent_id).spec.budget
    except AwakenError:
        return None  # the process that continues the run reports the error
    return budget


# -- spending of delegates that the run's own record does not include yet ---------------------

_UNDER_WAY = (CallPhase.INTENT, CallPhase.SUSPENDED)
Counts = list[tuple[str, Spending]]
"""Run ids and their recorded spending."""


async def list_delegate_spending(store: Store, context: ThreadContext) -> Counts:
    """The recorded spending of delegates whose calls have not ended: the parent's own record does
    not include it yet. Background agents are counted separately."""
    found: Counts = []
    for call in context.calls:
        if call.phase in _UNDER_WAY:
            for child in child_ids(context.thread.id, call.key):
                found += await _list_spending_of(store, child)
    return found


async def _list_spending_of(store: Store, run_id: str) -> Counts:
    """The recorded spending of a delegate and of the runs below it, as its parent counts it."""
    context = await store.load_context(run_id, tail=0)
    if context is None:
        return []
    found, run = [(run_id, spending_in(context.run_state))], context.open_run
    if run is not None and run.status is not RunStatus.DONE:
        # The record of a delegate that has ended includes the spending of its own delegates.
        found += await list_delegate_spending(store, context)
    return [(id, known.as_parents()) for id, known in found]


# -- the ledger of a run tree -----------------------------------------------------------------

REFRESH_SECONDS = 0.2
"""The seconds that `refresh` waits before it reads the ledger again."""
_OWNER = ProfileOwner()
_ZERO = Amount()


class LedgerEntry(Value, frozen=True, kw_only=True):
    """One part's entry in the ledger: its spending (`known`, as the part itself counts it) and what
    it has reserved (`aside`). `runs` are the ids of the part's top run and of the runs above it."""

    runs: tuple[str, ...]
    known: Spending = Spending()
    aside: Amount = _ZERO


class StoreBudgetLedger:
    """A `BudgetLedger` that is one value in the store, written by compare-and-swap.

    A process publishes a reservation before the reserved call starts; to write the ledger it must
    have read what others have reserved. Spending is published before it is committed with its run.
    """

    def __init__(
        self, store: Store, clock: Clock, root: str, accounts: Mapping[str, Account]
    ) -> None:
        self._store = store
        self._clock = clock
        self._key = ledger_key(root)
        self._accounts = accounts
        self._parts: WeakValueDictionary[str, Account] = WeakValueDictionary()
        self._entries: dict[str, LedgerEntry] = {}
        self._version: int | None = None
        self._is_begun = self._is_deleted = False
        self._writing = asyncio.Lock()

    async def open(self, *parts: Account, begin: bool) -> bool:
        """Read the ledger of a tree whose `parts` may run in this process; with `begin`, create it
        if it is missing. Returns whether the tree has a ledger."""
        for part in parts:
            self._parts[part.name] = part
        async with self._writing:
            await self._read()
            while begin and not (self._version or self._is_deleted):
                await self._write(self._current_entries())
                await self._ensure_read()
            return bool(self._version)

    async def agree(self, account: Account) -> bool:
        """See `BudgetLedger.agree`."""
        async with self._writing:
            while True:
                await self._ensure_read()
                if account.is_overdrawn:
                    return False
                if await self._write(self._current_entries()):
                    return True

    async def publish(self) -> None:
        """Publish this process's spending."""
        async with self._writing:
            while True:
                await self._ensure_read()
                if await self._write(self._current_entries()):
                    return

    async def refresh(self) -> None:
        """Wait `REFRESH_SECONDS` seconds, then read the ledger. Reservations of parts that no
        process runs any more are removed."""
        await self._clock.sleep(REFRESH_SECONDS)
        async with self._writing:
            await self._read()
            freed = {
                name: msgspec.structs.replace(entry, aside=_ZERO)
                for name, entry in self._entries.items()
                if await self._is_gone(entry)
            }
            if freed:
                await self._write({**self._entries, **freed})
                await self._read()

    # -- reading ------------------------------------------------------------------------------

    async def _ensure_read(self) -> None:
        if self._version is None:
            await self._read()

    async def _read(self) -> None:
        found = await self._store.profiles.get(_OWNER, self._key)
        self._version = found.version if found is not None else 0
        if found is None:
            # Deleting the root run deletes its ledger. If there was one, it is not written again.
            self._is_deleted = self._is_begun
            return
        self._is_begun = True
        self._entries = from_json(found.value, dict[str, LedgerEntry])
        for name, entry in self._entries.items():
            if not self._is_here(entry):
                self._update_account(name, entry)

    def _update_account(self, name: str, entry: LedgerEntry) -> None:
        """Pass a part's entry on to the account of its top run, or of the nearest run above it
        whose account is in use here."""
        known = entry.known
        for run_id in entry.runs:
            account = self._accounts.get(run_id)
            if account is not None:
                return account.update_part(name, known, entry.aside)
            known = known.as_parents()

    def _is_here(self, entry: LedgerEntry) -> bool:
        part = self._parts.get(entry.runs[0])
        return part is not None and part.is_here

    async def _is_gone(self, entry: LedgerEntry) -> bool:
        """Whether a part has reservations although no process runs it."""
        if entry.aside == _ZERO or self._is_here(entry):
            return False
        run = await self._store.load_run(entry.runs[0])
        if run is None or run.status is not RunStatus.RUNNING:
            return True
        thread = await self._store.load_thread(run.thread_id)
        return thread is None or thread.owner is None

    # -- writing ------------------------------------------------------------------------------

    def _current_entries(self) -> dict[str, LedgerEntry]:
        """The ledger's entries, with those of this process's parts brought up to date."""
        entries = dict(self._entries)
        for part in list(self._parts.values()):
            if part.is_here:
                runs, own = tuple(account.name for account in part.chain()), part.own_spending()
                known = Spending(spent=own.spent.without_time(), granted=own.granted)
                entries[part.name] = LedgerEntry(
                    runs=runs, known=known, aside=part.local_reservations()
                )
        return entries

    async def _write(self, entries: dict[str, LedgerEntry]) -> bool:
        """Replace the ledger's entries. Returns false if another process has written the ledger
        since it was read."""
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
