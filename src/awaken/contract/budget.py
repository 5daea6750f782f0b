"""The account of a run tree: what is reserved before each call, and what it came to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.domain.budget import LIMITS, Amount, Budget, Spending
from awaken.errors import BudgetExhausted

_NOTHING = Amount()
# What adding and taking away floats leaves behind is no spending.
_CRUMBS = 1e-9


class Account:
    """What one run may use up, within what the runs above it may.

    Nothing is used up that was not reserved first, so calls made side by side never overdraw it
    together. What each run has spent is known by its id: one that is taken up again, here or in
    another process, is not counted twice. Time is each run's own; those beneath it pass the same.
    """

    def __init__(
        self, budget: Budget, parent: Account | None = None, *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.budget = budget
        self.parent = parent
        self._clock = clock
        self._runs: dict[str, Spending] = {}
        self._spent = self._reserved = self._granted = _NOTHING
        self._began: float | None = None
        self._waiting: list[asyncio.Future[None]] = []

    def child(self, budget: Budget | None = None) -> Account:
        """An account for a run that this one's starts: with limits of its own, or with a share of
        what is left now."""
        return Account(budget or self._shared(), self, clock=self._clock)

    def _shared(self) -> Budget:
        share, left = self.budget.share, self.left()
        if share == 1:
            return Budget(at_limit=self.budget.at_limit)
        return Budget(
            tokens=None if left.tokens is None else max(1, int(left.tokens * share)),
            money=None if left.money is None else max(_CRUMBS, left.money * share),
            steps=None if left.steps is None else max(1, int(left.steps * share)),
            seconds=None if left.seconds is None else max(_CRUMBS, left.seconds * share),
            at_limit=self.budget.at_limit,
            share=share,
        )

    def chain(self) -> Iterator[Account]:
        """This account and those above it."""
        account: Account | None = self
        while account is not None:
            yield account
            account = account.parent

    # -- looking ------------------------------------------------------------------------------

    @property
    def spent(self) -> Amount:
        """What this run and those beneath it have used up."""
        return self._spent + Amount(seconds=self._running())

    @property
    def reserved(self) -> Amount:
        return self._reserved

    def limit(self, name: str) -> float | None:
        """A limit, with what was granted beyond it."""
        limit = getattr(self.budget, name)
        total: float | None = None if limit is None else limit + getattr(self._granted, name)
        return total

    def spending_of(self, run_id: str) -> Spending:
        """What is known of one run."""
        return self._runs.get(run_id, Spending())

    def left(self) -> Left:
        """What may still be reserved; of each limit the tightest, here or above."""
        accounts = list(self.chain())
        return Left(*[_least([account._left(name) for account in accounts]) for name in LIMITS])

    def _left(self, name: str) -> float | None:
        limit = self.limit(name)
        if limit is None:
            return None
        used: float = getattr(self.spent, name) + getattr(self._reserved, name)
        return limit - used

    def _running(self) -> float:
        return 0.0 if self._began is None else self._clock.monotonic() - self._began

    # -- spending -----------------------------------------------------------------------------

    def reserve(self, run_id: str, wanted: Amount) -> Reservation:
        """Set aside what a call may use up at most.

        Raises:
            BudgetExhausted: there is not so much left; nothing was set aside.
        """
        for level, account in enumerate(self.chain()):
            account._check(wanted, level)
        for account in self.chain():
            account._reserved += wanted
        return Reservation(self, run_id, wanted)

    def _check(self, wanted: Amount, level: int) -> None:
        for name in LIMITS:
            left, want = self._left(name), getattr(wanted, name)
            if left is not None and (want > left + _CRUMBS or left <= _CRUMBS):
                raise BudgetExhausted(
                    name,
                    limit=self.limit(name) or 0,
                    left=max(0, left),
                    wanted=want,
                    level=level,
                    asks=self.budget.at_limit == "ask",
                    may_come_back=getattr(self._reserved, name) > 0,
                )

    async def something_is_freed(self) -> None:
        """Wait until a call of the tree has used up less, or more, than was set aside for it."""
        root = list(self.chain())[-1]
        freed = asyncio.get_running_loop().create_future()
        root._waiting.append(freed)
        try:
            await freed
        finally:
            if freed in root._waiting:
                root._waiting.remove(freed)

    def release(self, reserved: Amount) -> None:
        """Free what was set aside."""
        for account in self.chain():
            account._reserved -= reserved
            waiting, account._waiting = account._waiting, []
            for freed in waiting:
                if not freed.done():
                    freed.set_result(None)

    def use(self, run_id: str, amount: Amount) -> None:
        """Count what was used up."""
        for account in self.chain():
            account._spent += amount
            account._note(run_id, Spending(spent=amount))

    def grant(self, run_id: str, more: Amount, level: int) -> Spending:
        """Raise the limit of the account so many levels above, on behalf of a run that asked;
        returns what that run's record has to say of it."""
        note = Spending(granted={level: more})
        self._note(run_id, note)
        self._raise(note)
        return note

    def _raise(self, known: Spending) -> None:
        accounts = list(self.chain())
        for level, more in known.granted.items():
            if 0 <= level < len(accounts):
                accounts[level]._granted += more

    def restore(self, run_id: str, known: Spending) -> None:
        """Take over what a run is on record with; what is counted already is not counted again."""
        before = self._runs.get(run_id)
        for account in self.chain():
            counted = account.spending_of(run_id)
            account._runs[run_id] = known
            more = known.spent - counted.spent
            account._spent += more if account is self else more.without_time()
        if before is None:
            self._raise(known)

    def fold(self, run_id: str, into: str) -> Spending:
        """Count a finished run as part of the one it worked for, whose account this is; returns
        what that one's record has to say of it."""
        known = self.spending_of(run_id).as_parents()
        for account in self.chain():
            if account._runs.pop(run_id, None) is not None:
                account._note(into, known)
        return known

    def _note(self, run_id: str, more: Spending) -> None:
        self._runs[run_id] = self.spending_of(run_id) + more

    # -- time ---------------------------------------------------------------------------------

    def begin(self) -> None:
        """The run is carried on from now on."""
        self._began = self._clock.monotonic()

    def lap(self, run_id: str) -> float:
        """Count the time since the run began or this was called last; returns it."""
        passed = self._running()
        if self._began is not None:
            self._began += passed
            self._spent += Amount(seconds=passed)
            self._note(run_id, Spending(spent=Amount(seconds=passed)))
        return passed

    def pause(self) -> None:
        """The run is not carried on for now."""
        self._began = None


class Left(msgspec.Struct, frozen=True):
    """What is left of each limit; nothing where there is none."""

    tokens: float | None = None
    money: float | None = None
    steps: float | None = None
    seconds: float | None = None


def _least(amounts: list[float | None]) -> float | None:
    return min((amount for amount in amounts if amount is not None), default=None)


class Reservation:
    """What was set aside for one call, until it is known what the call used up."""

    __slots__ = ("_account", "_run_id", "amount")

    def __init__(self, account: Account, run_id: str, amount: Amount) -> None:
        self._account: Account | None = account
        self._run_id = run_id
        self.amount = amount

    def settle(self, used: Amount) -> None:
        """The call used up so much; what is over is free again. Only the first answer counts."""
        account, self._account = self._account, None
        if account is None:
            return
        account.release(self.amount)
        account.use(self._run_id, used)
