"""The accounts of run trees: made from stored records, and shared by the live runs of a tree."""

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

    A background agent goes on while its owner waits, and may still run when the owner goes on. In
    one process both use the same account, which exists as long as one of them holds it. Accounts of
    a tree in several processes are kept equal by the tree's book.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._held: WeakValueDictionary[str, Account] = WeakValueDictionary()
        self._books: WeakKeyDictionary[Account, TreeBook] = WeakKeyDictionary()

    def holds(self, run_id: str) -> bool:
        """Whether this process has an account of the run that is in use."""
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
        """The run's account, with the stored spending of the run and of its open delegates.

        Returns `None` if no budget applies to the run.

        Args:
            own: the limits of the run itself.
            above: the account of the run it works for.
            state: the stored state of the run; `None` for a new run, which gets its share of the
                budget of `above`.
            starter: the run, or task, that started it.
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
        """Read the book of the account's tree. The tree publishes its spending there from now on if
        it `is_spread` over processes, or if another process has begun the book."""
        root = account.root
        book = self._books.get(root)
        if book is None:
            book = TreeBook(self._store, self._clock, root.name, self._held)
            self._books[root] = book
        parts = {root, account} if account.is_part else {root}
        if await book.open(*parts, begin=is_spread):
            root.book = book

    async def spread(self, run_id: str | None) -> None:
        """Have the run's tree publish its spending from now on: the run is about to start something
        that another process may carry on."""
        account = self._held.get(run_id or "")
        if account is not None and account.root.book is None:
            await self._share(account, is_spread=True)

    async def of_run(self, run_id: str | None, resolver: ExecutionResolver) -> Account | None:
        """The account of a stored run, whether or not a process runs it."""
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
        return None  # the process that runs it gets the error
    return budget


# -- spending that the run's own record does not include yet ----------------------------------

Counts = list[tuple[str, Spending]]
"""Run ids, and the stored spending of each."""


async def spending_beneath(store: Store, context: ThreadContext) -> Counts:
    """The stored spending of a run's delegates whose calls have not ended, and of those beneath
    them, as the run counts it. Background agents are left out: each is a part of its own."""
    found: Counts = []
    for call in context.calls:
        if call.phase in _UNDER_WAY:
            found += await _of_delegate(store, child_id(call.key))
    return found


async def _of_delegate(store: Store, run_id: str) -> Counts:
    """The stored spending of a delegate and of those beneath it, as the run above counts it."""
    context = await store.load_context(run_id, tail=0)
    if context is None:
        return []
    found, run = [(run_id, spending_in(context.run_state))], context.open_run
    if run is not None and run.status is not RunStatus.DONE:
        # The record of a run that has ended includes the spending of all beneath it.
        found += await spending_beneath(store, context)
    return [(id, known.as_parents()) for id, known in found]
