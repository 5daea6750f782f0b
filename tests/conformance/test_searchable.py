"""Every store that can be searched against the one suite (07 §6)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from awaken.core.store.store import Store
from awaken.stores.memory import MemoryStore
from awaken.stores.postgres import PostgresStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance import StoreCheck, search_checks
from postgres_kit import Postgres

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "sqlite", "sqlite in memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    opened: Store
    if request.param == "memory":
        opened = MemoryStore()
    elif request.param == "sqlite":
        opened = SqliteStore.from_address(f"sqlite:///{tmp_path}/awaken.db")
    else:
        opened = SqliteStore.from_address("sqlite:///:memory:")
    await opened.open()
    yield opened
    await opened.close()


@pytest.mark.parametrize("check", search_checks(), ids=lambda check: check.__name__)
async def test_store(check: StoreCheck, store: Store) -> None:
    await check(store)


@pytest.mark.parametrize("check", search_checks(), ids=lambda check: check.__name__)
async def test_postgres(check: StoreCheck, postgres: Postgres) -> None:
    store = PostgresStore(postgres.address())
    await store.open()
    try:
        await check(store)
    finally:
        await store.close()
