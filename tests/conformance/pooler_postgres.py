"""The Postgres store behind PgBouncer in transaction mode, against the suites of every store
(06/CL-1): `make pooler-test`, on a machine that has `pgbouncer`.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from awaken import Agent, Runtime
from awaken.core.store.store import Store
from awaken.errors import StoreUnavailable
from awaken.stores.memory import MemoryStore
from awaken.stores.postgres import PostgresStore
from awaken.testing.conformance import (
    BlobCheck,
    SharedStoreCheck,
    StoreCheck,
    blob_checks,
    shared_store_checks,
    store_checks,
)
from awaken.testing.conformance.helpers import says, texts, write
from awaken.testing.conformance.state_machine import store_machine
from postgres_kit import Postgres, free_port, plain_user

pytestmark = pytest.mark.anyio

EXAMPLES = 10
_SETTINGS = """
[databases]
* = host=127.0.0.1 port={port} user=awaken
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listens}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 12
max_client_conn = 500
logfile = {folder}/pgbouncer.log
"""


class Pooler:
    """PgBouncer in transaction mode, before a server. Twelve sessions for all clients together, so
    that transactions of one client go to several."""

    def __init__(self, server: Postgres, folder: Path) -> None:
        self.server, self.port = server, free_port()
        self.dsn = f"postgresql://awaken@127.0.0.1:{self.port}/postgres"
        program = shutil.which("pgbouncer")
        assert program is not None, "this needs pgbouncer: apt-get install pgbouncer"
        file = folder / "pgbouncer.ini"
        file.write_text(_SETTINGS.format(port=server.port, listens=self.port, folder=folder))
        if user := plain_user():
            shutil.chown(folder, user["user"], user["group"])
            for above in folder.parents[:2]:
                above.chmod(0o755)
        self._process = subprocess.Popen(
            [program, "-q", file], stderr=subprocess.DEVNULL, start_new_session=True, **user
        )
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        while True:
            assert self._process.poll() is None, "PgBouncer ended while it started"
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return

    def address(self, schema: str) -> str:
        direct = quote(self.server.dsn, safe="")
        return f"{self.dsn}?schema={schema}&pooler=transaction&direct={direct}"

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def pooler(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pooler]:
    made = Pooler(postgres, tmp_path_factory.mktemp("pooler"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
async def open_store(pooler: Pooler) -> AsyncIterator[PostgresStore]:
    opened = PostgresStore(pooler.address("shared"))
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def store(pooler: Pooler, open_store: PostgresStore) -> PostgresStore:
    await pooler.server.clean("shared")
    return open_store


@pytest.mark.parametrize("check", store_checks(), ids=lambda check: check.__name__)
async def test_store(check: StoreCheck, store: PostgresStore) -> None:
    await check(store)


@pytest.mark.parametrize("check", shared_store_checks(), ids=lambda check: check.__name__)
async def test_store_that_nodes_share(check: SharedStoreCheck, pooler: Pooler) -> None:
    await pooler.server.clean("nodes")

    async def open_node() -> Store:
        node = PostgresStore(pooler.address("nodes"))
        await node.open()
        return node

    await check(open_node)


@pytest.mark.parametrize("check", blob_checks(), ids=lambda check: check.__name__)
async def test_blobs(check: BlobCheck, store: PostgresStore) -> None:
    await check(store.blobs, store)


def test_postgres_behind_a_pooler_is_like_memory(pooler: Pooler) -> None:
    async def opened() -> Store:
        await pooler.server.clean("random")
        store = PostgresStore(pooler.address("random"))
        await store.open()
        return store

    async def memory() -> Store:
        return MemoryStore()

    run_state_machine_as_test(
        store_machine(opened, memory, reopens=True),
        settings=settings(max_examples=EXAMPLES, stateful_step_count=40, deadline=None),
    )


async def test_the_pooler_is_found_out_if_the_address_does_not_name_it(pooler: Pooler) -> None:
    """06 §5.5"""
    direct = quote(pooler.server.dsn, safe="")
    for more in ("", f"&direct={direct}"):
        with pytest.raises(StoreUnavailable, match="add pooler=transaction"):
            await PostgresStore(f"{pooler.dsn}?schema=found{more}").open()


async def test_without_a_direct_address_hints_are_deaf_and_looks_are_not(
    pooler: Pooler, caplog: pytest.LogCaptureFixture
) -> None:
    """06 §5.4: the node says so, and looks four times a second. All else works."""
    address = f"{pooler.dsn}?schema=deaf&pooler=transaction"
    store = PostgresStore(address)
    await write(store, messages=says("a"))
    assert await texts(store) == ["a"]
    agent = Agent("echo", model="demo")
    with caplog.at_level(logging.WARNING):
        async with Runtime([agent], store=store) as runtime, asyncio.timeout(60):
            while "looks four times a second" not in caplog.text:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            submitter = PostgresStore(address)
            async with Runtime([agent], store=submitter, recover=False) as other:
                taken = await other.submit("echo", "hello", thread="t2")
                result = await other.wait(taken.run_id)
            assert result.response
            await submitter.close()
            assert runtime.agent_ids
    await store.close()
