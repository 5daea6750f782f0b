"""The collector frees stores that a process opens and closes again and again."""

import gc
import threading
import weakref
from pathlib import Path

import pytest

from awaken.stores import SqliteStore
from awaken.stores.postgres import PostgresStore
from postgres_kit import Postgres

pytestmark = pytest.mark.anyio

Stores = SqliteStore | PostgresStore


async def is_freed_when_closed(stores: list[Stores]) -> bool:
    """Whether the only store of `stores` is freed, though a listener knows it: the figures of a
    server know its runtime, and that knows the store."""
    store, others = stores.pop(), set(threading.enumerate())
    store.add_batch_callback(lambda jobs, seconds, known=store: None)  # type: ignore[misc]
    for _ in range(2):
        await store.open()
        await store.close()
    freed = weakref.ref(store)
    del store
    for thread in set(threading.enumerate()) - others:
        if thread.name.startswith("awaken writes"):
            thread.join()  # it answers that the store is closed, and then it ends
    gc.collect()
    return freed() is None


async def test_a_closed_sqlite_store_is_freed(tmp_path: Path) -> None:
    assert await is_freed_when_closed([SqliteStore(tmp_path / "awaken.db")])


async def test_a_closed_postgres_store_is_freed(postgres: Postgres) -> None:
    assert await is_freed_when_closed([PostgresStore(postgres.address())])
