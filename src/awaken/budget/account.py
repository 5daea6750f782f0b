"""The account of a run tree: what is reserved before each call, and what it came to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Protocol

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.control.cancel import first_of
from awaken.domain.budget import LIMITS, Amount, Budget, Spending
from awaken.errors import BudgetExhausted

_NOTHING = Amount()
# What adding and taking away floats leaves behind is no spending.
_CRUMBS = 1e-9


def book_key(root: str) -> str:
    """The name of a tree's book in the store; it goes with the run at the root."""
    return f"budget:{root}"


class Book(Protocol):
    """Where the processes that carry on parts of one run tree tell each other what they use up."""

    async def agree(self, account: Account) -> bool:
        """Tell the others what is set aside here; false if that is too much for an account, or one
        above it, by what they have told meanwhile.

        Raises:
            StoreError: it could not be told.
        """
        ...

    async def tell(self) -> None:
        """Tell the others what was used up here.

        Raises:
            StoreError: it could not be told.
        """
        ...

    async def news(self) -> None:
        """Wait a little, and read what the others have told.

        Raises:
            StoreError: it could not be read.
        """
        ...


class Account:
    """What one run may use up, within what the runs above it may.

    Nothing is used up that was not reserved first, so calls made side by side never overdraw it
    together. What each run has spent is known by its id: one that is taken up again, here or in
    another process, is not counted twice. Time is each run's own; those beneath it pass the same.

    An agent in the background, with the delegates it waits for, is a part of the tree that another
    process may carry on. Accounts above it know it as a whole, by its `name`. A tree with such
    parts has a `book` at its root.
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
        self.book: Book | None = None
        self._part: Account = self if parent is None or is_part else parent._part
        self._clock = clock
        # What is known of each run of this part, and of each part beneath, as seen from here: its
        # grants begin with those of this account.
        self._runs: dict[str, Spending] = {}
        self._parts: set[str] = set()
        self._elsewhere: dict[str, Amount] = {}
        self._under_way: set[Reservation] = set()
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
        """An account for a run that this one's starts, with limits of its own if it has some."""
        own = budget or Budget(at_limit=self.budget.at_limit)
        return Account(own, self, name=name, is_part=is_part, clock=self._clock)

    def share(self, own: Budget | None = None) -> Budget | None:
        """The limits of a run that is about to be started: its own, and its share of what is left
        now. They are the run's from then on, whatever happens to what is left."""
        share, left = self.budget.share, self.left()
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
            money=part("money", _CRUMBS),
            steps=None if steps is None else int(steps),
            seconds=part("seconds", _CRUMBS),
        )

    def chain(self) -> Iterator[Account]:
        """This account and those above it."""
        account: Account | None = self
        while account is not None:
            yield account
            account = account.parent

    @property
    def root(self) -> Account:
        """The account of the tree."""
        return list(self.chain())[-1]

    def _known_as(self, run_id: str) -> Iterator[tuple[Account, str]]:
        """This account and those above it, and how each knows the run: above its part, as that."""
        for account in self.chain():
            yield account, run_id
            if account is self._part:
                run_id = account.name

    # -- looking ------------------------------------------------------------------------------

    @property
    def spent(self) -> Amount:
        """What this run and those beneath it have used up by now."""
        return self._spent + Amount(seconds=self._running())

    @property
    def counted(self) -> Amount:
        """The same as of the last time it was counted, which is what records say."""
        return self._spent

    @property
    def reserved(self) -> Amount:
        """What is set aside for calls that are under way, here and elsewhere."""
        return sum(self._elsewhere.values(), self._reserved)

    @property
    def counts_money(self) -> bool:
        """Whether money is limited, here or above."""
        return any(account.budget.money is not None for account in self.chain())

    def limit(self, name: str) -> float | None:
        """A limit, with what was granted beyond it."""
        limit = getattr(self.budget, name)
        total: float | None = None if limit is None else limit + getattr(self._granted, name)
        return total

    def spending_of(self, run_id: str) -> Spending:
        """What is known of one run, as seen from here."""
        return self._runs.get(run_id, Spending())

    def left(self) -> Left:
        """What may still be reserved; of each limit the tightest, here or above."""
        accounts = list(self.chain())
        return Left(*[_least([account._left(name) for account in accounts]) for name in LIMITS])

    def _left(self, name: str) -> float | None:
        limit = self.limit(name)
        if limit is None:
            return None
        used: float = getattr(self.spent, name) + getattr(self.reserved, name)
        return limit - used

    @property
    def is_overdrawn(self) -> bool:
        """Whether more is used up and set aside than may be, here or above."""
        amounts = [account._left(name) for account in self.chain() for name in LIMITS]
        return any(left is not None and left < -_CRUMBS for left in amounts)

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
            account._open += 1
        reservation = Reservation(self, run_id, wanted)
        self._part._under_way.add(reservation)
        return reservation

    async def set_aside(self, run_id: str, wanted: Amount) -> Reservation | None:
        """The same, once all processes know of it; nothing if others have set aside more meanwhile:
        look again at what is left.

        Raises:
            BudgetExhausted: there is not so much left; nothing was set aside.
            StoreError: the others cannot be told.
        """
        reservation, book = self.reserve(run_id, wanted), self.root.book
        if book is None:
            return reservation
        try:
            agreed = await book.agree(self)
        except BaseException:
            reservation.settle(_NOTHING)
            raise
        if agreed:
            return reservation
        reservation.settle(_NOTHING)
        return None

    def _check(self, wanted: Amount, level: int) -> None:
        for name in LIMITS:
            left, want = self._left(name), getattr(wanted, name)
            if name == "steps" and not want:
                continue  # it belongs to a step that was counted
            if left is not None and (want > left + _CRUMBS or left <= _CRUMBS):
                raise BudgetExhausted(
                    name,
                    limit=self.limit(name) or 0,
                    left=max(0, left),
                    wanted=want,
                    level=level,
                    asks=self.budget.at_limit == "ask",
                    may_come_back=getattr(self.reserved, name) > 0,
                )

    async def something_is_freed(self) -> None:
        """Wait until a call of the tree has ended, or somebody was granted more, here or in another
        process; that may be late, or not be so."""
        book = self.root.book
        if book is None:
            await self._freed()
        else:
            await first_of(self._freed(), book.news())

    async def _freed(self) -> None:
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

    async def let_others_go_first(self) -> None:
        """Give those of the tree who were woken the time to take what they waited for."""
        if self.root._waiters:
            await asyncio.sleep(0)

    def release(self, reservation: Reservation) -> None:
        """Free what was set aside."""
        self._part._under_way.discard(reservation)
        for account in self.chain():
            account._open -= 1
            # Floats that are taken away again may leave a crumb, which nobody would ever free.
            rest = account._reserved - reservation.amount
            account._reserved = rest if account._open else _NOTHING
            account._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for freed in waiting:
            if not freed.done():
                freed.set_result(None)

    def use(self, run_id: str, amount: Amount) -> None:
        """Count what was used up."""
        self._count_up(run_id, Spending(spent=amount))

    def grant(self, run_id: str, more: Amount, level: int) -> Spending:
        """Raise the limit of the account so many levels above, on behalf of a run that asked;
        returns what that run's record has to say of it."""
        note = Spending.grant(more, level)
        self._count_up(run_id, note)
        for account in self.chain():
            account._wake()
        return note

    def restore(self, run_id: str, known: Spending) -> None:
        """Take over what a run is on record with; what is counted already is not counted again."""
        for account, name in self._known_as(run_id):
            account._count(name, known.beyond(account.spending_of(name)))
            known = (account.own() if account is self._part else known).as_parents()

    def fold(self, run_id: str, into: str) -> Spending:
        """Count a finished run as part of the one it worked for, whose account this is; returns
        what that one's record has to say of it."""
        folded = self.spending_of(run_id)
        for account, name in self._known_as(into):
            known = account._runs.pop(run_id, None)
            if known is not None:
                account._runs[name] = account.spending_of(name) + known
        return folded

    def fold_all(self, into: str) -> Spending:
        """The same for all runs beneath that one: it is over, and so are they.

        Parts of the tree may go on: they count for themselves, and are in the record of the root.
        """
        folded = Spending()
        for name in [name for name in self._runs if name != into]:
            if name not in self._parts:
                folded += self.fold(name, into)
            elif self.parent is None:
                folded += self._runs[name]
        return folded

    def _count_up(self, run_id: str, more: Spending) -> None:
        for account, name in self._known_as(run_id):
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
        """Whether this is the account of a part of the tree, or of all of it."""
        return self._part is self

    def own(self) -> Spending:
        """What the runs of this part have used up, without the parts beneath it."""
        mine = [known for name, known in self._runs.items() if name not in self._parts]
        return sum(mine, Spending())

    def aside(self) -> Amount:
        """What is set aside for calls of this part that are under way here."""
        return sum([each.amount for each in self._under_way], _NOTHING)

    def hear(self, name: str, known: Spending, aside: Amount) -> None:
        """Take over what is said of a part that others carry on: of this one, or of one beneath it,
        as seen from here."""
        for account in self.chain():
            counted = account.own() if account.name == name else account.spending_of(name)
            account._count(name, known.beyond(counted))
            account._elsewhere[name] = aside
            if account.name != name:
                account._parts.add(name)
            known = known.as_parents()

    async def tell(self, *, leaves: bool = False) -> None:
        """Let other processes of the tree know what was used up; one that leaves the run to them
        says no more of it.

        Raises:
            StoreError: it could not be told.
        """
        book = self.root.book
        if book is not None:
            await book.tell()
        if leaves:
            self.is_here = False

    # -- time ---------------------------------------------------------------------------------

    def begin(self) -> None:
        """The run is carried on from now on, and here."""
        self._began = self._clock.monotonic()
        self.is_here = True
        if self.is_part and self.name in self._elsewhere:
            for account in self.chain():
                account._elsewhere.pop(self.name, None)

    def lap(self, run_id: str) -> float:
        """Count the time since the run began or this was called last; returns it."""
        passed = self._running()
        if self._began is not None:
            self._began += passed
            self._count(run_id, Spending(spent=Amount(seconds=passed)))
        return passed

    def pause(self) -> None:
        """The run is not carried on for now."""
        self._began = None
        self.is_here = False


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
        account.release(self)
        if used != _NOTHING:
            account.use(self._run_id, used)
