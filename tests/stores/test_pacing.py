"""Deleting many threads without holding others up."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg
import pytest

from awaken.core.store.commands import KEY_KEPT_MS
from awaken.core.store.threads import DeleteResult
from awaken.stores.batch_delete import MAX_BATCH, delete_in_batches, next_size
from awaken.stores.postgres import PostgresStore
from awaken.testing import FakeClock
from postgres_kit import Postgres

pytestmark = pytest.mark.anyio


def test_a_batch_is_smaller_after_one_that_took_too_long() -> None:
    assert next_size(200, 0.1) == 100
    assert next_size(200, 10.0) == 1
    assert next_size(1, 10.0) == 1
    assert next_size(100, 0.01) == MAX_BATCH
    assert next_size(3, 0.05) == 6


async def test_all_are_deleted_once_and_in_their_order() -> None:
    batches: list[Sequence[int]] = []

    async def delete(batch: Sequence[int]) -> DeleteResult:
        batches.append(batch)
        return DeleteResult(threads=len(batch), bytes=2 * len(batch))

    freed = await delete_in_batches(range(1000), delete)

    assert [number for batch in batches for number in batch] == list(range(1000))
    assert max(len(batch) for batch in batches) <= MAX_BATCH
    assert (freed.threads, freed.bytes) == (1000, 2000)


async def test_what_was_deleted_stays_deleted_if_a_batch_fails() -> None:
    gone: list[int] = []

    async def delete(batch: Sequence[int]) -> DeleteResult:
        if gone:
            raise ConnectionError
        gone.extend(batch)
        return DeleteResult()

    with pytest.raises(ConnectionError):
        await delete_in_batches(range(1000), delete)
    assert gone == list(range(len(gone)))


async def test_what_has_expired_is_deleted_by_prune(postgres: Postgres) -> None:
    """06 §5.8: keys after seven days, nodes an hour after their lease."""
    address, clock = postgres.address(), FakeClock()
    schema = address.partition("schema=")[2]
    store = PostgresStore(address, clock=clock)
    await store.open()
    admin = await asyncpg.connect(postgres.dsn)
    now = clock.now_ms()
    for age in (KEY_KEPT_MS + 1, KEY_KEPT_MS - 1):
        await admin.execute(
            f"INSERT INTO {schema}.submission_keys VALUES (1, $1, '', '', 0, $2)",
            f"k{age}",
            now - age,
        )
        await admin.execute(
            f"INSERT INTO {schema}.deleted_threads VALUES ($1, $2)", f"t{age}", now - age
        )
    for minutes in (59, 61):
        await admin.execute(
            f"INSERT INTO {schema}.nodes (host, pid, started_at, held_since, lease_until, ttl) "
            "SELECT 'far', $1, now(), now(), now() - make_interval(mins => $1), '3 s'",
            minutes,
        )

    await store.prune(before_ms=0)

    keys = await admin.fetch(f"SELECT key FROM {schema}.submission_keys")
    deleted = await admin.fetch(f"SELECT id FROM {schema}.deleted_threads")
    nodes = await admin.fetch(f"SELECT pid FROM {schema}.nodes WHERE host = 'far'")
    assert [row[0] for row in keys] == [f"k{KEY_KEPT_MS - 1}"]
    assert [row[0] for row in deleted] == [f"t{KEY_KEPT_MS - 1}"]
    assert [row[0] for row in nodes] == [59]
    await admin.close()
    await store.close()
