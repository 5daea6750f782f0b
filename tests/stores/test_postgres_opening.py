"""Opening a store in Postgres: addresses, versions of its tables, and what cannot be used."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from urllib.parse import quote

import asyncpg
import pytest

from awaken.errors import ConfigError, StoreUnavailable
from awaken.runtime.open_by_name import open_store
from awaken.stores.postgres import PostgresStore, migrate_address
from awaken.stores.postgres.address import parse_address
from awaken.stores.postgres.connections import Connector, connect
from awaken.stores.postgres.migrations import check_standbys, prepare
from awaken.stores.sql.migrations import Migration
from awaken.testing.conformance.helpers import MAX_WAIT_SECONDS, says, texts, write
from postgres_kit import Postgres
from postgres_wire import wired

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("postgresql://host", "is not an address of a Postgres database"),
        ("postgresql://host/db?schema=A-b", "is not a name"),
        ("postgresql://host/db?pool=none", "is not a number of connections"),
        ("postgresql://host/db?lease=0", "is not a number of seconds"),
        ("postgresql://host/db?pooler=session", "write pooler=transaction"),
        ("postgresql://host/db?direct=elsewhere", "is no address"),
    ],
)
def test_an_address_that_is_wrong_is_refused_with_the_right_form(address: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        open_store(address)


def test_passwords_are_not_in_errors() -> None:
    with pytest.raises(ConfigError) as refusal:
        open_store("postgresql://me:secret@host/db?pool=x")
    assert "secret" not in str(refusal.value)


def test_without_the_extra_the_address_says_what_to_install() -> None:
    """And everything else can be imported."""
    code = (
        "import sys; sys.modules['asyncpg'] = None\n"
        "import awaken, awaken.stores\n"
        "try: awaken.Runtime([], store='postgresql://host/db')\n"
        "except awaken.errors.ConfigError as error: print(error)"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert "pip install 'awaken[postgres]'" in said


async def test_a_database_that_does_not_answer_is_named(postgres: Postgres) -> None:
    nowhere = postgres.dsn.replace(str(postgres.port), "1")
    with pytest.raises(StoreUnavailable, match="does not answer"):
        await PostgresStore(nowhere).open()
    missing = postgres.dsn.replace("/postgres", "/nothing")
    with pytest.raises(StoreUnavailable, match="there is no such database"):
        await PostgresStore(missing).open()


async def test_a_connection_that_is_given_up_while_it_is_set_up_is_closed(
    postgres: Postgres,
) -> None:
    """An event loop that ends cancels what is under way."""
    async with wired(postgres.dsn) as (wire, dsn):
        wire.delay = 0.1  # so long is on its way what sets the session up
        connecting = asyncio.create_task(connect(parse_address(dsn)))
        while not wire.trips:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        connecting.cancel()
        await asyncio.wait([connecting])
        async with asyncio.timeout(MAX_WAIT_SECONDS):
            while wire.sessions:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_a_connection_that_no_caller_waits_for_is_made_and_closed(
    postgres: Postgres,
) -> None:
    """A store that closes waits for it: the event loop may end after that."""
    async with wired(postgres.dsn) as (wire, dsn):
        wire.delay = 0.05
        connector = Connector(parse_address(dsn))
        connecting = asyncio.create_task(connector.connect())
        while not wire.sessions:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        connecting.cancel()
        await asyncio.wait([connecting], timeout=0.01)
        assert connecting.cancelled()
        await connector.close()
        assert wire.trips == 1, "it was made"
        async with asyncio.timeout(MAX_WAIT_SECONDS):
            while wire.sessions:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def test_a_pooler_that_the_address_does_not_name_is_found_out(postgres: Postgres) -> None:
    """06 §5.5: with `pooler=transaction`, no statement stays prepared."""
    async with wired(postgres.dsn) as (wire, dsn):
        wire.hides_sessions = True
        with pytest.raises(StoreUnavailable, match="add pooler=transaction"):
            await PostgresStore(f"{dsn}&schema=pooled").open()
        direct = quote(dsn.partition("?")[0], safe="")
        with pytest.raises(StoreUnavailable, match="direct= is for the database itself"):
            await PostgresStore(
                f"{postgres.dsn}?schema=pooled&pooler=transaction&direct={direct}"
            ).open()
        store = PostgresStore(f"{dsn}&schema=pooled&pooler=transaction")
        await write(store, messages=says("a"))
        await write(store, messages=says("b"))
        assert await texts(store) == ["a", "b"]
        await store.close()


async def configure(admin: asyncpg.Connection, **settings: str) -> None:
    """Set values for the whole server, and wait until this session has them."""
    for name, value in settings.items():
        await admin.execute(f"ALTER SYSTEM SET {name} = '{value}'")
    await admin.execute("SELECT pg_reload_conf()")
    for name, value in settings.items():
        while (
            await admin.fetchval("SELECT reset_val FROM pg_settings WHERE name = $1", name) != value
        ):
            pass


async def test_a_node_warns_of_standbys_that_commits_do_not_wait_for(
    postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    """06 §5.9: with a synchronous standby a failover loses nothing."""

    address = parse_address(postgres.dsn)
    admin = await asyncpg.connect(postgres.dsn)
    # To the server, this is how a standby begins.
    standby = await asyncpg.connect(postgres.dsn, server_settings={"replication": "true"})
    store = PostgresStore(postgres.address())
    try:
        await store.open()
        assert "Set synchronous_standby_names" in caplog.text
        caplog.clear()
        await configure(admin, synchronous_commit="local", synchronous_standby_names="one")
        await check_standbys(admin, address)
        assert "synchronous_commit = on" in caplog.text
        caplog.clear()
        await admin.execute("SET synchronous_commit = on")
        await check_standbys(admin, address)
        assert caplog.text == ""
    finally:
        await configure(admin, synchronous_standby_names="", synchronous_commit="on")
        for name in ("synchronous_standby_names", "synchronous_commit"):
            await admin.execute(f"ALTER SYSTEM RESET {name}")
        await standby.close()
        await store.close()
        await check_standbys(admin, address)
        await admin.close()
    assert caplog.text == ""


async def test_nodes_that_open_an_empty_database_at_once_set_it_up_once(
    postgres: Postgres,
) -> None:
    address = postgres.address()
    stores = [PostgresStore(address) for _ in range(3)]
    await asyncio.gather(*(store.open() for store in stores))
    assert len({store.owner for store in stores}) == 3
    for store in stores:
        await store.close()


async def test_schemas_of_one_database_know_nothing_of_each_other(postgres: Postgres) -> None:
    one, two = PostgresStore(postgres.address()), PostgresStore(postgres.address())
    await write(one, messages=says("one"))
    assert await texts(two) == []
    await one.close()
    await two.close()


async def test_a_closed_store_says_so_and_can_be_opened_again(postgres: Postgres) -> None:
    store = PostgresStore(postgres.address())
    await write(store, messages=says("a"))
    await store.close()
    with pytest.raises(StoreUnavailable, match="open it again"):
        await store.check()
    await store.open()
    await store.check()
    assert await texts(store) == ["a"]
    await store.close()


async def test_a_node_works_with_its_own_version_and_the_next_one(postgres: Postgres) -> None:
    """06/CL-17, with a migration that does not exist yet: the older node goes on, one that is two
    versions behind is refused, and one that is ahead says which command to run."""
    address = postgres.address()
    schema = address.partition("schema=")[2]
    old = PostgresStore(address)
    await write(old, messages=says("before"))
    connection = await asyncpg.connect(postgres.dsn)
    latest = await connection.fetchval(f"SELECT max(number) FROM {schema}.migrations")
    await connection.execute(
        f"ALTER TABLE {schema}.threads ADD COLUMN mood text; "
        f"INSERT INTO {schema}.migrations (number, name) VALUES ({latest + 1}, 'mood')"
    )
    await write(old, messages=says("during"))
    beside = PostgresStore(address)
    await write(beside, messages=says("after"))
    assert await texts(old) == ["before", "during", "after"]
    await beside.close()

    await connection.execute(
        f"INSERT INTO {schema}.migrations (number, name) VALUES ({latest + 2}, 'more')"
    )
    with pytest.raises(StoreUnavailable, match="upgrade awaken"):
        await PostgresStore(address).open()
    await connection.execute(f"DELETE FROM {schema}.migrations WHERE number >= {latest}")
    with pytest.raises(StoreUnavailable, match="run `awaken db migrate"):
        await PostgresStore(address).open()
    await connection.close()
    await old.close()


async def test_tables_are_made_by_a_command(postgres: Postgres) -> None:
    address = postgres.address()
    would = await migrate_address(address, dry_run=True)
    assert would.steps
    done = await migrate_address(address)
    assert done.steps == would.steps
    again = await migrate_address(address)
    assert (again.steps, again.version) == ((), len(done.steps))
    store = PostgresStore(address)
    await write(store, messages=says("a"))
    await store.close()


async def test_who_waits_for_a_set_up_sees_what_it_has_made(postgres: Postgres) -> None:
    """Even if the connection asked before for the tables that were not there yet. A small schema:
    a large one makes Postgres tell all connections of it by itself, mostly."""
    address = parse_address(postgres.address())
    small = [Migration(1, "one", "CREATE TABLE nodes (id int)")]
    first, second = [await asyncpg.connect(postgres.dsn) for _ in range(2)]
    try:
        async with asyncio.TaskGroup() as group:
            async with first.transaction(isolation="read_committed"):
                await prepare(first, address, small)
                waits = group.create_task(prepare(second, address, small))
                while not await first.fetchval(
                    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                ):
                    pass
            await waits
    finally:
        await first.close()
        await second.close()
