"""Every blob store against the one suite (06 §2.10)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from awaken.blobs import FolderBlobs
from awaken.core.blobs import BlobStore
from awaken.core.store.store import Store
from awaken.stores.memory import MemoryStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance import BlobCheck, blob_checks

pytestmark = pytest.mark.anyio

Place = tuple[BlobStore, Store]


@pytest.fixture(params=["memory", "folder"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    if request.param == "memory":
        memory = MemoryStore()
        yield memory.blobs, memory
        return
    store = SqliteStore(tmp_path / "awaken.db")
    await store.open()
    yield FolderBlobs(tmp_path / "awaken.db-blobs", store), store
    await store.close()


@pytest.mark.parametrize("check", blob_checks(), ids=lambda check: check.__name__)
async def test_blob_store(check: BlobCheck, place: Place) -> None:
    await check(*place)
