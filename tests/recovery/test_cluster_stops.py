"""Nodes that are stopped (SIGSTOP) for longer than their lease; `make cluster-test` does it with
the real one."""

from __future__ import annotations

import asyncio

import pytest
from stopped_owner import PLACES, WANTED, stop_one

from postgres_kit import Postgres

pytestmark = pytest.mark.anyio


async def test_an_owner_that_was_stopped_starts_nothing_and_writes_nothing_when_it_goes_on(
    postgres: Postgres,
) -> None:
    """06/CL-7: in the middle of an answer, of a call, around commits, and between the commit of an
    intent and its call. The run has one outcome, that of the node that took it over. The lease is
    long enough that a busy machine does not let it run out once more."""
    found = await asyncio.gather(
        *(stop_one(postgres.address(lease=2, pool=3), place) for place in PLACES)
    )
    assert dict(zip(PLACES, found, strict=True)) == dict.fromkeys(PLACES, WANTED)
