"""Commits to Postgres: their trips, their batches, and what becomes of a lost answer."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from awaken.core.store.commits import Committed, ThreadCommit
from awaken.errors import CommitUnknown, VersionConflict
from awaken.stores.postgres import PostgresStore
from awaken.stores.postgres.connections import Db, Schema
from awaken.stores.postgres.packing import COMMIT, arguments, element_of
from awaken.stores.sql.delta import pack
from awaken.stores.sql.fold import SNAPSHOT_EVERY
from awaken.testing.conformance.helpers import record, says, texts, write
from postgres_kit import Postgres
from postgres_wire import wired

pytestmark = pytest.mark.anyio


def step(name: str, number: int) -> ThreadCommit:
    """The commit number `number` of a thread, with one message and its run."""
    return ThreadCommit(
        thread_id=name,
        expected_length=number,
        messages=says(f"{name}-{number}"),
        run=record(f"run {name}", name, revision=number),
    )


async def test_a_commit_is_one_trip_and_commits_of_many_runs_share_it(postgres: Postgres) -> None:
    """06/CL-2: counted on the wire."""
    async with wired(postgres.dsn) as (wire, dsn):
        store = PostgresStore(f"{dsn}&schema=trips")
        await store.open()
        for number in range(2):  # each of the two connections prepares its statement once
            await asyncio.gather(*(store.commit(step(f"w{n}", number)) for n in range(3)))
            await store.commit(step("t", number))

        wire.trips = 0
        await store.commit(step("t", 2))
        assert wire.trips == 1

        names = [f"r{n}" for n in range(100)]
        await asyncio.gather(*(store.commit(step(name, 0)) for name in names))
        wire.trips = 0
        await asyncio.gather(*(store.commit(step(name, 1)) for name in names))
        assert wire.trips <= 4
        await store.close()


async def test_a_refused_commit_leaves_the_others_of_its_batch_in_place(
    postgres: Postgres,
) -> None:
    """06/CL-2."""
    store = PostgresStore(postgres.address())
    await store.open()
    good = [step(f"t{n}", 0) for n in range(10)]
    bad = [step(f"b{n}", 7) for n in range(10)]
    made = await asyncio.gather(
        *(store.commit(commit) for pair in zip(good, bad, strict=True) for commit in pair),
        return_exceptions=True,
    )
    assert [type(answer) for answer in made] == [Committed, VersionConflict] * 10
    for commit in good:
        assert await texts(store, commit.thread_id) == [f"{commit.thread_id}-0"]
    for commit in bad:
        assert await store.load_thread(commit.thread_id) is None
    await store.close()


async def test_a_name_that_postgres_does_not_take_refuses_its_own_commit_alone(
    postgres: Postgres,
) -> None:
    store = PostgresStore(postgres.address())
    await store.open()
    made = await asyncio.gather(
        *(store.commit(step(name, 0)) for name in ("a", "nul \0", "z")), return_exceptions=True
    )
    assert [type(answer).__name__ for answer in made] == ["Committed", "Serialization", "Committed"]
    await store.close()


async def test_a_commit_whose_answer_was_lost_is_found(postgres: Postgres) -> None:
    """06 §5.2: the connection breaks after the batch was sent."""
    async with wired(postgres.dsn) as (wire, dsn):
        store = PostgresStore(f"{dsn}&schema=lost")
        await store.open()
        await store.commit(step("t", 0))
        wire.holds_answers = True
        async with asyncio.TaskGroup() as tasks:
            committing = tasks.create_task(_outcome(store, step("t", 1)))
            await wire.held.wait()
            wire.holds_answers = False
            wire.cut()
        assert isinstance(committing.result(), CommitUnknown)

        assert await store.find_commit(step("t", 1)) == Committed(2, 1)
        assert await store.find_commit(step("t", 2)) is None
        await store.commit(step("t", 2))
        assert await texts(store) == ["t-0", "t-1", "t-2"]
        await store.close()


async def test_a_commit_that_never_arrived_is_not_found_and_can_be_made(
    postgres: Postgres,
) -> None:
    async with wired(postgres.dsn) as (wire, dsn):
        store = PostgresStore(f"{dsn}&schema=gone")
        await store.open()
        await store.commit(step("t", 0))
        wire.swallow()
        async with asyncio.TaskGroup() as tasks:
            committing = tasks.create_task(_outcome(store, step("t", 1)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            wire.cut()
        wire.flow()
        assert isinstance(committing.result(), CommitUnknown | Committed)
        if await store.find_commit(step("t", 1)) is None:
            await store.commit(step("t", 1))
        assert await texts(store) == ["t-0", "t-1"]
        await store.close()


async def test_a_thread_gets_one_snapshot_at_a_time(postgres: Postgres) -> None:
    """06/CL-3: commits that come while a snapshot is being written do not start another one."""
    store = PostgresStore(f"{postgres.dsn}?schema=snapshots")
    await store.open()
    beside = await asyncpg.connect(postgres.dsn)
    transaction = beside.transaction()
    await transaction.start()
    await beside.execute("LOCK TABLE snapshots.snapshots IN EXCLUSIVE MODE")
    for number in range(SNAPSHOT_EVERY + 20):
        await store.commit(step("t", number))
    while not (waiting := await beside.fetchval(_WAITING)):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert waiting == 1
    await transaction.rollback()
    while not (found := await beside.fetch(_POSITIONS)):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert [position for (position,) in found] == [SNAPSHOT_EVERY]
    await beside.close()
    await store.close()


_POSITIONS = "SELECT position FROM snapshots.snapshots"
_WAITING = """
SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'snapshots.snapshots'::regclass
"""


async def test_commits_find_rows_by_indexes_also_in_small_tables(postgres: Postgres) -> None:
    """06/CL-3: a plan that is made while a table is small stays in use while the table grows, and
    the old versions of a few rows fill many pages."""
    store = PostgresStore(f"{postgres.dsn}?schema=plans")
    await store.open()
    names = [f"t{n}" for n in range(20)]
    await asyncio.gather(*(store.commit(step(name, 0)) for name in names))
    beside = await asyncpg.connect(postgres.dsn)
    await beside.execute("ANALYZE")  # now the planner knows how small they are
    async with beside.transaction():
        batch = [element_of(pack(step(name, 1)), ()) for name in names]
        answers = await Db(beside, Schema("plans")).rows(COMMIT, *arguments(batch, ()))
        assert [answer["outcome"] for answer in answers] == ["written"] * len(names)
        assert dict(await beside.fetch(_READ_WHOLE)) == {}
    await beside.close()
    await store.close()


_READ_WHOLE = """
SELECT relname, seq_scan FROM pg_stat_xact_user_tables WHERE schemaname = 'plans' AND seq_scan > 0
"""


async def test_commits_wait_for_a_database_that_is_away(postgres: Postgres) -> None:
    """06 §5.9: what was not sent is written when the database is back."""
    async with wired(postgres.dsn) as (wire, dsn):
        store = PostgresStore(f"{dsn}&schema=away")
        await store.open()
        await write(store, messages=says("first"))
        wire.refuses = True
        wire.cut()
        async with asyncio.TaskGroup() as tasks:
            committing = tasks.create_task(_outcome(store, step("u", 0)))
            await asyncio.sleep(0)
            wire.refuses = False
        assert isinstance(committing.result(), Committed | CommitUnknown)
        if isinstance(committing.result(), CommitUnknown):
            assert await store.find_commit(step("u", 0)) is None
            await store.commit(step("u", 0))
        assert await texts(store, "u") == ["u-0"]
        await store.close()


async def _outcome(store: PostgresStore, commit: ThreadCommit) -> object:
    try:
        return await store.commit(commit)
    except CommitUnknown as unknown:
        return unknown
