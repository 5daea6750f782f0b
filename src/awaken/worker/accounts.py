"""Opening the budget accounts of runs, from their records and their parents' accounts."""

from __future__ import annotations

from weakref import WeakKeyDictionary, WeakValueDictionary

from awaken.clock import Clock
from awaken.codec import from_json
from awaken.core.account import Account
from awaken.core.budget import Budget, Spending
from awaken.core.lifecycle import RunStatus
from awaken.core.registry import ExecutionResolver
from awaken.core.run import PersistedState, RunRecord
from awaken.core.store.commits import CallPhase
from awaken.core.store.store import Store
from awaken.core.store.threads import ThreadContext
from awaken.core.thread_ids import agent_ids, child_ids
from awaken.errors import AwakenError
from awaken.ext.tasks.state import BACKGROUND_TASK_STATE
from awaken.worker.budgets import TreeBook
from awaken.worker.delegates import spending_in

_UNDER_WAY = (CallPhase.INTENT, CallPhase.SUSPENDED)


class Accounts:
    """Opens the accounts of runs, and keeps each one as long as a run or task uses it.

    A background agent goes on while its owner is paused, and both use accounts of one tree. So a
    run that is resumed in the same process gets the account that is still in use. Processes that
    run parts of one tree share its spending through a `TreeBook`.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._held: WeakValueDictionary[str, Account] = WeakValueDictionary()
        self._books: WeakKeyDictionary[Account, TreeBook] = WeakKeyDictionary()

    def holds(self, run_id: str) -> bool:
        """Whether the run's account is in use in this process."""
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
        """Open the account of a run, with the recorded spending of the run and of its unfinished
        delegates. Returns `None` if neither the run nor one above it has limits.

        Args:
            own: the run's own limits.
            above: the account of the parent run.
            state: the recorded state of a continued run; `None` for a new one, whose limits are
                then its share of the parent's remaining budget.
            starter: the id of the run or task that started the run.
        """
        account = self._held.get(run_id)
        in_task = starter is not None and run_id in agent_ids(starter)
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
        """Read the tree's book. If other processes may run parts of the tree (`is_spread`), or
        have written to the book, spending is published there from now on."""
        root = account.root
        book = self._books.get(root)
        if book is None:
            book = TreeBook(self._store, self._clock, root.name, self._held)
            self._books[root] = book
        parts = {root, account} if account.is_part else {root}
        if await book.open(*parts, begin=is_spread):
            root.book = book

    async def spread(self, run_id: str | None) -> None:
        """Start the book of a run's tree. Called before the run starts a task with an agent, which
        another process may continue: from then on, spending is published to the book."""
        account = self._held.get(run_id or "")
        if account is not None and account.root.book is None:
            await self._share(account, is_spread=True)

    async def of_run(self, run_id: str | None, resolver: ExecutionResolver) -> Account | None:
        """The account of a recorded run, opened if it is not in use. A task has the account of the
        run above it. Returns `None` if there are no limits or no such run."""
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

Counts = list[tuple[str, Spending]]
"""Run ids and their recorded spending."""


async def spending_beneath(store: Store, context: ThreadContext) -> Counts:
    """The recorded spending of delegates whose calls have not ended: the parent's own record does
    not include it yet. Background agents are counted separately."""
    found: Counts = []
    for call in context.calls:
        if call.phase in _UNDER_WAY:
            for child in child_ids(context.thread.id, call.key):
                found += await _of_delegate(store, child)
    return found


async def _of_delegate(store: Store, run_id: str) -> Counts:
    """The recorded spending of a delegate and of the runs below it, as its parent counts it."""
    context = await store.load_context(run_id, tail=0)
    if context is None:
        return []
    found, run = [(run_id, spending_in(context.run_state))], context.open_run
    if run is not None and run.status is not RunStatus.DONE:
        # The record of a delegate that has ended includes the spending of its own delegates.
        found += await spending_beneath(store, context)
    return [(id, known.as_parents()) for id, known in found]
