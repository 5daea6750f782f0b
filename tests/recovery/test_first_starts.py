"""Opening an empty Postgres schema that another process sets up, or has died while setting up."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from first_starts import end_after, leave_half_made, open_at_once

from awaken.stores.postgres import PostgresStore
from awaken.testing.conformance.helpers import MAX_WAIT_SECONDS, says, texts, write
from postgres_kit import Postgres
from postgres_wire import Wire

pytestmark = pytest.mark.anyio

_WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


async def _is_usable(address: str) -> bool:
    store = PostgresStore(address)
    await write(store, messages=says("a"))
    found = await texts(store)
    await store.close()
    return found == ["a"]


def test_eight_processes_that_start_at_once_on_an_empty_schema_all_start(
    postgres: Postgres,
) -> None:
    assert open_at_once(postgres.address(), 8) == 0


@pytest.mark.parametrize("trip", [10, 20])
async def test_a_process_waits_for_another_one_that_sets_the_schema_up(
    postgres: Postgres, trip: int
) -> None:
    address = postgres.address()
    wire = Wire(postgres.port)
    server = await asyncio.start_server(wire._serve, "127.0.0.1", 0)
    wire.stops_at = trip
    port = server.sockets[0].getsockname()[1]
    first = PostgresStore(address.replace(f":{postgres.port}/", f":{port}/"))
    second = PostgresStore(address)
    admin = await asyncpg.connect(postgres.dsn)
    async with asyncio.timeout(MAX_WAIT_SECONDS), asyncio.TaskGroup() as group:
        group.create_task(first.open())
        await wire.stopped.wait()
        opening = group.create_task(second.open())
        while not await admin.fetchval(_WAITING):
            assert not opening.done(), "the schema is not complete yet"
            await asyncio.sleep(0.01)
        wire.stops_at = None
        wire.flow()
    assert first.owner != second.owner
    for store in (first, second):
        await store.close()
    await admin.close()
    server.close()
    await wire.close()


@pytest.mark.parametrize("number", [1, 40, 80])
async def test_a_schema_whose_setting_up_was_cut_short_is_set_up_again(
    postgres: Postgres, number: int
) -> None:
    """The server ends the session after so many statements that make something."""
    admin = await asyncpg.connect(postgres.dsn)
    await admin.execute("DROP DATABASE IF EXISTS starts")
    await admin.execute("CREATE DATABASE starts")
    try:
        dsn = postgres.dsn.replace("/postgres", "/starts")
        assert await end_after(dsn, "awaken", number), "it was ended in the middle"
        assert await _is_usable(f"{dsn}?schema=awaken")
    finally:
        await admin.execute("DROP DATABASE starts WITH (FORCE)")
        await admin.close()


@pytest.mark.parametrize("steps", [1, 3])
async def test_a_schema_that_an_earlier_release_left_half_made_is_finished(
    postgres: Postgres, steps: int
) -> None:
    address = postgres.address()
    await leave_half_made(postgres.dsn, address.partition("schema=")[2], steps)
    assert await _is_usable(address)
