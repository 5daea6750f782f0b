"""Nodes that are stopped (SIGSTOP), or cut off, for longer than their lease; `make cluster-test`
does it with the real one."""

from __future__ import annotations

import asyncio

import pytest
from cut_off_node import cut_off, is_right
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


async def test_a_node_whose_event_loop_hangs_loses_its_runs(postgres: Postgres) -> None:
    """06/CL-9: it is as if it had been stopped. Here it counts as hung after a second."""
    address = postgres.address(lease=0.5, pool=3)
    assert await stop_one(address, "tool", blocked=100, patience=1) == WANTED


async def test_a_node_that_is_cut_off_begins_nothing_and_its_runs_end_elsewhere(
    postgres: Postgres,
) -> None:
    """06/CL-8, for whole runs: when the network is back, it takes new work."""
    figures = await cut_off(postgres, runs=3, lease=0.5, seconds=2, pause=0.05)
    assert is_right(figures, comes_back=True), figures
