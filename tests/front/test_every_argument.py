"""No argument of a public method spoils a store, or leads to an error that is not true.

These are samples; `make proof` tries every value on every store.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from every_argument import try_all, untried

from postgres_kit import Postgres

STORES = ("memory", "sqlite", "postgres")
STEPS = {"memory": 4, "sqlite": 7, "postgres": 29}
"""One of how many calls is made: numbers that have no common factor with that of the values."""


def test_every_public_method_is_tried() -> None:
    assert not untried()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", STORES)
def test_no_argument_spoils_a_store_or_is_answered_with_an_untrue_error(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path}/a.db"}.get(store)
    if address is None:
        postgres: Postgres = request.getfixturevalue("postgres")
        address = postgres.address()
    done = asyncio.run(try_all(address, nested=False, every=STEPS[store]))
    assert done.faults == ()
    assert done.refused > done.calls / 2
