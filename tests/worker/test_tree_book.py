"""Processes that live off one budget: what they tell each other, in any order (ADR 8)."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest

from awaken.clock import SYSTEM_CLOCK
from awaken.codec import Json
from awaken.core.account import Account
from awaken.core.budget import Amount, Budget, Spending
from awaken.core.profile import ProfileEntry, ProfileOwner
from awaken.errors import BudgetExhausted
from awaken.stores.memory import MemoryStore
from awaken.stores.memory.profiles import MemoryProfiles
from awaken.worker.budgets import StoreBudgetLedger

pytestmark = pytest.mark.anyio

ABOVE: dict[str, str | None] = {
    "root": None,
    "worker": "root",
    "other": "root",
    "digger": "worker",
    "deepest": "digger",
}
SCHEDULES, AT_ONCE = 120, 20


class SlowProfiles(MemoryProfiles):
    """Entries that others may write while somebody waits for an answer."""

    def __init__(self, random: Random) -> None:
        super().__init__()
        self._random = random

    async def get(self, owner: ProfileOwner, key: str) -> ProfileEntry | None:
        await self.wait()
        found = await super().get(owner, key)
        await self.wait()
        return found

    async def set(
        self, owner: ProfileOwner, key: str, value: Json, *, expected_version: int | None = None
    ) -> ProfileEntry:
        await self.wait()
        written = await super().set(owner, key, value, expected_version=expected_version)
        await self.wait()
        return written

    async def wait(self) -> None:
        for _ in range(self._random.randrange(3)):
            await asyncio.sleep(0)


class Tree:
    """Parts of a tree, what they really used up, and what is on record of each."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.store, self.slow = MemoryStore(), SlowProfiles(random)
        self.store.profiles = self.slow
        self.budgets: dict[str, Budget | None] = dict.fromkeys(ABOVE)
        self.budgets["root"] = Budget(steps=random.randrange(6, 30))
        self.budgets["worker"] = random.choice([None, Budget(steps=random.randrange(3, 9))])
        self.ends, self.ended = random.choice([0.0, 0.2, 0.6]), 0
        self.used: Counter[str] = Counter()
        self.kept = dict.fromkeys(ABOVE, Spending())
        self.processes = [Process(self) for _ in range(3)]

    async def play(self) -> None:
        async with asyncio.TaskGroup() as group:
            for name in ABOVE:
                group.create_task(self.live(name))

    async def live(self, name: str) -> None:
        """Be carried on here and there, and end, unless others may still need it."""
        for _ in range(self.random.randint(1, 4)):
            process = self.random.choice(self.processes)
            account = await process.take(name)
            async with asyncio.TaskGroup() as group:
                for _ in range(self.random.randint(1, 2)):
                    group.create_task(self.work(name, account))
            await account.publish(leaves=True)
            account.pause()
            if name != "root" and self.random.random() < self.ends:
                self.ended += 1  # those beneath it may go on
                return
            await self.slow.wait()

    async def work(self, name: str, account: Account) -> None:
        for _ in range(self.random.randrange(6)):
            try:
                aside = await account.reserve_shared(name, Amount(steps=1))
            except BudgetExhausted:
                return
            if aside is None:
                continue
            await self.slow.wait()
            used = Amount(steps=self.random.choice([0, 1, 1]))
            self.used[name] += used.steps
            self.check()
            aside.settle(used)
            await account.publish()
            self.kept[name] += Spending(spent=used)

    def check(self) -> None:
        """No limit is overdrawn by what was really used up."""
        for name, budget in self.budgets.items():
            used = sum(self.used[part] for part in ABOVE if name in chain(part))
            assert budget is None or budget.steps is None or used <= budget.steps


class Process:
    """Accounts of the tree's runs, which no other process sees."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.accounts: dict[str, Account] = {}
        self.ledger = StoreBudgetLedger(tree.store, SYSTEM_CLOCK, "root", self.accounts)

    async def take(self, name: str) -> Account:
        """Carry a part on, as it is on record."""
        account = self._account(name)
        account.restore(name, self.tree.kept[name])
        await self.ledger.open(account.root, account, begin=True)
        account.root.ledger = self.ledger
        account.begin()
        return account

    def _account(self, name: str) -> Account:
        if name not in self.accounts:
            above, budget = ABOVE[name], self.tree.budgets[name]
            if above is None:
                self.accounts[name] = Account(budget or Budget(), name=name)
            else:
                parent = self._account(above)
                self.accounts[name] = parent.child(budget, name=name, is_part=True)
        return self.accounts[name]


def chain(name: str) -> list[str]:
    """A part and those above it."""
    above = ABOVE[name]
    return [name] if above is None else [name, *chain(above)]


@pytest.mark.parametrize("first", range(0, SCHEDULES, AT_ONCE))
async def test_no_schedule_of_processes_overdraws_a_budget_or_loses_a_step(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        tree = Tree(seed)
        async with asyncio.timeout(100):
            await tree.play()

        for process in (Process(tree), *tree.processes):
            root = await process.take("root")
            assert root.counted_usage.steps == sum(tree.used.values()), seed
            assert root.total_reserved == Amount()


async def test_the_schedules_reach_the_limit_and_parts_end() -> None:
    full, ended = 0, 0
    for seed in range(30):
        tree = Tree(seed)
        await tree.play()
        limit = tree.budgets["root"]
        assert limit is not None
        full += sum(tree.used.values()) == limit.steps
        ended += tree.ended

    assert full > 5
    assert ended > 20


async def test_a_book_that_was_deleted_with_its_root_is_not_begun_again() -> None:
    """Who is left of the tree goes on, and keeps to what it knows."""
    tree = Tree(0)
    here, there = tree.processes[:2]
    for process in (here, there):
        await process.take("worker")
    tree.store.profiles.drop_budgets("root")

    for process in (here, there):
        account = process.accounts["worker"]
        aside = await account.reserve_shared("worker", Amount(steps=1))
        assert aside is not None
        aside.settle(Amount(steps=1))
        await account.publish()
        await process.take("digger")
        assert account.counted_usage.steps == 1

    assert await tree.store.profiles.list(ProfileOwner()) == []
