"""A Postgres that misbehaves: sessions that are ended, rights that are missing, tables that are
gone, connections that run out, and a network that is slow."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import asyncpg
import pytest

from awaken import Agent, Runtime, ToolCallContext, tool
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.store.commits import ThreadCommit
from awaken.errors import CommitUnknown, StoreUnavailable
from awaken.stores.postgres import PostgresStore
from awaken.testing import FunctionModel, text_response, tool_call_response
from awaken.testing.conformance.helpers import says, texts, write
from postgres_kit import Postgres, running_postgres
from postgres_wire import wired

pytestmark = pytest.mark.anyio

CALLS = 6
PATIENCE = 200


def worker(made: list[str]) -> Agent:
    @tool
    async def work(number: int, ctx: ToolCallContext) -> str:
        """Count this call."""
        made.append(ctx.idempotency_key)
        await asyncio.sleep(0.01)
        return f"worked {number}"

    def answer(request: InferenceRequest) -> StreamResult:
        told = [message for message in request.messages if message.role is Role.TOOL]
        if len(told) >= CALLS:
            return text_response("done")
        return tool_call_response("", "work", f"c{len(told)}", {"number": len(told)})

    return Agent("worker", model=FunctionModel(answer), tools=[work])


async def run(runtime: Runtime, thread: str) -> str:
    """Run until it is done. The start of a run may be refused: then it has not begun."""
    while True:
        try:
            result = await runtime.run("worker", "go", thread=thread)
        except StoreUnavailable:
            latest = await runtime.store.latest_run(thread)
            assert latest is None, "a run that has begun goes on"
        else:
            return result.response


async def execute(postgres: Postgres, text: str) -> None:
    connection = await asyncpg.connect(postgres.dsn)
    try:
        await connection.execute(text)
    finally:
        await connection.close()


def schema_of(address: str) -> str:
    return address.partition("schema=")[2].partition("&")[0]


async def test_sessions_that_are_ended_at_random_cost_no_run_and_double_no_call() -> None:
    """Every connection of the node, the lease's and the listener's too, again and again."""
    made: list[str] = []
    chance = random.Random(1)
    with running_postgres() as server:

        async def end_sessions() -> None:
            connection = await asyncpg.connect(server.dsn)
            try:
                while True:
                    await asyncio.sleep(0.2)
                    pids = await connection.fetch(
                        "SELECT pid FROM pg_stat_activity "
                        "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
                    )
                    if pids:
                        await connection.execute(
                            "SELECT pg_terminate_backend($1)", chance.choice(pids)["pid"]
                        )
            finally:
                await connection.close()

        async with (
            Runtime([worker(made)], store=server.address()) as runtime,
            asyncio.timeout(PATIENCE),
            asyncio.TaskGroup() as tasks,
        ):
            ending = tasks.create_task(end_sessions())
            names = [f"t{n}" for n in range(8)]
            runs = [tasks.create_task(run(runtime, t)) for t in names]
            await asyncio.wait(runs)
            ending.cancel()
    assert [task.result() for task in runs] == ["done"] * 8
    assert len(made) == len(set(made)) == 8 * CALLS


async def test_a_claim_whose_answer_was_lost_does_not_keep_its_thread(postgres: Postgres) -> None:
    """Nobody has the fence: the thread would belong to this node for as long as it lives."""
    async with wired(postgres.dsn) as (wire, _):
        address = postgres.address().replace(f":{postgres.port}/", f":{wire.port}/")
        store = PostgresStore(address)
        await store.open()
        wire.loses_commit = True
        with pytest.raises(StoreUnavailable):
            await store.claim("t", at_ms=1)
        fence = await store.claim("t", at_ms=2)
        await write(store, messages=says("mine"), fence=fence)
        assert await texts(store) == ["mine"]
        await store.close()


async def test_a_slow_network_costs_time_and_nothing_else(postgres: Postgres) -> None:
    """Every message of the protocol is late, those of the lease too."""
    made: list[str] = []
    async with wired(postgres.dsn) as (wire, _):
        address = postgres.address().replace(f":{postgres.port}/", f":{wire.port}/")
        async with asyncio.timeout(PATIENCE), Runtime([worker(made)], store=address) as runtime:
            wire.delay = 0.005
            result = await runtime.run("worker", "go", thread="t")
            wire.delay = 0.0
    assert result.response == "done"
    assert len(made) == len(set(made)) == CALLS


async def test_a_database_that_only_reads_says_so_and_is_used_again_later(
    postgres: Postgres,
) -> None:
    """As a standby does, before it is promoted."""
    address = postgres.address()
    store = PostgresStore(address)
    await store.open()
    await write(store, messages=says("before"))
    await execute(postgres, "ALTER SYSTEM SET default_transaction_read_only = on")
    await execute(postgres, "SELECT pg_reload_conf()")
    commit = ThreadCommit(thread_id="t", expected_length=1, messages=says("meanwhile"))
    try:
        async with asyncio.timeout(PATIENCE):
            while not isinstance(error := await outcome(store, commit), StoreUnavailable):
                commit = ThreadCommit(thread_id=f"{id(error)}", expected_length=0)
        assert "read-only" in str(error)
    finally:
        connection = await asyncpg.connect(postgres.dsn)
        await connection.execute("SET default_transaction_read_only = off")
        await connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
        await connection.execute("SELECT pg_reload_conf()")
        await connection.close()
    async with asyncio.timeout(PATIENCE):
        again = ThreadCommit(thread_id="later", expected_length=0, messages=says("after"))
        while isinstance(await outcome(store, again), StoreUnavailable):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert await texts(store, "later") == ["after"]
    await store.close()


async def outcome(store: PostgresStore, commit: ThreadCommit) -> object:
    try:
        return await store.commit(commit)
    except (StoreUnavailable, CommitUnknown) as error:
        return error


async def test_a_role_without_rights_is_told_what_is_missing(postgres: Postgres) -> None:
    address = postgres.address()
    store = PostgresStore(address)
    await store.open()
    await execute(
        postgres,
        "DROP ROLE IF EXISTS stranger; CREATE ROLE stranger LOGIN; "
        f"GRANT USAGE ON SCHEMA {schema_of(address)} TO stranger",
    )
    stranger = PostgresStore(address.replace("awaken@", "stranger@"))
    with pytest.raises(StoreUnavailable, match="grant this user rights"):
        await stranger.open()
    await write(store, messages=says("still here"))
    await store.close()


async def test_tables_that_are_dropped_under_a_node_are_named(postgres: Postgres) -> None:
    address = postgres.address()
    store = PostgresStore(address)
    await store.open()
    await write(store, messages=says("one"))
    await execute(postgres, f"DROP SCHEMA {schema_of(address)} CASCADE")
    with pytest.raises(StoreUnavailable, match=r"awaken db migrate|does not exist"):
        await write(store, expected_length=1, messages=says("two"))
    with pytest.raises(StoreUnavailable):
        await store.load_thread("t")
    async with asyncio.timeout(PATIENCE):
        await store.close()


async def test_a_node_that_gets_no_connection_says_which_number_to_raise() -> None:
    with running_postgres(max_connections="12", superuser_reserved_connections="0") as server:
        taken = []
        address = server.address()
        first = PostgresStore(address)
        await first.open()
        try:
            while True:
                taken.append(await asyncpg.connect(server.dsn))
        except asyncpg.TooManyConnectionsError:
            pass
        second = PostgresStore(address)
        with pytest.raises(StoreUnavailable, match="raise max_connections"):
            await second.open()
        for connection in taken:
            await connection.close()
        await second.open()
        await write(second, messages=says("in"))
        await second.close()
        await first.close()


async def test_a_commit_waits_for_a_place_among_the_connections() -> None:
    """A database that was away, or many nodes that start, may leave none for a while: it is the
    same as a database that cannot be reached yet."""
    with running_postgres(max_connections="10") as server:
        store = PostgresStore(server.address(pool=1))
        await store.open()
        others: list[asyncpg.Connection] = []
        with suppress(asyncpg.TooManyConnectionsError):
            while True:
                others.append(await asyncpg.connect(server.dsn))
        committing = asyncio.ensure_future(write(store, messages=says("at last")))
        done, _ = await asyncio.wait([committing], timeout=1)
        assert not done, "the writer has no connection, and there is none to be had"
        for other in others:
            await other.close()
        async with asyncio.timeout(PATIENCE):
            await committing
        assert await texts(store) == ["at last"]
        await store.close()


async def test_leases_that_all_end_at_once_lose_and_double_nothing(postgres: Postgres) -> None:
    """06 §5.9: the clock of Postgres jumps forward, again and again."""
    address, made = postgres.address(lease=0.9, pool=3), list[str]()
    schema = address.partition("schema=")[2].partition("&")[0]
    names = [f"t{number}" for number in range(6)]
    async with (
        asyncio.timeout(PATIENCE),
        Runtime([worker(made)], store=address) as one,
        Runtime([worker(made)], store=address),
    ):
        for name in names:
            await one.submit("worker", "work", thread=name)
        connection = await asyncpg.connect(postgres.dsn)
        for calls in (6, 14, 22):
            while len(made) < calls:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            # What was written before the jump is an hour old now.
            await connection.execute(
                f"UPDATE {schema}.nodes SET lease_until = lease_until - interval '1 hour', "
                "held_since = held_since - interval '1 hour'"
            )
        await connection.close()
        ends = [(await one.wait(name)).response for name in names]
    assert ends == ["done"] * len(names)
    assert len(made) == len({*made}), "a call was made twice"
