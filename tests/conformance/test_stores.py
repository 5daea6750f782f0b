"""Every store of threads against the one suite (04 §10)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from awaken.core.store.store import Store
from awaken.stores.memory import MemoryStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance import (
    SharedStoreCheck,
    StoreCheck,
    shared_store_checks,
    store_checks,
)

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


@pytest.mark.parametrize("check", store_checks(), ids=lambda check: check.__name__)
async def test_store(check: StoreCheck, store: Store) -> None:
    await check(store)


@pytest.mark.parametrize("check", shared_store_checks(), ids=lambda check: check.__name__)
async def test_store_that_outlives_its_handles(check: SharedStoreCheck, tmp_path: Path) -> None:
    async def open_store() -> Store:
        store = SqliteStore.from_address(f"sqlite:///{tmp_path}/awaken.db")
        await store.open()
        return store

    await check(open_store)
