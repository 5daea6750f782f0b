"""A server in front of a store with rows that cannot be read: the others are served."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from edge_kit import Desk
from server_kit import served

from awaken import Runtime
from awaken.core.access import KeyRole
from awaken.server import app
from awaken.server.keys import add_key
from poisoned_kit import IN_LISTS, agents, poison_postgres, poison_sqlite, run_of, thread_ids
from postgres_kit import Postgres

pytestmark = pytest.mark.anyio

KEYS: dict[str, dict[str, Any]] = {
    "operator": {"roles": (KeyRole.ADMIN,)},
    "reader": {"roles": (KeyRole.READ,)},
    "bob": {"roles": (KeyRole.INVOKE,)},
    "narrowed": {"roles": (KeyRole.READ,), "agents": ["p"]},
    "stranger": {"roles": (KeyRole.ADMIN,), "scope": "other"},
}
READS_ALL = ("operator", "reader")


@asynccontextmanager
async def open_server(folder: Path, store: str) -> AsyncIterator[Desk]:
    file = folder / "keys.toml"
    keys = {name: add_key(file, name=name, **said) for name, said in KEYS.items()}
    async with AsyncExitStack() as stack:
        runtime = await stack.enter_async_context(Runtime(agents(), store=store, recover=False))
        address = await stack.enter_async_context(served(app(runtime, keys=file)))
        client = httpx2.AsyncClient(base_url=address, timeout=100)
        yield Desk(await stack.enter_async_context(client), address, runtime, keys)


@pytest.fixture(params=["sqlite", "postgres"])
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Desk]:
    if request.param == "sqlite":
        store = poison_sqlite(tmp_path / "awaken.db")
    else:
        postgres: Postgres = request.getfixturevalue("postgres")
        store = await poison_postgres(postgres.address())
    async with open_server(tmp_path, store) as opened:
        yield opened


async def test_lists_serve_other_rows_and_name_the_rest_to_keys_that_read_all(
    desk: Desk,
) -> None:
    run_ids = {run_of(thread) for thread in IN_LISTS["run"]}
    for who in KEYS:
        threads, runs, tickets = [
            (await desk.ask(who, "GET", f"/v1/{name}?limit=100")).json()
            for name in ("threads", "runs", "tickets")
        ]
        reads_all = who in READS_ALL
        assert {row["id"] for row in threads["unreadable"]} == (
            IN_LISTS["thread"] if reads_all else set()
        )
        assert {row["id"] for row in runs["unreadable"]} == (run_ids if reads_all else set())
        assert len(tickets["unreadable"]) == (len(IN_LISTS["ticket"]) if reads_all else 0)
        assert all(item["id"] not in IN_LISTS["thread"] for item in threads["items"])
        if reads_all:
            assert {item["id"] for item in threads["items"]} == (
                set(thread_ids().values()) - IN_LISTS["thread"]
            )
            assert "healthy" in {item["thread_id"] for item in runs["items"]}
    audit = (await desk.ask("operator", "GET", "/v1/audit")).json()
    assert audit["unreadable"] == []


async def test_pages_of_a_list_go_on_behind_what_cannot_be_read(desk: Desk) -> None:
    found: list[str] = []
    path = "/v1/threads?limit=1"
    while True:
        page = (await desk.ask("reader", "GET", path)).json()
        found += [item["id"] for item in page["items"]]
        if page["cursor"] is None:
            break
        path = f"/v1/threads?limit=1&cursor={page['cursor']}"
    assert set(found) == set(thread_ids().values()) - IN_LISTS["thread"]


async def test_another_users_runs_go_on(desk: Desk) -> None:
    asked = {"agent_id": "a", "messages": ["hi"]}
    answer = await desk.ask("bob", "POST", "/v1/threads/bobs/runs", json=asked)
    await desk.runtime.recover()
    result = await desk.runtime.wait(answer.json()["run_id"], timeout=60)
    listed = (await desk.ask("bob", "GET", "/v1/runs")).json()

    assert (answer.status_code, result.response) == (202, "You said: “hi”.")
    assert [item["thread_id"] for item in listed["items"]] == ["bobs"]


async def test_a_run_that_cannot_be_read_is_an_error_for_keys_that_read_all_and_unknown_to_others(
    desk: Desk,
) -> None:
    path = f"/v1/runs/{run_of('run-user')}"
    answers = {who: await desk.ask(who, "GET", path) for who in KEYS}
    codes = {
        who: (answer.status_code, answer.json()["error"]["code"]) for who, answer in answers.items()
    }
    assert codes == {
        who: (500, "unreadable") if who in READS_ALL else (404, "not_found") for who in KEYS
    }
    thread = await desk.ask("reader", "GET", "/v1/threads/run-user")
    assert (thread.status_code, thread.json()["user"]) == (200, None)


async def test_a_thread_with_rows_that_cannot_be_read_is_deleted_by_an_admin(desk: Desk) -> None:
    for thread in ("run-user", "approve-by"):
        answer = await desk.ask("operator", "DELETE", f"/v1/threads/{thread}?force=true")
        assert answer.status_code == 204, answer.text


async def test_the_figures_count_what_cannot_be_read(desk: Desk) -> None:
    for _ in range(2):
        await desk.ask("reader", "GET", "/v1/threads?limit=100")
    answer = await desk.ask("operator", "GET", "/metrics")
    lines = answer.text.splitlines()
    assert 'awaken_unreadable_rows_total{kind="thread"} 3' in lines
