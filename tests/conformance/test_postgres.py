"""The Postgres store against the suites that every store has to pass (06/CL-1)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator

import asyncpg
import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from awaken.core.store.store import Store
from awaken.stores.memory import MemoryStore
from awaken.stores.postgres import PostgresStore
from awaken.testing.conformance import (
    BlobCheck,
    SharedStoreCheck,
    StoreCheck,
    blob_checks,
    crash_checks,
    shared_store_checks,
    store_checks,
)
from awaken.testing.conformance.state_machine import store_machine
from postgres_kit import Postgres

pytestmark = pytest.mark.anyio

EXAMPLES = int(os.environ.get("AWAKEN_STORE_EXAMPLES", "5"))
"""Set it higher after a change of the store: with 300, this takes some minutes."""

DIE = """
import asyncio, os, signal, sys
from awaken.stores.postgres import PostgresStore
from awaken.testing.conformance import leave_behind

# All are kept: a forgotten store gives up its threads.
stores = [PostgresStore(address) for address in sys.argv[1:]]

async def work():
    for store in stores:
        await store.open()
        await leave_behind(store)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(work())
"""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def open_store(postgres: Postgres) -> AsyncIterator[PostgresStore]:
    opened = PostgresStore(f"{postgres.dsn}?schema=shared")
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def store(postgres: Postgres, open_store: PostgresStore) -> PostgresStore:
    """An open and empty store; opening one for each check would take minutes."""
    await postgres.clean("shared")
    return open_store


@pytest.mark.parametrize("check", store_checks(), ids=lambda check: check.__name__)
async def test_store(check: StoreCheck, store: PostgresStore) -> None:
    await check(store)


@pytest.mark.parametrize("check", shared_store_checks(), ids=lambda check: check.__name__)
async def test_store_that_nodes_share(check: SharedStoreCheck, postgres: Postgres) -> None:
    await postgres.clean("nodes")

    async def open_node() -> Store:
        node = PostgresStore(f"{postgres.dsn}?schema=nodes")
        await node.open()
        return node

    await check(open_node)


@pytest.mark.parametrize("check", blob_checks(), ids=lambda check: check.__name__)
async def test_blobs(check: BlobCheck, store: PostgresStore) -> None:
    await check(store.blobs, store)


@pytest.fixture(scope="module")
async def left(postgres: Postgres) -> dict[str, str]:
    """For each check, the schema that a process has left behind that was killed."""
    schemas = {check.__name__: f"crash_{place}" for place, check in enumerate(crash_checks())}
    addresses = [f"{postgres.dsn}?schema={schema}" for schema in schemas.values()]
    died = await asyncio.create_subprocess_exec(sys.executable, "-c", DIE, *addresses)
    assert await died.wait() == -signal.SIGKILL
    return schemas


@pytest.mark.parametrize("check", crash_checks(), ids=lambda check: check.__name__)
async def test_store_after_a_crash(
    check: StoreCheck, postgres: Postgres, left: dict[str, str]
) -> None:
    """When the lease of the dead node is over, and the node that takes over has held its own for
    as long as a lease lasts."""
    schema = left[check.__name__]
    store = PostgresStore(f"{postgres.dsn}?schema={schema}")
    await store.open()
    connection = await asyncpg.connect(postgres.dsn)
    await connection.execute(
        f"UPDATE {schema}.nodes SET held_since = held_since - interval '1 hour'; "
        f"UPDATE {schema}.nodes SET lease_until = clock_timestamp() "
        f"WHERE 'node-' || id <> '{store.owner}'"
    )
    await connection.close()

    await check(store)

    await store.close()


@pytest.mark.timeout(300 + 2 * EXAMPLES)
def test_postgres_is_like_memory(postgres: Postgres) -> None:
    """In random use, step by step."""

    async def opened() -> Store:
        await postgres.clean("random")
        store = PostgresStore(f"{postgres.dsn}?schema=random")
        await store.open()
        return store

    async def memory() -> Store:
        return MemoryStore()

    run_state_machine_as_test(
        store_machine(opened, memory, reopens=True),
        settings=settings(max_examples=EXAMPLES, stateful_step_count=40, deadline=None),
    )
