"""A part that is paused here may be carried on elsewhere, and that is heard."""

from __future__ import annotations

import pytest

from awaken.clock import SYSTEM_CLOCK
from awaken.core.account import Account
from awaken.core.budget import Amount, Budget, Spending
from awaken.stores.memory import MemoryStore
from awaken.worker.budgets import StoreBudgetLedger

pytestmark = pytest.mark.anyio


class Process:
    """A root and one part of it, as one process knows them."""

    def __init__(self, store: MemoryStore) -> None:
        self.accounts: dict[str, Account] = {}
        self.ledger = StoreBudgetLedger(store, SYSTEM_CLOCK, "root", self.accounts)
        self.root = self.accounts["root"] = Account(Budget(steps=6), name="root")
        self.part = self.accounts["part"] = self.root.child(name="part", is_part=True)
        self.root.ledger = self.ledger

    async def carry_on(self, known: Spending) -> None:
        self.part.restore("part", known)
        await self.ledger.open(self.root, self.part, begin=True)
        self.part.begin()

    async def use(self, steps: int) -> None:
        reserved = await self.part.reserve_shared("part", Amount(steps=steps))
        assert reserved is not None
        reserved.settle(Amount(steps=steps))
        await self.part.publish()


async def test_what_a_part_uses_up_elsewhere_after_a_pause_here_is_counted_here() -> None:
    store = MemoryStore()
    here, there = Process(store), Process(store)
    await here.carry_on(Spending())
    await here.use(2)
    here.part.pause()

    await there.carry_on(Spending(spent=Amount(steps=2)))
    await there.use(3)
    await here.ledger.open(here.root, begin=True)

    assert here.root.remaining().steps == 1
    await here.root.publish()
    await there.ledger.open(there.root, begin=True)
    assert there.root.remaining().steps == 1, "what was told of it there is not taken back"
