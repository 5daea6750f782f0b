"""The accounts of run trees: made from what is on record, and shared by all that is alive."""

from __future__ import annotations

from weakref import WeakKeyDictionary, WeakValueDictionary

from awaken.budget.account import Account
from awaken.clock import Clock
from awaken.codec import from_json
from awaken.contract.commits import CallPhase, child_id
from awaken.contract.registry import ExecutionResolver
from awaken.contract.store import Store
from awaken.contract.threads import ThreadContext
from awaken.domain.budget import Budget, Spending
from awaken.domain.lifecycle import RunStatus
from awaken.domain.run import PersistedState, RunRecord
from awaken.errors import AwakenError
from awaken.ext.background.state import BACKGROUND_TASK_STATE
from awaken.runtime.book import TreeBook
from awaken.runtime.delegates import spending_in

_UNDER_WAY = (CallPhase.INTENT, CallPhase.SUSPENDED)


class Accounts:
    """Opens the accounts of runs.

    An agent in the background goes on while its owner waits, and is there when that one is taken
    up: both live off one account, for as long as one of them holds it. In another process they live
    off the same one by its book.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._held: WeakValueDictionary[str, Account] = WeakValueDictionary()
        self._books: WeakKeyDictionary[Account, TreeBook] = WeakKeyDictionary()

    def holds(self, run_id: str) -> bool:
        """Whether somebody lives off an account of the run."""
        return run_id in self._held

    async def open(
        self,
        run_id: str,
        own: Budget | None,
        above: Account | None,
        state: PersistedState | None,
        context: ThreadContext,
        starter: str | None = None,
    ) -> Account | None:
        """What a run may use up, less what it, and what it is not done with, have on record;
        nothing if nobody set a limit.

        Args:
            own: the limits of the run itself.
            above: the account of the run it works for.
            state: what the run is on record with; nothing for a new one, which gets its share of
                what is above.
            starter: the run, or task, that has started it.
        """
        account = self._held.get(run_id)
        in_task = starter is not None and run_id == child_id(starter)
        if account is None or account.parent is not above or own not in (None, account.budget):
            if above is not None:
                limits = own if state is not None else above.share(own)
                account = above.child(limits, name=run_id, is_part=in_task)
            elif own is not None:
                account = Account(own, name=run_id, clock=self._clock)
            else:
                return None
            self._held[run_id] = account
        if state is not None:
            account.restore(run_id, spending_in(state))
            for id, known in await spending_beneath(self._store, context):
                account.restore(id, known)
        has_tasks = (
            state is not None and BACKGROUND_TASK_STATE.name in context.thread_state.extensions
        )
        is_spread = in_task or has_tasks
        if is_spread or (state is not None and above is None):
            await self._share(account, is_spread)
        return account

    async def _share(self, account: Account, is_spread: bool) -> None:
        """Read what other processes say of a tree that may be theirs too; if it `is_spread`, or
        they have said something, they are told of what is used up from now on."""
        root = account.root
        book = self._books.get(root)
        if book is None:
            book = TreeBook(self._store, self._clock, root.name, self._held)
            self._books[root] = book
        parts = {root, account} if account.is_part else {root}
        if await book.open(*parts, begin=is_spread):
            root.book = book

    async def spread(self, run_id: str | None) -> None:
        """A run is about to start something that another process may carry on: from now on, who
        carries on a part of its tree tells the others what is used up."""
        account = self._held.get(run_id or "")
        if account is not None and account.root.book is None:
            await self._share(account, is_spread=True)

    async def of_run(self, run_id: str | None, resolver: ExecutionResolver) -> Account | None:
        """The account of a run that is on record, whether or not somebody carries it on."""
        record = await self._store.load_run(run_id) if run_id is not None else None
        if record is None:
            return None
        held = self._held.get(record.run_id)
        if held is not None:
            return held
        above = await self.of_run(record.parent_run_id, resolver)
        context = await self._store.load_context(record.thread_id, tail=0)
        if record.is_task or context is None:
            return above
        own, state = _budget_of(record, resolver), record.state or PersistedState()
        starter = record.parent_run_id
        return await self.open(record.run_id, own, above, state, context, starter)


def _budget_of(record: RunRecord, resolver: ExecutionResolver) -> Budget | None:
    """The limits a run was given, else its agent's own."""
    extras = record.request.request_extras if record.request is not None else None
    if isinstance(extras, dict) and "budget" in extras:
        return from_json(extras["budget"], Budget)
    try:
        budget: Budget | None = resolver.resolve_execution(record.agent_id).spec.budget
    except AwakenError:
        return None  # whoever runs it will be told
    return budget


# -- what is not counted with the run yet -----------------------------------------------------

Counts = list[tuple[str, Spending]]
"""Runs, and what they are on record with."""


async def spending_beneath(store: Store, context: ThreadContext) -> Counts:
    """What runs beneath one are on record with that are no part of its own record, as seen from
    it: delegates whose calls are not done. Agents in the background count for themselves."""
    found: Counts = []
    for call in context.calls:
        if call.phase in _UNDER_WAY:
            found += await _of_delegate(store, child_id(call.key))
    return found


async def _of_delegate(store: Store, run_id: str) -> Counts:
    """What a delegate, and those beneath it, are on record with, as seen from the run above it."""
    context = await store.load_context(run_id, tail=0)
    if context is None:
        return []
    found, run = [(run_id, spending_in(context.run_state))], context.open_run
    if run is not None and run.status is not RunStatus.DONE:
        # One that is over has taken all beneath it into its own record.
        found += await spending_beneath(store, context)
    return [(id, known.as_parents()) for id, known in found]
