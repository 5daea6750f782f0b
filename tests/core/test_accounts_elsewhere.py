"""Accounts of a tree that several processes carry on: what is theirs, and what is here."""

from __future__ import annotations

import pytest

from awaken.core.account import Account
from awaken.core.budget import Amount, Budget, Spending
from awaken.errors import StoreUnavailable

pytestmark = pytest.mark.anyio


class LostBook:
    """A book nobody can read or write."""

    async def agree(self, account: Account) -> bool:
        raise StoreUnavailable("the disk is gone")

    async def publish(self) -> None:
        raise StoreUnavailable("the disk is gone")

    async def refresh(self) -> None:
        raise StoreUnavailable("the disk is gone")


async def test_what_the_others_cannot_be_told_of_is_not_set_aside() -> None:
    account = Account(Budget(steps=3), name="root")
    account.ledger = LostBook()
    for _ in range(5):
        with pytest.raises(StoreUnavailable, match="the disk is gone"):
            await account.reserve_shared("root", Amount(steps=1))
    assert account.remaining().steps == 3
    assert account.total_reserved == Amount()


def test_what_a_part_had_set_aside_elsewhere_is_free_once_it_goes_on_here() -> None:
    root = Account(Budget(steps=10), name="root")
    part = root.child(name="part", is_part=True)
    part.update_part("part", Spending(spent=Amount(steps=1)), Amount(steps=4))
    assert (root.remaining().steps, part.total_reserved.steps) == (5, 4)
    part.begin()
    assert (root.remaining().steps, part.total_reserved.steps) == (9, 0)
    part.begin()
    assert root.remaining().steps == 9


def test_what_others_have_set_aside_stays_so_when_a_part_goes_on_here() -> None:
    root = Account(Budget(steps=10), name="root")
    part = root.child(name="part", is_part=True)
    root.child(name="other", is_part=True).update_part("other", Spending(), Amount(steps=4))
    part.begin()
    assert root.remaining().steps == 6
