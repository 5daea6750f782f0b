"""The account of a run tree: what it promises, whatever order things happen in (ADR 8)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from awaken.codec import from_json, to_json
from awaken.core.account import Account, Reservation
from awaken.core.budget import Amount, Budget, Spending
from awaken.errors import BudgetExhausted
from awaken.testing import FakeClock

COUNTED = ("tokens", "money", "steps")

# Money in eighths, which floats add and take away exactly.
money = st.integers(0, 80).map(lambda eighths: eighths / 8)
amounts = st.builds(
    Amount, tokens=st.integers(0, 50), money=money, steps=st.integers(0, 3), seconds=st.just(0.0)
)
limits = st.builds(
    Budget,
    tokens=st.none() | st.integers(1, 200),
    money=st.none() | st.integers(1, 200).map(lambda eighths: eighths / 8),
    steps=st.none() | st.integers(1, 12),
    at_limit=st.sampled_from(["stop", "ask"]),
    share=st.sampled_from([1.0, 0.5, 0.25]),
)


def part(amount: Amount, of_eight: int) -> Amount:
    """So many eighths of an amount, rounded down where it counts whole things."""
    return Amount(
        tokens=amount.tokens * of_eight // 8,
        money=amount.money * 8 * of_eight // 8 / 8,
        steps=amount.steps * of_eight // 8,
    )


# -- any order of events ----------------------------------------------------------------------


class Run:
    """What a run is on record with, beside what the account says of it."""

    def __init__(
        self, id: str, budget: Budget | None, parent: Run | None, account: Account
    ) -> None:
        self.id, self.budget, self.parent, self.account = id, budget, parent, account
        self.record = Spending()
        self.open: list[Reservation] = []

    def above(self) -> Iterator[Run]:
        run: Run | None = self
        while run is not None:
            yield run
            run = run.parent


class Trees(RuleBasedStateMachine):
    """Runs start others, reserve, settle, ask, end, and crash; a plain ledger keeps count."""

    runs: list[Run]

    @initialize(budget=limits)
    def begin(self, budget: Budget) -> None:
        self.number = 0
        self.runs = [Run("root", budget, None, Account(budget, clock=FakeClock()))]

    # -- what happens -------------------------------------------------------------------------

    @rule(data=st.data(), own=st.none() | limits)
    def start(self, data: st.DataObject, own: Budget | None) -> None:
        parent = data.draw(st.sampled_from(self.runs))
        if len(list(parent.above())) < 4:
            self.number += 1
            before = parent.account.remaining()
            budget = parent.account.share(own)
            run = Run(f"run-{self.number}", budget, parent, parent.account.child(budget))
            self.runs.append(run)
            assert_fits_share(run, parent.account.budget.share, before.tokens, before.steps)

    @rule(data=st.data(), wanted=amounts)
    def reserve(self, data: st.DataObject, wanted: Amount) -> None:
        run = data.draw(st.sampled_from(self.runs))
        before = [(r.account.total_reserved, r.account.usage) for r in self.runs]
        try:
            run.open.append(run.account.reserve(run.id, wanted))
        except BudgetExhausted as error:
            assert before == [(r.account.total_reserved, r.account.usage) for r in self.runs]
            limited = list(run.above())[error.level]
            self.assert_is_true_of(error, limited, wanted)

    def assert_is_true_of(self, error: BudgetExhausted, limited: Run, wanted: Amount) -> None:
        account, name = limited.account, error.name
        limit = account.limit(name)
        assert limit is not None
        held = getattr(account.total_reserved, name)
        left = limit - getattr(account.usage, name) - held
        assert (error.limit, error.wanted) == (limit, getattr(wanted, name))
        assert error.left == max(0, left)
        assert error.wanted > left or left <= 0
        assert error.asks == (account.budget.at_limit == "ask")
        assert error.may_come_back == (held > 0)

    @precondition(lambda self: any(run.open for run in self.runs))
    @rule(data=st.data(), of_eight=st.integers(0, 8), again=st.booleans())
    def settle(self, data: st.DataObject, of_eight: int, again: bool) -> None:
        run = data.draw(st.sampled_from([run for run in self.runs if run.open]))
        reservation = run.open.pop(data.draw(st.integers(0, len(run.open) - 1)))
        used = part(reservation.amount, of_eight)
        reservation.settle(used)
        if again:
            reservation.settle(reservation.amount)  # only the first answer counts
        run.record += Spending(spent=used)

    @rule(data=st.data(), more=amounts)
    def grant(self, data: st.DataObject, more: Amount) -> None:
        run = data.draw(st.sampled_from(self.runs))
        level = data.draw(st.integers(0, len(list(run.above())) - 1))
        run.record += run.account.grant(run.id, more, level)

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """A delegate is done: what it has spent becomes its parent's."""
        done = [run for run in self.runs if run.parent and not run.open and self.is_leaf(run)]
        if not done:
            return
        run = data.draw(st.sampled_from(done))
        assert run.parent is not None
        if data.draw(st.booleans()):
            # Its parent reads its record once more, as after a crash.
            run.parent.account.restore(run.id, run.record.as_parents())
        folded = run.parent.account.merge_run(run.id, run.parent.id)
        assert folded == run.record.as_parents()
        run.parent.record += folded
        self.runs.remove(run)

    def is_leaf(self, run: Run) -> bool:
        return all(other.parent is not run for other in self.runs)

    @rule(data=st.data())
    def read_again(self, data: st.DataObject) -> None:
        """What is counted is not counted again; an older record takes nothing back."""
        run = data.draw(st.sampled_from(self.runs))
        run.account.restore(run.id, run.record)
        run.account.restore(run.id, Spending())

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """Another process: all accounts are made anew from the records, in any order."""
        accounts: dict[str, Account] = {}
        for run in self.runs:
            run.open.clear()
            if run.parent is None:
                assert run.budget is not None
                accounts[run.id] = Account(run.budget, clock=FakeClock())
            else:
                accounts[run.id] = accounts[run.parent.id].child(run.budget)
            run.account = accounts[run.id]
        for run in data.draw(st.permutations(self.runs)):
            self.restored_by_one_above(run, data.draw(st.integers(0, 3)))

    def restored_by_one_above(self, run: Run, levels: int) -> None:
        """By itself, or by a run so many levels above it that is taken up first."""
        known, account = run.record, run.account
        for _ in range(levels):
            if account.parent is not None:
                known, account = known.as_parents(), account.parent
        account.restore(run.id, known)
        run.account.restore(run.id, run.record)

    # -- what always holds --------------------------------------------------------------------

    def beneath(self, top: Run) -> list[Run]:
        return [run for run in self.runs if top in run.above()]

    @invariant()
    def totals_are_those_of_the_records(self) -> None:
        for run in self.runs:
            spent = sum((r.record.spent for r in self.beneath(run)), Amount())
            assert run.account.usage == spent
            reserved = sum((each.amount for r in self.beneath(run) for each in r.open), Amount())
            assert run.account.total_reserved == reserved

    @invariant()
    def limits_are_those_set_and_granted(self) -> None:
        for run in self.runs:
            for name in COUNTED:
                limit = getattr(run.account.budget, name)
                granted = sum(
                    getattr(r.record.granted[level], name)
                    for r in self.beneath(run)
                    for level in [list(r.above()).index(run)]
                    if level < len(r.record.granted)
                )
                assert run.account.limit(name) == (None if limit is None else limit + granted)

    @invariant()
    def nothing_is_overdrawn(self) -> None:
        for run in self.runs:
            for name in COUNTED:
                limit = run.account.limit(name)
                used = getattr(run.account.usage, name) + getattr(run.account.total_reserved, name)
                assert limit is None or used <= limit

    @invariant()
    def what_is_left_is_the_least_of_the_chain(self) -> None:
        for run in self.runs:
            for name in COUNTED:
                lefts = [
                    limit - getattr(above.account.usage + above.account.total_reserved, name)
                    for above in run.above()
                    if (limit := above.account.limit(name)) is not None
                ]
                assert getattr(run.account.remaining(), name) == min(lefts, default=None)

    @invariant()
    def records_survive_being_written(self) -> None:
        for run in self.runs:
            assert from_json(to_json(run.record), Spending) == run.record


def assert_fits_share(run: Run, share: float, tokens: float | None, steps: float | None) -> None:
    """One run gets at most its share of what was left when it was started, and at least one."""
    if share == 1 or run.budget is None:
        return
    for limit, left in ((run.budget.tokens, tokens), (run.budget.steps, steps)):
        if left is not None:
            assert limit is not None
            assert 1 <= limit <= max(1, left * share)


Trees.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestTrees = Trees.TestCase


# -- amounts ----------------------------------------------------------------------------------


@given(a=amounts, b=amounts)
def test_what_is_beyond_makes_up_for_what_was_counted(a: Amount, b: Amount) -> None:
    """Counted and then what is beyond it is the greater of the two, field by field."""
    total = b + a.beyond(b)
    for name in COUNTED:
        assert getattr(total, name) == max(getattr(a, name), getattr(b, name))


spendings = st.builds(Spending, spent=amounts, granted=st.lists(amounts, max_size=3).map(tuple))


@given(a=spendings, b=spendings)
def test_seen_from_above_sums_stay_sums(a: Spending, b: Spending) -> None:
    assert (a + b).as_parents() == a.as_parents() + b.as_parents()
    assert a + b == b + a


# -- corners ----------------------------------------------------------------------------------


def test_a_child_takes_the_limits_of_all_above_it() -> None:
    root = Account(Budget(tokens=100))
    child = root.child(Budget(tokens=80)).child()

    with pytest.raises(BudgetExhausted, match="the budget of 80 tokens has 80 left") as own:
        child.reserve("c", Amount(tokens=90))
    root.reserve("r", Amount(tokens=50))
    with pytest.raises(BudgetExhausted) as above:
        child.reserve("c", Amount(tokens=60))

    assert (own.value.level, own.value.may_come_back) == (1, False)
    assert (above.value.level, above.value.may_come_back) == (2, True)
    assert child.remaining().tokens == 50
    assert child.remaining().money is None


def test_siblings_never_overdraw_together() -> None:
    root = Account(Budget(tokens=100))
    first, second = root.child(), root.child()

    first.reserve("a", Amount(tokens=60))
    with pytest.raises(BudgetExhausted):
        second.reserve("b", Amount(tokens=41))
    second.reserve("b", Amount(tokens=40))

    assert root.total_reserved.tokens == 100


@pytest.mark.parametrize(
    ("budget", "held"),
    [
        (Budget(steps=1), Amount(steps=1)),
        (Budget(tokens=1), Amount(tokens=1)),
        (Budget(money=0.25), Amount(money=0.25)),
    ],
)
def test_what_a_call_holds_may_come_back_however_little_it_is(budget: Budget, held: Amount) -> None:
    account = Account(budget)
    reserved = account.reserve("r", held)
    with pytest.raises(BudgetExhausted) as error:
        account.reserve("other", held)
    assert error.value.may_come_back

    reserved.settle(held)
    with pytest.raises(BudgetExhausted) as error:
        account.reserve("other", held)
    assert not error.value.may_come_back


def test_crumbs_of_floats_are_not_taken_for_money_that_may_come_back() -> None:
    """0.1 + 0.3 + 0.6 - 0.1 - 0.3 - 0.6 is not 0; whoever waited for that would wait for ever."""
    root = Account(Budget(money=1.0))
    held = [root.reserve("a", Amount(money=price)) for price in (0.1, 0.3, 0.6)]
    for each in held:
        each.settle(each.amount)

    with pytest.raises(BudgetExhausted) as error:
        root.reserve("a", Amount(money=0.1))

    assert not error.value.may_come_back
    assert root.total_reserved == Amount()


def test_a_call_that_took_more_than_was_set_aside_counts_in_full() -> None:
    root = Account(Budget(tokens=100))

    root.reserve("a", Amount(tokens=10)).settle(Amount(tokens=130))

    assert root.usage.tokens == 130
    with pytest.raises(BudgetExhausted, match="has 0 left"):
        root.reserve("a", Amount(tokens=1))


def test_a_share_is_of_what_is_left_and_never_nothing() -> None:
    root = Account(Budget(tokens=100, money=2.0, share=0.5))
    root.use("root", Amount(tokens=40, money=1.0))

    first = root.share()
    root.use("root", Amount(tokens=60, money=1.0))
    second = root.share()

    assert first is not None
    assert second is not None
    assert (first.tokens, first.money, first.steps, first.share) == (30, 0.5, None, 0.5)
    assert second.tokens == 1
    assert second.money is not None
    assert 0 < second.money < 1e-6


def test_a_run_with_limits_of_its_own_gets_no_more_than_its_share() -> None:
    root = Account(Budget(tokens=100, at_limit="ask", share=0.5))

    tight = root.share(Budget(tokens=10, steps=3))
    wide = root.share(Budget(tokens=90, steps=3))

    assert tight == Budget(tokens=10, steps=3)
    assert wide == Budget(tokens=50, steps=3)
    assert Account(Budget(tokens=100)).share() is None


# -- time -------------------------------------------------------------------------------------


def test_time_is_each_runs_own() -> None:
    clock = FakeClock()
    root = Account(Budget(seconds=10), clock=clock)
    child = root.child()
    root.begin()
    clock.advance(2)
    child.begin()
    clock.advance(3)

    assert child.count_time("child") == 3
    child.pause()
    clock.advance(1)

    assert child.usage.seconds == 3
    assert root.usage.seconds == 6
    assert child.remaining().seconds == 4, "of the root's, which go on"
    root.restore("child", child.spending_of("child").as_parents())
    assert root.merge_run("child", "root") == Spending()
    assert root.usage.seconds == 6, "not those of the child beside them"


def test_time_stands_still_while_a_run_is_paused() -> None:
    clock = FakeClock()
    account = Account(Budget(seconds=10), clock=clock)
    account.begin()
    clock.advance(4)
    account.count_time("a")
    account.pause()
    clock.advance(100)

    assert account.count_time("a") == 0
    assert account.remaining().seconds == 6
    account.begin()
    clock.advance(6)
    with pytest.raises(BudgetExhausted, match="the budget of 10 seconds has 0 left"):
        account.reserve("a", Amount(tokens=1))


def test_time_that_is_up_never_comes_back_by_waiting() -> None:
    clock = FakeClock()
    account = Account(Budget(seconds=1, tokens=100), clock=clock)
    account.begin()
    account.reserve("a", Amount(tokens=10))
    clock.advance(1)

    with pytest.raises(BudgetExhausted) as error:
        account.reserve("a", Amount(tokens=10))
    assert (error.value.name, error.value.may_come_back) == ("seconds", False)


# -- waiting ----------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_what_is_freed_anywhere_wakes_whoever_waits_anywhere() -> None:
    root = Account(Budget(tokens=100))
    first, second = root.child(), root.child().child()
    held = first.reserve("a", Amount(tokens=100))
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        waiting = group.create_task(second.wait_for_budget())
        beside = group.create_task(root.wait_for_budget())
        await asyncio.sleep(0)
        assert not waiting.done()
        held.settle(Amount(tokens=99))

    assert (waiting.done(), beside.done()) == (True, True)
    assert second.remaining().tokens == 1


@pytest.mark.anyio
async def test_a_grant_wakes_whoever_waits() -> None:
    root = Account(Budget(tokens=10))
    child = root.child()
    child.reserve("a", Amount(tokens=10))
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(root.wait_for_budget())
        await asyncio.sleep(0)
        child.grant("a", Amount(tokens=5), 1)

    assert root.remaining().tokens == 5


@pytest.mark.anyio
async def test_who_stops_waiting_is_forgotten() -> None:
    root = Account(Budget(tokens=10))
    held = root.reserve("a", Amount(tokens=10))
    waiting = asyncio.ensure_future(root.child().wait_for_budget())
    await asyncio.sleep(0)

    waiting.cancel()
    await asyncio.wait([waiting])
    held.settle(Amount())

    assert waiting.cancelled()


# -- records ----------------------------------------------------------------------------------


def test_grants_of_a_run_that_is_read_again_raise_the_limits_they_were_given_for() -> None:
    """A child was granted 5 for itself and 7 for the root; seen from the root, only the 7."""
    record = Spending(spent=Amount(tokens=20, seconds=9)) + Spending.grant(Amount(tokens=5), 0)
    record += Spending.grant(Amount(tokens=7), 1)
    root = Account(Budget(tokens=10))
    root.restore("child", record.as_parents())

    assert root.limit("tokens") == 17
    assert root.usage == Amount(tokens=20)
    child = root.child(Budget(tokens=1))
    child.restore("child", record)
    assert (child.limit("tokens"), root.limit("tokens")) == (6, 17)
    assert root.merge_run("child", "root").granted == (Amount(tokens=7),)


def test_what_was_spent_and_not_kept_is_not_forgotten_by_reading_the_record() -> None:
    root = Account(Budget(tokens=100))
    root.child().use("child", Amount(tokens=30))

    root.restore("child", Spending(spent=Amount(tokens=10)))

    assert root.usage.tokens == 30
    assert root.merge_run("child", "root") == Spending(spent=Amount(tokens=30))


def test_a_run_that_is_over_takes_all_beneath_it() -> None:
    root = Account(Budget())
    child = root.child()
    child.use("child", Amount(tokens=1))
    child.child().use("grandchild", Amount(tokens=2))
    root.use("root", Amount(tokens=4))

    assert root.merge_all_runs("root") == Spending(spent=Amount(tokens=3))
    assert root.merge_all_runs("root") == Spending()
    assert root.spending_of("root").spent.tokens == 7
    assert root.usage.tokens == 7


# -- budgets ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"tokens": 0}, "a budget's tokens is above 0, or left out for no limit, not 0"),
        ({"steps": -1}, "a budget's steps is above 0"),
        ({"money": float("nan")}, "a budget's money is above 0"),
        ({"seconds": float("inf")}, "or left out for no limit, not inf"),
        ({"tokens": 1.5}, "a budget's tokens is a whole number, not 1.5"),
        ({"money": "2"}, "a budget's money is a number, not '2'"),
        ({"steps": True}, "a budget's steps is a whole number, not True"),
        ({"share": 2}, "a budget's share is above 0 and at most 1, not 2"),
        ({"share": float("nan")}, "a budget's share is above 0"),
        ({"share": "half"}, "a budget's share is a number, not 'half'"),
        ({"at_limit": "maybe"}, "a budget's at_limit is 'stop' or 'ask', not 'maybe'"),
    ],
)
def test_a_budget_says_what_is_wrong_with_it(changes: dict[str, object], problem: str) -> None:
    wrong = msgspec.structs.replace(Budget(), **changes)

    assert problem in (wrong.problem() or "")


def test_a_budget_without_limits_only_counts() -> None:
    assert Budget().problem() is None
    assert (
        Budget(tokens=1, money=1, steps=1, seconds=0.5, share=1, at_limit="ask").problem() is None
    )
