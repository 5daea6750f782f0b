"""User ids that no database likes (06/CL-23)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from msgspec.structs import replace

from awaken.core.store.store import Store
from awaken.core.store.threads import RunQuery, ThreadQuery
from awaken.stores.memory import MemoryStore
from awaken.stores.postgres import PostgresStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance.helpers import names
from awaken.testing.conformance.submissions import submission
from postgres_kit import Postgres

pytestmark = pytest.mark.anyio

LONG = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=10_000))
STRANGE = ("' \" ; -- \0 \U0001f600", f"{LONG} '", f"{LONG}'")


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_any_user_id_is_kept_and_names_no_other(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """06/CL-23: alike on all stores."""
    store: Store
    if kind == "memory":
        store = MemoryStore()
    elif kind == "sqlite":
        store = SqliteStore(tmp_path / "awaken.db")
    else:
        server: Postgres = request.getfixturevalue("postgres")
        store = PostgresStore(server.address())
    await store.open()
    for number, user in enumerate(STRANGE):
        await store.submit(replace(submission(f"s{number}", f"t{number}"), user=user))
    for number, user in enumerate(STRANGE):
        assert names(await store.list_threads(ThreadQuery(user=user))) == [f"t{number}"]
        assert names(await store.list_runs(RunQuery(user=user))) == [f"s{number}"]
        thread = await store.load_thread(f"t{number}")
        assert thread is not None
        assert thread.metadata.user == user
    await store.close()
