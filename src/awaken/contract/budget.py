"""The account of a run tree: what is reserved before each call, and what it came to."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from awaken.domain.budget import Amount, Budget, Spending
from awaken.errors import BudgetExhausted

_NOTHING = Amount()
_LIMITS = ("tokens", "money", "steps", "seconds")
# What adding and taking away floats leaves behind is no spending.
_CRUMBS = 1e-9


class Account:
    """What one run may use up, within what the runs above it may.

    Nothing is used up that was not reserved first: calls made side by side never overdraw it
    together. What each run has spent is known by its id, so that a run that is taken up again,
    here or in another process, is not counted twice.
    """

    def __init__(self, budget: Budget, parent: Account | None = None) -> None:
        self.budget = budget
        self.parent = parent
        self._runs: dict[str, Spending] = {}
        self._spent = self._reserved = self._granted = _NOTHING

    def child(self, budget: Budget | None = None) -> Account:
        """An account for a run this one's starts, with limits of its own or a share of what is
        left now."""
        return Account(budget or self._shared(), self)

    def _shared(self) -> Budget:
        share = self.budget.share
        if share == 1:
            return Budget(at_limit=self.budget.at_limit)
        left = self.left()
        return Budget(
            tokens=None if left.tokens is None else max(1, int(left.tokens * share)),
            money=None if left.money is None else max(_CRUMBS, left.money * share),
            steps=None if left.steps is None else max(1, int(left.steps * share)),
            seconds=None if left.seconds is None else max(_CRUMBS, left.seconds * share),
            at_limit=self.budget.at_limit,
            share=share,
        )

    # -- looking ------------------------------------------------------------------------------

    @property
    def spent(self) -> Amount:
        return self._spent

    @property
    def reserved(self) -> Amount:
        return self._reserved

    def spending_of(self, run_id: str) -> Spending:
        """What is known of one run."""
        return self._runs.get(run_id, Spending())

    def left(self) -> Left:
        """What may still be reserved; of each limit the tightest, here or above."""
        left = Left(*[self._left(name) for name in _LIMITS])
        if self.parent is None:
            return left
        above = self.parent.left()
        return Left(*[_least(getattr(left, name), getattr(above, name)) for name in _LIMITS])

    def _left(self, name: str) -> float | None:
        limit = getattr(self.budget, name)
        if limit is None:
            return None
        used = getattr(self._spent, name) + getattr(self._reserved, name)
        left: float = limit + getattr(self._granted, name) - used
        return left

    def _chain(self) -> Iterator[Account]:
        account: Account | None = self
        while account is not None:
            yield account
            account = account.parent

    # -- spending -----------------------------------------------------------------------------

    def reserve(self, run_id: str, wanted: Amount) -> Reservation:
        """Set aside what a call may use up at most.

        Raises:
            BudgetExhausted: there is not so much left; nothing was set aside.
        """
        for account in self._chain():
            account._check(wanted)
        for account in self._chain():
            account._reserved += wanted
        return Reservation(self, run_id, wanted)

    def _check(self, wanted: Amount) -> None:
        for name in _LIMITS:
            left, want = self._left(name), getattr(wanted, name)
            if left is not None and (want > left + _CRUMBS or left <= _CRUMBS):
                limit = getattr(self.budget, name) + getattr(self._granted, name)
                raise BudgetExhausted(name, limit=limit, left=max(0, left), wanted=want)

    def release(self, reserved: Amount) -> None:
        """Free what was set aside."""
        for account in self._chain():
            account._reserved -= reserved

    def use(self, run_id: str, amount: Amount) -> None:
        """Count what was used up."""
        for account in self._chain():
            account._spent += amount
            account._note(run_id, Spending(spent=amount))

    def grant(self, run_id: str, more: Amount) -> None:
        """Allow more, here and above, on behalf of a run that asked."""
        for account in self._chain():
            account._granted += more
            account._note(run_id, Spending(granted=more))

    def restore(self, run_id: str, known: Spending) -> None:
        """Take over what a run is on record with; what is counted already is not counted again."""
        for account in self._chain():
            before = account.spending_of(run_id)
            account._runs[run_id] = known
            account._spent += known.spent - before.spent
            account._granted += known.granted - before.granted

    def fold(self, run_id: str, into: str) -> Spending:
        """Count a finished run's spending as that of the run it worked for; returns it."""
        known = self.spending_of(run_id)
        for account in self._chain():
            found = account._runs.pop(run_id, None)
            if found is not None:
                account._note(into, found)
        return known

    def _note(self, run_id: str, more: Spending) -> None:
        self._runs[run_id] = self.spending_of(run_id) + more


class Left(msgspec.Struct, frozen=True):
    """What is left of each limit; nothing where there is none."""

    tokens: float | None = None
    money: float | None = None
    steps: float | None = None
    seconds: float | None = None


def _least(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


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
