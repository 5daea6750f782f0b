"""`/health/ready` after a write that the store refused."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import httpx2
import pytest
from server_kit import served

from awaken import Agent, Runtime
from awaken.core.lifecycle import RunStatus
from awaken.core.store.commands import Submission
from awaken.core.store.store import Store
from awaken.core.suspension import ToolCallResume
from awaken.errors import StoreUnavailable
from awaken.server import app
from awaken.server.health import PROBE_SECONDS
from awaken.stores.postgres import PostgresStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FakeClock
from awaken.testing.conformance.helpers import (
    MAX_WAIT_SECONDS,
    expect_error,
    record,
    says,
    ticket,
    write,
)
from postgres_kit import Postgres, refusing_writes

pytestmark = pytest.mark.anyio

READY = (200, True)
REFUSES = (503, False)


@asynccontextmanager
async def serving(store: Store, clock: FakeClock) -> AsyncIterator[httpx2.AsyncClient]:
    agents = [Agent("a", model="demo")]
    async with (
        Runtime(agents, store=store, clock=clock, recover=False) as runtime,
        served(app(runtime)) as address,
        httpx2.AsyncClient(base_url=address) as client,
    ):
        yield client


async def ready(client: httpx2.AsyncClient) -> tuple[int, bool]:
    """The status, and whether the store is said to be in order."""
    answer = await client.get("/health/ready")
    return answer.status_code, answer.json()["store"] == "ok"


async def test_a_process_is_unready_from_a_refused_write_until_one_succeeds(
    tmp_path: Path,
) -> None:
    """Where no write comes, it tries a small one itself, at most every ten seconds."""
    path, clock = tmp_path / "awaken.db", FakeClock()
    store = SqliteStore(path, busy_timeout=0.05)
    async with serving(store, clock) as client:
        await write(store, messages=says("a"))
        assert await ready(client) == READY
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert await ready(client) == READY, "no write was refused"
            await expect_error(StoreUnavailable, store.claim("t", at_ms=1))
            assert await ready(client) == REFUSES
            other.execute("ROLLBACK")
            assert await ready(client) == REFUSES, "it has just tried"
            clock.advance(PROBE_SECONDS)
            assert await ready(client) == READY

            other.execute("BEGIN IMMEDIATE")
            await expect_error(StoreUnavailable, store.claim("t", at_ms=1))
            assert await ready(client) == REFUSES
            other.execute("ROLLBACK")
            await store.claim("t", at_ms=1)
            assert await ready(client) == READY, "another write has succeeded"
    await store.close()


async def test_a_lease_that_is_renewed_makes_a_process_ready_again(postgres: Postgres) -> None:
    store, clock = PostgresStore(postgres.address(lease=1)), FakeClock()
    async with serving(store, clock) as client:
        assert await ready(client) == READY
        async with refusing_writes(postgres.dsn):
            await expect_error(StoreUnavailable, store.claim("t", at_ms=1))
            assert await ready(client) == REFUSES
        async with asyncio.timeout(MAX_WAIT_SECONDS):
            while await ready(client) != READY:  # noqa: ASYNC110  # the clock stands still
                await asyncio.sleep(0.01)
    await store.close()


WRITES: dict[str, Callable[[Store], Awaitable[object]]] = {
    "a claim": lambda store: store.claim("other", at_ms=1),
    "a submission": lambda store: store.submit(
        Submission(thread_id="other", run_id="new", agent_id="a", messages=says("x"), at_ms=1)
    ),
    "a decision": lambda store: store.decide("t", [("m:0", ToolCallResume.approve())], at_ms=1),
    "a command": lambda store: store.cancel_tree("t", at_ms=1),
}


async def test_each_kind_of_write_makes_a_process_ready_again(postgres: Postgres) -> None:
    """No lease is renewed meanwhile, and a process that has just tried does not try again."""
    store, clock = PostgresStore(postgres.address(lease=600)), FakeClock()
    async with serving(store, clock) as client:
        await write(store, run=record("r", status=RunStatus.WAITING), tickets=(ticket(),))
        async with refusing_writes(postgres.dsn):
            for one in WRITES.values():
                await expect_error(StoreUnavailable, one(store))
            assert await ready(client) == REFUSES
        for name, one in WRITES.items():
            assert await ready(client) == REFUSES, "it has just tried"
            assert not await store.cancel_tree("none", at_ms=1)
            assert await ready(client) == REFUSES, "nothing was written"
            await one(store)
            assert await ready(client) == READY, name
            async with refusing_writes(postgres.dsn):
                await expect_error(StoreUnavailable, store.claim("third", at_ms=1))
    await store.close()
