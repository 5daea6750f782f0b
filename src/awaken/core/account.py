"""Accounts of a run tree: reserve a call's budget before it, count its real cost after it.

The limits themselves (`Budget`) and the figures (`Amount`, `Spending`) are in `core.budget`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Protocol

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.aio.cancel import wait_first
from awaken.core.budget import LIMITS, Amount, Budget, Spending
from awaken.errors import BudgetExhausted

_NOTHING = Amount()
# Differences below this are float rounding, not spending.
_ROUNDING = 1e-9


def ledger_key(root: str) -> str:
    """The key of a tree's ledger in the store; deleting the root run deletes the ledger too."""
    return f"budget:{root}"


class BudgetLedger(Protocol):
    """Where processes that run parts of one run tree publish what they reserve and spend."""

    async def agree(self, account: Account) -> bool:
        """Publish what this process has reserved.

        Returns `False`, and publishes nothing, if other processes have reserved so much meanwhile
        that `account` or one of its ancestors is overdrawn.

        Raises:
            StoreError: the ledger could not be written.
        """
        ...

    async def publish(self) -> None:
        """Publish what this process has spent.

        Raises:
            StoreError: the ledger could not be written.
        """
        ...

    async def refresh(self) -> None:
        """Wait a little, then read what other processes have published.

        Raises:
            StoreError: the ledger could not be read.
        """
        ...


class Account:
    """The budget of one run, within the budgets of the runs above it.

    Every call reserves what it may cost before it starts, so parallel calls cannot overdraw the
    account together. Spending is counted by run id: a run that is resumed, here or in another
    process, is not counted twice. Each run counts its own time; a parent's time includes its
    children's, so their time is not added to it.

    A background agent, with the delegates it waits for, is a *part* of the tree, because another
    process may run it. Accounts above a part count it as a whole, under its `name`. A tree that
    has parts has a `ledger` at its root.
    """

    def __init__(
        self,
        budget: Budget,
        parent: Account | None = None,
        *,
        name: str = "",
        is_part: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.budget = budget
        self.parent = parent
        self.name = name
        self.ledger: BudgetLedger | None = None
        self._part: Account = self if parent is None or is_part else parent._part
        self._clock = clock
        # The spending of each run of this part, and of each part beneath it, by run id. Their
        # grants are counted from this account: the first one belongs to it.
        self._runs: dict[str, Spending] = {}
        self._parts: set[str] = set()
        self._reserved_elsewhere: dict[str, Amount] = {}
        self._reservations: set[Reservation] = set()
        self._spent = self._reserved = self._granted = _NOTHING
        self._open = 0
        self._began: float | None = None
        self.is_here = False
        self._waiting: list[asyncio.Future[None]] = []
        self._waiters = 0
        if parent is not None and is_part:
            for account in parent.chain():
                account._parts.add(name)

    def child(
        self, budget: Budget | None = None, *, name: str = "", is_part: bool = False
    ) -> Account:
        """An account for a run started by this account's run, with its own limits if given."""
        own = budget or Budget(at_limit=self.budget.at_limit)
        return Account(own, self, name=name, is_part=is_part, clock=self._clock)

    def share(self, own: Budget | None = None) -> Budget | None:
        """The limits for a run about to start: the tighter of its own and its share of the rest.

        They are computed once: later spending by other runs does not change them.
        """
        share, left = self.budget.share, self.remaining()
        if share == 1:
            return own
        own = own or Budget(at_limit=self.budget.at_limit, share=share)

        def part(name: str, least: float) -> float | None:
            amount, limit = getattr(left, name), getattr(own, name)
            return _least([limit, None if amount is None else max(least, amount * share)])

        tokens, steps = part("tokens", 1), part("steps", 1)
        return msgspec.structs.replace(
            own,
            tokens=None if tokens is None else int(tokens),
            money=part("money", _ROUNDING),
            steps=None if steps is None else int(steps),
            seconds=part("seconds", _ROUNDING),
        )

    def chain(self) -> Iterator[Account]:
        """This account and its ancestors, this one first."""
        account: Account | None = self
        while account is not None:
            yield account
            account = account.parent

    @property
    def root(self) -> Account:
        """The account of the tree."""
        return list(self.chain())[-1]

    def _names_of_run(self, run_id: str) -> Iterator[tuple[Account, str]]:
        """This account and its ancestors, each with the name under which it counts the run.

        Accounts above the run's part count it under the name of that part.
        """
        for account in self.chain():
            yield account, run_id
            if account is self._part:
                run_id = account.name

    # -- reading ------------------------------------------------------------------------------

    @property
    def usage(self) -> Amount:
        """What this run and its descendants have spent, with the time since it began."""
        return self._spent + Amount(seconds=self._running())

    @property
    def counted_usage(self) -> Amount:
        """`usage` without the time since the last count: the figures of the run's record."""
        return self._spent

    @property
    def total_reserved(self) -> Amount:
        """The sum that calls under way have reserved, in this process and in others."""
        return sum(self._reserved_elsewhere.values(), self._reserved)

    @property
    def counts_money(self) -> bool:
        """Whether money is limited, here or above."""
        return any(account.budget.money is not None for account in self.chain())

    def limit(self, name: str) -> float | None:
        """A limit plus what approvers granted beyond it, or `None` if there is no such limit."""
        limit = getattr(self.budget, name)
        total: float | None = None if limit is None else limit + getattr(self._granted, name)
        return total

    def spending_of(self, run_id: str) -> Spending:
        """The spending and the grants of one run; grants are numbered from this account upwards."""
        return self._runs.get(run_id, Spending())

    def remaining(self) -> Remaining:
        """The amounts that may still be reserved: for each limit, the least of this account and its
        ancestors."""
        accounts = list(self.chain())
        return Remaining(
            *[_least([account._remaining(name) for account in accounts]) for name in LIMITS]
        )

    def _remaining(self, name: str) -> float | None:
        limit = self.limit(name)
        if limit is None:
            return None
        used: float = getattr(self.usage, name) + getattr(self.total_reserved, name)
        return limit - used

    @property
    def is_overdrawn(self) -> bool:
        """Whether more is spent and reserved than this account or an ancestor allows."""
        amounts = [account._remaining(name) for account in self.chain() for name in LIMITS]
        return any(left is not None and left < -_ROUNDING for left in amounts)

    def _running(self) -> float:
        return 0.0 if self._began is None else self._clock.monotonic() - self._began

    # -- spending -----------------------------------------------------------------------------

    def reserve(self, run_id: str, amount: Amount) -> Reservation:
        """Reserve the most that a call may cost.

        Raises:
            BudgetExhausted: too little is left; nothing was reserved.
        """
        for level, account in enumerate(self.chain()):
            account._check(amount, level)
        for account in self.chain():
            account._reserved += amount
            account._open += 1
        reservation = Reservation(self, run_id, amount)
        self._part._reservations.add(reservation)
        return reservation

    async def reserve_shared(self, run_id: str, amount: Amount) -> Reservation | None:
        """Reserve like `reserve`, and publish it to the other processes of the tree first.

        Returns `None`, with nothing reserved, if other processes have reserved too much meanwhile:
        the caller reads `remaining` again.

        Raises:
            BudgetExhausted: too little is left; nothing was reserved.
            StoreError: the tree's ledger could not be written.
        """
        reservation, ledger = self.reserve(run_id, amount), self.root.ledger
        if ledger is None:
            return reservation
        try:
            agreed = await ledger.agree(self)
        except BaseException:
            reservation.settle(_NOTHING)
            raise
        if agreed:
            return reservation
        reservation.settle(_NOTHING)
        return None

    def _check(self, amount: Amount, level: int) -> None:
        for name in LIMITS:
            left, requested = self._remaining(name), getattr(amount, name)
            if name == "steps" and not requested:
                continue  # the call belongs to a step that was counted already
            if left is not None and (requested > left + _ROUNDING or left <= _ROUNDING):
                raise BudgetExhausted(
                    name,
                    limit=self.limit(name) or 0,
                    left=max(0, left),
                    wanted=requested,
                    level=level,
                    asks=self.budget.at_limit == "ask",
                    may_come_back=getattr(self.total_reserved, name) > 0,
                )

    async def wait_for_budget(self) -> None:
        """Wait until budget may be free again: a call of the tree ended, or more was granted.

        Other processes are only polled: it may return late, or without a change.
        """
        ledger = self.root.ledger
        if ledger is None:
            await self._wait_freed()
        else:
            await wait_first(self._wait_freed(), ledger.refresh())

    async def _wait_freed(self) -> None:
        root = self.root
        freed = asyncio.get_running_loop().create_future()
        root._waiting.append(freed)
        root._waiters += 1
        try:
            await freed
        finally:
            root._waiters -= 1
            if freed in root._waiting:
                root._waiting.remove(freed)

    async def yield_to_waiting(self) -> None:
        """Let runs of the tree that wait for budget reserve before this one does."""
        if self.root._waiters:
            await asyncio.sleep(0)

    def release(self, reservation: Reservation) -> None:
        """Free a reservation."""
        self._part._reservations.discard(reservation)
        for account in self.chain():
            account._open -= 1
            # Subtracting floats may leave a rest that no later release would remove.
            rest = account._reserved - reservation.amount
            account._reserved = rest if account._open else _NOTHING
            account._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for freed in waiting:
            if not freed.done():
                freed.set_result(None)

    def use(self, run_id: str, amount: Amount) -> None:
        """Count what a run has spent."""
        self._count_up(run_id, Spending(spent=amount))

    def grant(self, run_id: str, more: Amount, level: int) -> Spending:
        """Raise the limit of the account `level` levels above, on behalf of a run that asked.

        Returns the grant as the run's record has to keep it.
        """
        note = Spending.grant(more, level)
        self._count_up(run_id, note)
        for account in self.chain():
            account._wake()
        return note

    def restore(self, run_id: str, recorded: Spending) -> None:
        """Count the spending in a run's record, unless it is counted already."""
        for account, name in self._names_of_run(run_id):
            account._count(name, recorded.beyond(account.spending_of(name)))
            recorded = (account.own_spending() if account is self._part else recorded).as_parents()

    def merge_run(self, run_id: str, into: str) -> Spending:
        """Count the spending of a finished run under `into`, the run that started it.

        Returns the spending that the record of `into` has to add.
        """
        merged = self.spending_of(run_id)
        for account, name in self._names_of_run(into):
            spending = account._runs.pop(run_id, None)
            if spending is not None:
                account._runs[name] = account.spending_of(name) + spending
        return merged

    def merge_all_runs(self, into: str) -> Spending:
        """Count the spending of all runs beneath `into` under it: they have all ended.

        Parts of the tree may still be running. They keep their own counts, and only the record of
        the root includes them.
        """
        merged = Spending()
        for name in [name for name in self._runs if name != into]:
            if name not in self._parts:
                merged += self.merge_run(name, into)
            elif self.parent is None:
                merged += self._runs[name]
        return merged

    def _count_up(self, run_id: str, more: Spending) -> None:
        for account, name in self._names_of_run(run_id):
            account._count(name, more)
            more = more.as_parents()

    def _count(self, run_id: str, more: Spending) -> None:
        self._runs[run_id] = self.spending_of(run_id) + more
        self._spent += more.spent
        if more.granted:
            self._granted += more.granted[0]

    # -- parts --------------------------------------------------------------------------------

    @property
    def is_part(self) -> bool:
        """Whether this is the account at the top of a part, or the root of the tree."""
        return self._part is self

    def own_spending(self) -> Spending:
        """The spending of the runs of this part, without the parts beneath it."""
        mine = [spending for name, spending in self._runs.items() if name not in self._parts]
        return sum(mine, Spending())

    def local_reservations(self) -> Amount:
        """The sum that this process has reserved for calls of this part."""
        return sum([each.amount for each in self._reservations], _NOTHING)

    def update_part(self, name: str, published: Spending, reserved: Amount) -> None:
        """Count what another process published about a part that it runs.

        The part is this account's own or one beneath it; `published` is counted from this account.
        """
        for account in self.chain():
            counted = account.own_spending() if account.name == name else account.spending_of(name)
            account._count(name, published.beyond(counted))
            account._reserved_elsewhere[name] = reserved
            if account.name != name:
                account._parts.add(name)
            published = published.as_parents()

    async def publish(self, *, leaves: bool = False) -> None:
        """Publish what was spent to the other processes of the tree.

        With `leaves`, this process stops running the run and publishes no more about it.

        Raises:
            StoreError: the tree's ledger could not be written.
        """
        ledger = self.root.ledger
        if ledger is not None:
            await ledger.publish()
        if leaves:
            self.is_here = False

    # -- time ---------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the run's time: this process runs it from now on."""
        self._began = self._clock.monotonic()
        self.is_here = True
        if self.is_part and self.name in self._reserved_elsewhere:
            for account in self.chain():
                account._reserved_elsewhere.pop(self.name, None)

    def count_time(self, run_id: str) -> float:
        """Count the seconds since `begin` or the last call, and return them."""
        passed = self._running()
        if self._began is not None:
            self._began += passed
            self._count(run_id, Spending(spent=Amount(seconds=passed)))
        return passed

    def pause(self) -> None:
        """Stop the run's time: it is paused or has ended."""
        self._began = None
        self.is_here = False


class Remaining(msgspec.Struct, frozen=True):
    """The rest of each limit; `None` where there is no limit."""

    tokens: float | None = None
    money: float | None = None
    steps: float | None = None
    seconds: float | None = None


def _least(amounts: list[float | None]) -> float | None:
    return min((amount for amount in amounts if amount is not None), default=None)


class Reservation:
    """The amount that one call has reserved, until its real cost is known."""

    __slots__ = ("_account", "_run_id", "amount")

    def __init__(self, account: Account, run_id: str, amount: Amount) -> None:
        self._account: Account | None = account
        self._run_id = run_id
        self.amount = amount

    def settle(self, used: Amount) -> None:
        """Count what the call really cost and free the reservation. Only the first call counts."""
        account, self._account = self._account, None
        if account is None:
            return
        account.release(self)
        if used != _NOTHING:
            account.use(self._run_id, used)
