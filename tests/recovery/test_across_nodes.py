"""What one node says to a run of another; `make bench-cluster` measures how soon it is heard."""

from __future__ import annotations

import asyncio

import pytest
from across_nodes import deaf_nodes, two_nodes

from postgres_kit import Postgres

pytestmark = pytest.mark.anyio

PATIENCE = 120


async def test_a_run_hears_of_a_cancel_a_decision_and_a_message_from_another_node(
    postgres: Postgres,
) -> None:
    """06/CL-6."""
    address = postgres.address(pool=3)
    async with asyncio.timeout(PATIENCE), two_nodes(address, address) as nodes:
        assert await nodes.cancel("one") > 0
        assert await nodes.decide("two") > 0
        assert await nodes.write("three") > 0


async def test_a_run_hears_of_them_if_every_hint_is_lost(postgres: Postgres) -> None:
    """06/CL-6: each node looks once a second."""
    async with asyncio.timeout(PATIENCE), deaf_nodes(postgres) as nodes:
        assert await nodes.cancel("one") > 0
        assert await nodes.decide("two") > 0
        assert await nodes.write("three") > 0
