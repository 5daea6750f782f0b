"""Nodes that are killed, and a Postgres that is away; `make cluster-test` does it at length."""

from __future__ import annotations

import pytest
from cluster_claims import claims
from cluster_failover import fail_over_once
from cluster_kills import fight
from cluster_outage import outage
from cluster_prune import beside

from postgres_kit import Postgres, running_postgres

pytestmark = pytest.mark.anyio


async def test_the_runs_of_a_killed_node_end_elsewhere_and_no_call_is_made_twice(
    postgres: Postgres,
) -> None:
    """06/CL-4."""
    figures = await fight(postgres.address(lease=0.5), 12, 7)
    assert (figures.stuck, figures.doubled, figures.lost) == (0, 0, 0)


async def test_the_runs_of_a_node_that_is_told_to_end_go_on_elsewhere(postgres: Postgres) -> None:
    """06/CL-5: they are released, so no lease has to run out; and 06/CL-10: the clocks of the two
    nodes are an hour apart."""
    figures = await fight(postgres.address(lease=60), 12, 3, how="term", apart=3600)
    assert (figures.stuck, figures.doubled, figures.lost) == (0, 0, 0)


async def test_clocks_an_hour_apart_change_nothing(postgres: Postgres) -> None:
    """06/CL-10: only the clock of Postgres says who is alive."""
    figures = await fight(postgres.address(lease=0.5), 12, 2, apart=3600)
    assert (figures.stuck, figures.doubled, figures.lost) == (0, 0, 0)


async def test_runs_go_on_where_they_are_when_postgres_is_back() -> None:
    """06/CL-11: nothing twice, and no run changes its owner."""
    with running_postgres() as server:
        figures = await outage(server, runs=6, seconds=0.5, how="fast")
    assert (figures.ended, figures.doubled, figures.asked_again, figures.moved) == (6, 0, 0, 0)


async def test_runs_go_on_when_a_standby_is_promoted() -> None:
    """The primary refuses writes, and is lost; nothing is lost, doubled or stuck."""
    figures = await fail_over_once(runs=8, seconds=0.2, how="read-only")
    assert (figures.ended, figures.wrong) == (10, 0), figures


async def test_old_threads_are_pruned_beside_runs(postgres: Postgres) -> None:
    """06/CL-18: all of them, in batches, and none of those that run."""
    figures = await beside(postgres, threads=300, runs=5, seconds=0.1, pause=0.05)
    assert (figures.pruned, figures.lost) == (300, 0)
    assert figures.commits_beside > 0


async def test_nodes_share_the_runs_of_a_killed_one(postgres: Postgres) -> None:
    """06/CL-15: each is claimed once, and no node takes more than it has room for."""
    figures = await claims(postgres.address(lease=0.5), nodes=3, runs=30, lease=0.5)
    assert figures.wrong == 0
    assert figures.nodes == 3
