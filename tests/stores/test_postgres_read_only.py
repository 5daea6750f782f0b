"""A Postgres that takes no writes for a while, and addresses that name several hosts."""

from __future__ import annotations

import asyncio
import socket

import pytest

from awaken.errors import ConfigError, StoreUnavailable
from awaken.stores.postgres import PostgresStore
from awaken.stores.postgres.address import parse_address
from awaken.stores.postgres.connections import connect
from awaken.testing.conformance.helpers import MAX_WAIT_SECONDS, expect_error, says, texts, write
from postgres_kit import Postgres, free_port, refusing_writes
from postgres_wire import Wire, wired

pytestmark = pytest.mark.anyio

ATTEMPTS = 12


async def attempts(wire: Wire) -> None:
    """Wait until the store has asked the server a few times."""
    wire.trips = 0
    async with asyncio.timeout(MAX_WAIT_SECONDS):
        while wire.trips < ATTEMPTS:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_commits_and_releases_wait_while_the_server_takes_no_writes(
    postgres: Postgres,
) -> None:
    async with wired(postgres.dsn) as (wire, dsn):
        store = PostgresStore(f"{dsn}&schema=readonly")
        fence, other = await store.claim("t", at_ms=1), await store.claim("u", at_ms=1)
        await write(store, messages=says("a"), fence=fence)
        async with refusing_writes(postgres.dsn):
            committing = asyncio.create_task(write(store, messages=says("b"), fence=fence))
            await attempts(wire)
            releasing = asyncio.create_task(store.release(other))
            await attempts(wire)
            assert not committing.done()
            assert not releasing.done()
            assert await texts(store) == ["a"], "it can be read"
        async with asyncio.timeout(MAX_WAIT_SECONDS):
            await committing
            await releasing
        assert await texts(store) == ["a", "b"]
        assert [claim.thread_id for claim in await store.list_claims()] == ["t"]
        await store.close()


async def test_a_claim_is_refused_with_the_reason_while_the_server_takes_no_writes(
    postgres: Postgres,
) -> None:
    """And leaves nothing behind: the thread can be claimed when the server takes writes again."""
    store = PostgresStore(postgres.address())
    await store.open()
    async with refusing_writes(postgres.dsn):
        error = await expect_error(StoreUnavailable, store.claim("t", at_ms=1))
        assert "takes no writes now" in str(error)
    assert await store.list_claims() == []
    await store.claim("t", at_ms=2)
    await store.close()


async def test_an_address_may_name_hosts_that_do_not_answer(postgres: Postgres) -> None:
    """One refuses connections, and one accepts them and says nothing more."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ports = (free_port(), silent.getsockname()[1], postgres.port)
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        dsn = postgres.dsn.replace(f"127.0.0.1:{postgres.port}", hosts)
        address = parse_address(f"{dsn}?target_session_attrs=read-write")
        connection = await connect(address)
        assert await connection.fetchval("SHOW port") == str(postgres.port)
        await connection.close()


def test_hosts_in_brackets_may_stand_anywhere_and_a_broken_one_is_named() -> None:
    address = parse_address("postgresql://me:pw@one,[::1]:5433,[::2]/shop?sslmode=require")
    assert address.hosts(direct=False) == (
        "postgresql://me:pw@one/shop?sslmode=require",
        "postgresql://me:pw@[::1]:5433/shop?sslmode=require",
        "postgresql://me:pw@[::2]/shop?sslmode=require",
    )
    with pytest.raises(ConfigError, match=r"'\[::1' is no host"):
        parse_address("postgresql://me:hunter2@one,[::1/shop")
    with pytest.raises(ConfigError, match="'one:70000' is no host"):
        parse_address("postgresql://one:70000/shop")


async def test_an_address_whose_servers_take_no_writes_says_so(postgres: Postgres) -> None:
    async with refusing_writes(postgres.dsn):
        hosts = f"127.0.0.1:{postgres.port},127.0.0.1:{postgres.port}"
        dsn = postgres.dsn.replace(f"127.0.0.1:{postgres.port}", hosts)
        with pytest.raises(StoreUnavailable, match="names no server that fits"):
            await PostgresStore(f"{dsn}?target_session_attrs=read-write").open()
