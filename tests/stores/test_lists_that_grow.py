"""What a page of a list costs: the same in a small store and in a large one."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.core.run import RunKind
from awaken.core.store.commits import ThreadCommit
from awaken.core.store.store import Store
from awaken.core.store.threads import RunQuery, ThreadQuery, TicketQuery
from awaken.core.suspension import TicketStatus
from awaken.stores.memory import MemoryStore
from awaken.stores.memory.paging import Ordered
from awaken.stores.sql.cursors import UnreadableRows
from awaken.stores.sql.migrations import load_migrations
from awaken.stores.sqlite import SqliteStore, commands, listing
from awaken.stores.sqlite.owners import Owners
from awaken.testing.conformance.helpers import (
    DONE,
    RUNNING,
    all_threads,
    record,
    says,
    ticket,
    write,
)

UNREADABLE = UnreadableRows()

pytestmark = pytest.mark.anyio

SMALL, LARGE = 300, 3_000
VERSION_4 = Path(__file__).with_name("data") / "version_4.sqlite"
"""Written by version 4: a root thread, its child, one that waits, a fork, one only claimed."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "awaken.db"


async def filled(store: Store, threads: int) -> None:
    """A few threads have a parent, and a few a prefix of their own."""
    await write(store, "rare-00000", at_ms=0)
    async with asyncio.TaskGroup() as tasks:
        for number in range(1, threads):
            commit = ThreadCommit(
                thread_id=f"rare-{number:05}" if number < 20 else f"t-{number:05}",
                expected_length=0,
                parent_thread_id="rare-00000" if number % 3 == 1 and number < 100 else None,
                at_ms=number,
            )
            tasks.create_task(store.commit(commit))


QUERIES: dict[str, dict[str, Any]] = {
    "all": {},
    "roots": {"root": True},
    "children": {"parent_thread_id": "rare-00000"},
    "descendants": {"ancestor_thread_id": "rare-00000"},
    "a rare prefix": {"prefix": "rare-"},
    "an unknown prefix": {"prefix": "unknown"},
}


async def pages(store: Store, fields: dict[str, Any]) -> list[ThreadQuery]:
    """The first page of a list, and one from the midst of it."""
    total = len(await all_threads(store, **fields))
    first = ThreadQuery(limit=5, **fields)
    if total < 6:
        return [first]
    half = await store.list_threads(ThreadQuery(limit=total // 2, **fields))
    return [first, ThreadQuery(limit=5, cursor=half.cursor, **fields)]


# -- SQLite ------------------------------------------------------------------------------------


def steps(path: Path, work: Callable[[sqlite3.Connection], object]) -> int:
    """How many instructions SQLite carries out for some work."""
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return 0

    with closing(sqlite3.connect(path)) as db:
        work(db)  # prepares its statements
        db.set_progress_handler(step, 1)
        work(db)
        db.set_progress_handler(None, 1)
    return count


async def costs_in_sqlite(path: Path, threads: int) -> dict[str, list[int]]:
    """What each list costs, and the look for outboxes."""
    store = SqliteStore(path, synchronous="normal")
    await filled(store, threads)
    owners = Owners(str(path), "me")

    def cost(query: ThreadQuery) -> int:
        return steps(path, lambda db: listing.list_threads(db, owners, UNREADABLE, query))

    costs = {
        name: [cost(query) for query in await pages(store, fields)]
        for name, fields in QUERIES.items()
    }
    costs["outboxes"] = [steps(path, lambda db: commands.list_outboxes(db, owners))]
    await store.close()
    return costs


async def test_lists_cost_sqlite_the_same_in_a_large_file(tmp_path: Path) -> None:
    small = await costs_in_sqlite(tmp_path / "small.db", SMALL)
    large = await costs_in_sqlite(tmp_path / "large.db", LARGE)
    for name, costs in small.items():
        for few, many in zip(costs, large[name], strict=True):
            assert many < 1.5 * few + 100, (name, few, many)


async def test_a_commit_that_begins_nothing_leaves_the_order_alone(path: Path) -> None:
    """An index that moved with every commit would cost each of them some pages."""
    store = SqliteStore(path)
    await write(store, run=record("r"), at_ms=1)
    await write(store, messages=says("a"), run=record("r", revision=1), at_ms=2)
    first = await store.load_thread("t")
    await write(store, run=record("r", revision=2, status=DONE), at_ms=3)
    second = await store.load_thread("t")
    await store.close()
    assert first is not None
    assert second is not None
    assert (first.active_at, first.updated_at) == (1, 2)
    assert (second.active_at, second.updated_at) == (3, 3)


NAMES = (
    *("threads", "roots", "runs", "runs of an agent", "runs of a thread", "tasks"),
    *("tickets", "open", "a ticket by its key"),
)


async def scoped(path: Path, others: int) -> dict[tuple[str, str], int]:
    """What pages of two scopes cost, of which one has many threads, runs and tickets more."""
    store = SqliteStore(path, synchronous="normal")
    async with asyncio.TaskGroup() as tasks:
        for number in range(others):
            thread = f"acme/{number:05}" if number < 30 else f"zoo/{number:05}"
            run = record(f"r-{number}", thread, status=DONE)
            asked = ticket(f"k-{number}", thread_id=thread, run_id=run.run_id, asked_at=number)
            commit = ThreadCommit(
                thread_id=thread, expected_length=0, run=run, tickets=(asked,), at_ms=number
            )
            tasks.create_task(store.commit(commit))
    owners = Owners(str(path), "me")

    def pages(db: sqlite3.Connection, scope: str) -> dict[str, Callable[[], object]]:
        threads, tickets = ThreadQuery(scope=scope, limit=5), TicketQuery(scope=scope, limit=5)
        roots = msgspec.structs.replace(threads, root=True)
        opened = msgspec.structs.replace(tickets, status=TicketStatus.OPEN)
        return {
            "threads": lambda: listing.list_threads(db, owners, UNREADABLE, threads),
            "roots": lambda: listing.list_threads(db, owners, UNREADABLE, roots),
            "runs": lambda: listing.list_runs(db, UNREADABLE, RunQuery(scope=scope, limit=5)),
            "runs of an agent": lambda: listing.list_runs(
                db,
                UNREADABLE,
                RunQuery(scope=scope, agent_id="agent" if scope else "other", limit=5),
            ),
            "runs of a thread": lambda: listing.list_runs(
                db, UNREADABLE, RunQuery(scope=scope, thread_id=f"{scope}/00040")
            ),
            "tasks": lambda: listing.list_runs(
                db, UNREADABLE, RunQuery(scope="", kind=RunKind.TASK)
            ),
            "tickets": lambda: listing.list_tickets(db, UNREADABLE, tickets),
            "open": lambda: listing.list_tickets(db, UNREADABLE, opened),
            "a ticket by its key": lambda: listing.list_tickets(
                db, UNREADABLE, TicketQuery(scope=scope, key="k-40")
            ),
        }

    costs = {
        (name, scope): steps(path, lambda db, n=name, s=scope: pages(db, s)[n]())  # type: ignore[misc]
        for scope in ("acme", "zoo", "", "unknown")
        for name in NAMES
    }
    await store.close()
    return costs


async def test_lists_of_a_scope_cost_the_same_whatever_other_scopes_hold(tmp_path: Path) -> None:
    small = await scoped(tmp_path / "small.db", SMALL)
    large = await scoped(tmp_path / "large.db", LARGE)
    for name, few in small.items():
        assert large[name] < 1.5 * few + 100, (name, few, large[name])


RUN_LISTS: dict[str, RunQuery | ThreadQuery] = {
    "written lately": RunQuery(updated_after_ms=10**6, limit=5),
    "a tenant's, written lately": RunQuery(scope="acme", updated_after_ms=10**6, limit=5),
    "written never": RunQuery(updated_after_ms=10**9, limit=5),
    "of a rare agent": RunQuery(agent_id="rare", limit=5),
    "of an agent that the tenant has not": RunQuery(scope="zoo", agent_id="rare", limit=5),
    "threads of a rare agent": ThreadQuery(agent="rare", limit=5),
    "threads of an unknown agent": ThreadQuery(agent="unknown", limit=5),
}


async def costs_of_runs(path: Path, runs: int) -> dict[str, int]:
    """The oldest runs are of a rare agent, and were written lately; one of them is open."""
    store = SqliteStore(path, synchronous="normal")
    async with asyncio.TaskGroup() as tasks:
        for number in range(runs):
            thread = f"acme/{number:05}" if number < 30 else f"zoo/{number:05}"
            run = record(
                f"r-{number}",
                thread,
                status=DONE if number else RUNNING,
                agent_id="rare" if number < 10 else "agent",
                updated_at_ms=10**6 + number if number < 10 else number,
            )
            commit = ThreadCommit(thread_id=thread, expected_length=0, run=run, at_ms=number)
            tasks.create_task(store.commit(commit))
    recent = RUN_LISTS["written lately"]
    assert isinstance(recent, RunQuery)
    found = [run.run_id for run in await store.list_runs(recent)]
    assert found == ["r-9", "r-8", "r-7", "r-6", "r-5"]
    owners = Owners(str(path), "me")

    def page(db: sqlite3.Connection, query: RunQuery | ThreadQuery) -> object:
        if isinstance(query, RunQuery):
            return listing.list_runs(db, UNREADABLE, query)
        return listing.list_threads(db, owners, UNREADABLE, query)

    costs = {
        name: steps(path, lambda db, query=query: page(db, query))  # type: ignore[misc]
        for name, query in RUN_LISTS.items()
    }
    await store.close()
    return costs


async def test_runs_and_threads_by_agent_and_time_cost_the_same_in_a_large_file(
    tmp_path: Path,
) -> None:
    small = await costs_of_runs(tmp_path / "small.db", SMALL)
    large = await costs_of_runs(tmp_path / "large.db", LARGE)
    for name, few in small.items():
        assert large[name] < 1.5 * few + 100, (name, few, large[name])


async def test_families_of_the_fourth_version_are_those_of_their_roots(path: Path) -> None:
    """Ids of earlier versions are not taken apart; what begins later beneath them follows them."""
    shutil.copy(VERSION_4, path)
    store = SqliteStore(path)
    await write(store, "acme/later", parent_thread_id="child", at_ms=70)
    heads = [await store.load_thread(id) for id in ("root", "child", "acme/later", "fork")]
    await store.close()
    assert [(head.scope, head.family) for head in heads if head is not None] == [
        ("", "root"),
        ("", "root"),
        ("", "root"),
        ("", "fork"),
    ]


# -- memory ------------------------------------------------------------------------------------


async def calls(store: MemoryStore, query: ThreadQuery) -> int:
    """How many calls, of Python's and C's, a page takes."""
    count = 0

    def hear(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(hear)
    try:
        await store.list_threads(query)
    finally:
        sys.setprofile(None)
    return count


async def costs_in_memory(threads: int) -> dict[str, list[int]]:
    store = MemoryStore()
    await filled(store, threads)
    return {
        name: [await calls(store, query) for query in await pages(store, fields)]
        for name, fields in QUERIES.items()
    }


async def test_lists_cost_memory_the_same_in_a_large_store() -> None:
    small, large = await costs_in_memory(SMALL), await costs_in_memory(LARGE)
    for name, costs in small.items():
        for few, many in zip(costs, large[name], strict=True):
            assert many < 1.5 * few + 50, (name, few, many)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.sampled_from("abc")), max_size=200),
    st.tuples(st.integers(0, 40), st.sampled_from("abc")) | st.none(),
    st.sampled_from([2, 4, 1000]),
)
def test_values_stay_in_order(
    deeds: list[tuple[bool, int, str]], start: tuple[int, str] | None, largest: int
) -> None:
    """However they come and go, and however small the pieces are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("awaken.stores.memory.paging._MAX_CHUNK", largest)
        ordered: Ordered[tuple[int, str]] = Ordered()
        there: set[tuple[int, str]] = set()
        for adds, number, letter in deeds:
            value = (number, letter)
            if adds and value not in there:
                ordered.add(value)
                there.add(value)
            elif not adds and value in there:
                ordered.remove(value)
                there.remove(value)
        behind = [value for value in sorted(there) if start is None or value > start]
        assert list(ordered.after(start)) == behind


# -- prefixes ----------------------------------------------------------------------------------

LAST = chr(sys.maxunicode)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, path: Path) -> AsyncIterator[Store]:
    store: Store = MemoryStore() if request.param == "memory" else SqliteStore(path)
    await store.open()
    yield store
    await store.close()


@pytest.mark.parametrize("few", [1, 2, 1000])
async def test_a_prefix_is_met_letter_by_letter_whichever_way_it_is_looked_for(
    store: Store, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("awaken.stores.sqlite.listing._MAX_SORTED_ROWS", few)
    monkeypatch.setattr("awaken.stores.memory.threads._MAX_SORTED_ROWS", few)
    listed = [
        *("a", "ab", "abc", "b", "a%", "a_", "A", "a\x00b", "\ud7ff", "\ud7ffx", "\ue000"),
        *(LAST, LAST * 2, f"a{LAST}", f"a{LAST}b", "a\U0001f600", "ä"),
    ]
    for at_ms, name in enumerate(listed):
        await write(store, name, at_ms=at_ms)
    for prefix in (*listed, "", "zz"):
        expected = [name for name in reversed(listed) if name.startswith(prefix)]
        for limit in (1, 2, 50):
            assert await all_threads(store, prefix=prefix, limit=limit) == expected, prefix


# -- files of version 4 ------------------------------------------------------------------------


async def test_threads_of_the_fourth_version_are_listed_by_their_last_change(path: Path) -> None:
    """What was not kept then is told by what was; from then on they move as all do."""
    shutil.copy(VERSION_4, path)
    store = SqliteStore(path)

    assert await all_threads(store, limit=2) == ["root", "fork", "waits", "child"]
    assert await all_threads(store, root=True) == ["root", "fork", "waits"]
    assert await all_threads(store, parent_thread_id="root") == ["child"]
    await write(store, "child", run=record("r3", "child", parent_run_id="r1"), at_ms=60)
    assert await all_threads(store, limit=1) == ["root", "fork", "waits", "child"]
    await write(
        store, "child", run=record("r3", "child", parent_run_id="r1", status=DONE), at_ms=61
    )
    await write(store, "claimed", at_ms=62)
    assert await all_threads(store) == ["claimed", "child", "root", "fork", "waits"]
    await store.delete_thread("child", at_ms=63)
    await store.close()

    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA user_version").fetchone() == (len(load_migrations("sqlite")),)
    with closing(sqlite3.connect(f"{path}.v4.bak")) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (4,)
