"""Leases on Postgres: who is alive, who may take over, and what a node that was cut off may do.

A lease lasts half a second here.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

import asyncpg
import pytest

from awaken.core.identity import RequestOrigin
from awaken.core.run import RunRequestSnapshot
from awaken.core.store.commits import ORPHANS_EVERY_MS, Fence
from awaken.errors import StaleFence, ThreadOwned
from awaken.stores.postgres import PostgresStore
from awaken.stores.postgres.submissions import claim_next, find_next
from awaken.stores.sql.submissions import Wanted
from awaken.stores.waiting import POLL_SECONDS
from awaken.testing.conformance.helpers import (
    DONE,
    MAX_WAIT_SECONDS,
    WAITING,
    expect_error,
    names,
    record,
    says,
    texts,
    ticket,
    write,
)
from awaken.testing.conformance.submissions import submission
from postgres_kit import Postgres
from postgres_wire import wired

pytestmark = pytest.mark.anyio

LEASE = 0.5


@asynccontextmanager
async def nodes(address: str, count: int = 2) -> AsyncIterator[list[PostgresStore]]:
    async with AsyncExitStack() as stack:
        stores = []
        for _ in range(count):
            store = PostgresStore(address)
            await store.open()
            stack.push_async_callback(store.close)
            stores.append(store)
        yield stores


async def claimed(store: PostgresStore, thread_id: str = "t") -> Fence:
    """Claim a thread as soon as that is allowed."""
    async with asyncio.timeout(MAX_WAIT_SECONDS):
        while True:
            await store.wait_released(thread_id)
            try:
                return await store.claim(thread_id, at_ms=1)
            except ThreadOwned:
                await asyncio.sleep(0.02)


async def test_a_node_that_is_cut_off_stops_before_others_take_its_threads(
    postgres: Postgres,
) -> None:
    """06/CL-8: it holds no lease, its commits are refused, it is told once what it has lost, and it
    takes new work when it is back."""
    async with wired(postgres.dsn) as (wire, through):
        plain = postgres.address(lease=LEASE)
        cut = plain.replace(postgres.dsn, through.partition("?")[0])
        async with nodes(cut, 1) as (one,), nodes(plain, 1) as (two,):
            lost: list[Fence] = []
            one.lease.add_lost_callback(lost.append)
            mine = await one.claim("t", at_ms=1)
            kept = await one.claim("kept", at_ms=1)
            await write(one, run=record("r"), fence=mine)

            wire.swallow()
            assert one.lease.held
            await expect_error(ThreadOwned, two.claim("t", at_ms=2))
            theirs = await claimed(two)
            assert not one.lease.held, "the other node has claimed the thread"
            assert theirs.taken_from == one.owner
            await write(two, messages=says("two"), fence=theirs)

            wire.flow()
            async with asyncio.timeout(MAX_WAIT_SECONDS):
                await one.lease.wait_held()
            assert one.lease.held
            assert lost == [mine], "the other thread is still its own"
            await expect_error(StaleFence, write(one, messages=says("one"), fence=mine))
            await write(one, "kept", messages=says("one"), fence=kept)
            await one.claim("new", at_ms=3)
            assert await texts(two) == ["two"]


async def test_a_blocked_event_loop_loses_no_thread(postgres: Postgres) -> None:
    """06/CL-9: the lease is renewed by a thread of its own."""
    address = postgres.address(lease=LEASE)
    async with nodes(address, 1) as (one,):
        await one.claim("t", at_ms=1)
        answers: list[str] = []

        async def try_to_take() -> None:
            async with nodes(address, 1) as (two,):
                # So long that the node would have been allowed to take the thread of a dead one.
                for _ in range(4):
                    with pytest.raises(TimeoutError):
                        async with asyncio.timeout(LEASE / 2):
                            await two.wait_released("t")
                    answers.append((await expect_error(ThreadOwned, two.claim("t", at_ms=2))).owner)

        other = threading.Thread(target=lambda: asyncio.run(try_to_take()))
        other.start()
        other.join()  # this event loop stands still meanwhile
        assert answers == [one.owner] * 4
        assert one.lease.held


async def test_after_an_outage_no_node_takes_what_its_owner_still_wants(
    postgres: Postgres,
) -> None:
    """06 §5.3: a node whose own lease has just begun takes nothing from owners whose lease is
    over; threads that were released are free at once."""
    address = postgres.address(lease=60)
    async with nodes(address) as (one, two):
        fence = await one.claim("t", at_ms=1)
        free = await one.claim("free", at_ms=1)
        await write(one, run=record("r"), fence=fence)
        await one.release(free)
        await _end_lease(postgres, address, one.owner)

        assert names(await two.list_interrupted(now_ms=1)) == ["r"]
        await expect_error(ThreadOwned, two.claim("t", at_ms=2))
        assert await two.claim_next(["agent"], limit=5, at_ms=2, overdue_ms=0) == ()
        await two.claim("free", at_ms=2)
        await write(one, messages=says("still mine"), fence=fence)


async def test_a_node_finds_no_work_in_what_is_done_waits_or_has_an_owner(
    postgres: Postgres,
) -> None:
    """06/CL-22: a look around then takes one read."""
    address = postgres.address(lease=60)
    async with nodes(address) as (one, two):

        async def has_work(at_ms: int = 1000) -> bool:
            return await two.lease.has_work(at_ms=at_ms, overdue_ms=at_ms)

        await write(one, "done", run=record("over", "done", status=DONE))
        asked = ticket(thread_id="waits", run_id="asks", expires_at=2000)
        await write(one, "waits", run=record("asks", "waits", status=WAITING), tickets=(asked,))
        await one.submit(submission("later", "delayed", not_before_ms=3000))
        fence = await one.claim("t", at_ms=1)
        await write(one, run=record("r"), fence=fence)
        assert not await has_work()
        assert await has_work(2001), "a question has expired"
        await write(one, "waits", run=record("asks", "waits", status=DONE), tickets=())
        assert not await has_work(2001)
        assert await has_work(3000), "a submission is due"
        await _end_lease(postgres, address, one.owner)
        assert await has_work(), "an owner is dead"


async def test_a_node_looks_seldom_for_delegates_whose_parent_run_has_ended(
    postgres: Postgres,
) -> None:
    """Every waiting run is read for that: once a minute is enough for what is not to occur."""
    async with nodes(postgres.address(lease=60)) as (one, two):

        async def has_work(at_ms: int) -> bool:
            return await two.lease.has_work(at_ms=at_ms, overdue_ms=0)

        call = RunRequestSnapshot(origin=RequestOrigin.INTERNAL, parent_tool_call_id="c")
        left = record("d", "d", status=WAITING, parent_run_id="r", request=call)
        await write(one, run=record("r", status=WAITING))
        await write(one, "d", run=left)
        assert not await has_work(1000)
        await write(one, run=record("r", status=DONE))
        assert not await has_work(1000 + ORPHANS_EVERY_MS - 1)
        assert await has_work(1000 + ORPHANS_EVERY_MS)
        assert await has_work(1), "the clock was set back"


async def test_a_look_around_that_finds_no_command_spares_the_look_for_commands(
    postgres: Postgres,
) -> None:
    """06/CL-22: each statement costs the server more than what it does."""
    async with wired(postgres.dsn) as (wire, _):
        dsn = postgres.dsn.replace(f":{postgres.port}/", f":{wire.port}/")
        store = PostgresStore(f"{dsn}?schema=spared&lease=60&sslmode=disable")
        await store.open()
        async with asyncio.timeout(MAX_WAIT_SECONDS), aclosing(store.watch_commands()) as ready:
            assert await anext(ready) == set()
            hearing = asyncio.ensure_future(anext(ready))
            await until_heard(store)
            await store.lease.has_work(at_ms=1, overdue_ms=1)
            wire.trips = looks = 0
            until = time.monotonic() + 2.5 * POLL_SECONDS
            while time.monotonic() < until:
                await asyncio.sleep(POLL_SECONDS / 10)
                await store.lease.has_work(at_ms=1, overdue_ms=1)
                looks += 1
            assert wire.trips == looks
            hearing.cancel()
            await asyncio.wait([hearing])
        await store.close()


async def test_a_node_that_closes_gives_its_threads_to_others_at_once(postgres: Postgres) -> None:
    """06/CL-5, as far as the store goes."""
    async with nodes(postgres.address(lease=60)) as (one, two):
        await write(one, run=record("r"), fence=await one.claim("t", at_ms=1))
        await one.close()
        ((fence, run),) = await two.claim_next(["agent"], limit=5, at_ms=2, overdue_ms=0)
        assert (fence.thread_id, fence.taken_from, run.run_id) == ("t", None, "r")


@pytest.mark.parametrize("how", ["with its commit", "by itself", "with all others"])
async def test_a_node_is_told_of_a_run_that_another_one_has_left(
    postgres: Postgres, how: str
) -> None:
    """06/CL-5, 06 §3.10: it need not look around for it. There is no command in the thread."""
    async with nodes(postgres.address(lease=60)) as (one, two):
        fence = await one.claim("t", at_ms=1)
        await write(one, run=record("r"), fence=fence)
        async with asyncio.timeout(MAX_WAIT_SECONDS), aclosing(two.watch_commands()) as ready:
            assert await anext(ready) == set()
            hearing = asyncio.ensure_future(anext(ready))
            await until_heard(two)
            if how == "with its commit":
                await write(one, run=record("r", revision=2), fence=fence, release=True)
            elif how == "by itself":
                await one.release(fence)
            else:
                await one.close()
            assert await hearing == {"t"}


async def until_heard(store: PostgresStore) -> None:
    """Wait until the node hears hints; it listens from when it first waits for one."""
    engine = await store._opener.engine()
    while engine._listener.is_deaf:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_ten_nodes_share_what_is_to_be_done(postgres: Postgres) -> None:
    """06/CL-15, 06/CL-16: each run is claimed once, and no node takes more than its room."""
    async with nodes(postgres.address(lease=60, pool=2), 10) as stores:
        for number in range(40):
            await stores[0].submit(submission(f"s{number}", f"t{number}"))
        taken: list[str] = []

        async def take(store: PostgresStore) -> None:
            while len(taken) < 40:
                found = await store.claim_next(["agent"], limit=3, at_ms=1000, overdue_ms=0)
                assert len(found) <= 3
                assert all(fence.owner == store.owner for fence, _ in found)
                taken.extend(run.run_id for _, run in found)

        async with asyncio.timeout(MAX_WAIT_SECONDS), asyncio.TaskGroup() as tasks:
            for store in stores:
                tasks.create_task(take(store))
        assert sorted(taken) == sorted(f"s{number}" for number in range(40))


async def test_a_node_that_comes_too_late_for_some_runs_claims_others(postgres: Postgres) -> None:
    """06/CL-15: also if it had read which runs there are before others claimed them."""
    async with nodes(postgres.address(lease=60)) as (one, two):
        for number in range(6):
            await one.submit(submission(f"s{number}", f"t{number}"))
        engine = await two._opener.engine()
        wanted = Wanted(["agent"], limit=3, at_ms=1000, overdue_ms=0, skip=[])
        seen = await engine.read(lambda db: find_next(db, engine.node, engine.unreadable, wanted))
        first = await one.claim_next(["agent"], limit=3, at_ms=1000, overdue_ms=0)
        then = await engine.write(
            lambda db: claim_next(db, engine.node, engine.unreadable, wanted, seen)
        )
        assert [run.run_id for _, run in (*first, *then)] == [f"s{number}" for number in range(6)]


async def _end_lease(postgres: Postgres, address: str, owner: str) -> None:
    """End the lease of a node, as if it had not renewed it."""
    schema = address.partition("schema=")[2].partition("&")[0]
    connection = await asyncpg.connect(postgres.dsn)
    await connection.execute(
        f"UPDATE {schema}.nodes SET lease_until = clock_timestamp() WHERE 'node-' || id = $1", owner
    )
    await connection.close()
