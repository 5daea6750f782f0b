"""Databases and cursors that were made by hand: they meet our errors, and no operation hangs."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from awaken.codec import dumps, loads
from awaken.core.profile import ProfileOwner
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.store import Store
from awaken.core.store.threads import ChildStrategy, RunQuery, ThreadQuery, TicketQuery
from awaken.errors import InvalidRecord, Serialization, StoreError, StoreUnavailable
from awaken.stores.memory import MemoryStore
from awaken.stores.sql.queries import TABLES
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance.helpers import (
    event,
    expect_error,
    raw,
    record,
    says,
    ticket,
    waiting_threads,
    write,
)

pytestmark = pytest.mark.anyio

ODD = (2**63 - 1, "text", b"\xff\x00")
COLUMNS = {
    "threads": (
        *("parent", "created_at", "updated_at", "length", "events", "position", "snapshot"),
        *("epoch", "owner", "latest_run", "open_run", "active_run", "forked_at", "active_at"),
    ),
    "runs": ("thread", "agent", "status", "first_position", "last_position", "record"),
    "commits": ("first_seq", "first_event", "run", "delta"),
    "tickets": ("thread", "run_id", "status", "asked_at", "expires_at", "record"),
    "commands": ("thread", "kind", "body"),
    "profiles": ("value", "version"),
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with something in every table that is asked for."""
    path = tmp_path_factory.mktemp("good") / "awaken.db"

    async def fill() -> None:
        store = SqliteStore(path)
        await write(
            store,
            messages=says("a", "b"),
            run=record("r"),
            events=(event(),),
            tickets=(ticket(),),
            thread_state=raw(x=1),
        )
        await write(store, "child", run=record("q", "child"), parent_thread_id="t")
        await store.send(_message())
        await store.profiles.set(ProfileOwner(), "key", 1)
        await store.close()

    asyncio.run(fill())
    return path


def _message() -> ThreadCommand:
    return ThreadCommand(thread_id="t", kind=CommandKind.MESSAGES, messages=says("z"))


def crafted(good: Path, path: Path, script: str, *values: Any) -> SqliteStore:
    shutil.copy(good, path)
    with closing(sqlite3.connect(path)) as db:
        if values:
            db.execute(script, values)
            db.commit()
        else:
            db.executescript(script)
    return SqliteStore(path, synchronous="normal")


def everything_asked(store: SqliteStore) -> list[Callable[[], Awaitable[object]]]:
    return [
        lambda: store.load_thread("t"),
        lambda: store.list_threads(ThreadQuery()),
        lambda: store.list_threads(ThreadQuery(ancestor_thread_id="t")),
        lambda: store.load_context("t"),
        lambda: store.load_messages("t", after=1, limit=1),
        lambda: store.load_events("t"),
        lambda: store.load_thread_state("t"),
        lambda: store.load_run("r"),
        lambda: store.latest_run("t"),
        lambda: store.list_runs(RunQuery()),
        lambda: store.list_interrupted(now_ms=5),
        lambda: store.load_calls("r"),
        lambda: store.list_tickets(TicketQuery()),
        lambda: store.load_commands("t"),
        lambda: waiting_threads(store),
        lambda: store.list_outboxes(),
        lambda: store.profiles.list(ProfileOwner()),
        lambda: write(store, messages=says("k"), run=record("r", revision=1)),
        lambda: write(store, "new", parent_thread_id="child"),
        lambda: store.fork("t", "copy", at=1, at_ms=4),
        lambda: store.cancel_tree("t", at_ms=3),
        lambda: store.send(_message()),
        lambda: store.claim("t", at_ms=5),
        lambda: store.prune(before_ms=5),
        lambda: store.delete_thread("child", force=True, at_ms=5),
    ]


@pytest.mark.parametrize("table", COLUMNS)
async def test_a_value_that_we_never_write_meets_an_error_of_ours(
    good: Path, tmp_path: Path, table: str
) -> None:
    met = 0
    for column in COLUMNS[table]:
        for number, value in enumerate(ODD):
            path = tmp_path / f"{column}-{number}.db"
            store = crafted(good, path, f"UPDATE {table} SET {column} = ?", value)
            for deed in everything_asked(store):
                try:
                    await asyncio.wait_for(deed(), 30)
                except StoreError:
                    met += 1
            await store.close()
    assert met


async def test_what_a_head_says_is_of_the_kind_it_should_be(good: Path, tmp_path: Path) -> None:
    """SQLite keeps a text in a column of numbers; readers would fail on it far from here."""
    for number, column in enumerate(("created_at", "updated_at", "length", "active_at", "parent")):
        for value in ("text", b"bytes") if column != "parent" else (b"bytes",):
            path = tmp_path / f"{number}-{value!r}.db"
            store = crafted(good, path, f"UPDATE threads SET {column} = ?", value)
            await expect_error(Serialization, store.load_thread("t"))
            if column != "active_at":  # by which the list is sorted
                left_out = {row.id for row in (await store.list_threads(ThreadQuery())).unreadable}
                assert left_out == {"t", "child"}
            await store.close()


async def test_a_circle_of_parents_is_no_endless_walk(good: Path, tmp_path: Path) -> None:
    circle = "UPDATE threads SET parent = iif(id = 't', 'child', 't'), open_run = NULL"
    store = crafted(good, tmp_path / "circle.db", circle)

    error = await expect_error(InvalidRecord, write(store, "new", parent_thread_id="child"))
    freed = await store.delete_thread("t", children=ChildStrategy.CASCADE, force=True, at_ms=5)

    assert "descend from itself" in str(error)
    assert freed.threads == 2
    await store.close()


ENDLESS = "WITH RECURSIVE n(thread) AS (SELECT 1 UNION ALL SELECT thread + 1 FROM n)"
UNDO = "CREATE TRIGGER undo AFTER INSERT ON commits BEGIN DELETE FROM commits; END"


def lie(type: str, name: str, table: str, sql: str) -> str:
    """Write something into the schema whose root page is a blob, so that it is not equal to 0."""
    return f"""
    PRAGMA writable_schema = ON;
    INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql)
    VALUES ('{type}', '{name}', '{table}', CAST('0' AS BLOB), '{sql}');
    PRAGMA writable_schema = OFF;
    """


@pytest.mark.parametrize(
    ("script", "named"),
    [
        ("ALTER TABLE threads RENAME TO old; CREATE VIEW threads AS SELECT * FROM old", "threads"),
        ("ALTER TABLE runs RENAME TO old; CREATE VIEW RUNS AS SELECT * FROM old", "RUNS"),
        (
            f"DROP TABLE outboxes; CREATE VIEW outboxes AS {ENDLESS} SELECT thread FROM n",
            "outboxes",
        ),
        (
            "CREATE TRIGGER thief AFTER UPDATE ON runs BEGIN DELETE FROM threads; END",
            "thief",
        ),
        ("DROP TABLE commands; CREATE VIRTUAL TABLE commands USING fts5(id, body)", "commands"),
        ("CREATE VIEW mine AS SELECT id FROM threads", "mine"),
        (
            "DROP TABLE outboxes;"
            + lie(
                "view",
                "outboxes",
                "outboxes",
                f"CREATE VIEW outboxes AS {ENDLESS} SELECT thread FROM n",
            ),
            "outboxes",
        ),
        (lie("trigger", "undo", "commits", UNDO), "undo"),
        (lie("trigger", "undo", "commits", UNDO.replace("CREATE", "create")), "undo"),
    ],
    ids=[
        *("view", "capitals", "endless", "trigger", "module", "own view"),
        *("lying view", "lying trigger", "small letters"),
    ],
)
async def test_what_stands_in_for_a_table_is_refused_before_it_is_read(
    good: Path, tmp_path: Path, script: str, named: str
) -> None:
    path = tmp_path / "crafted.db"
    store = crafted(good, path, script)
    before = content(path)

    error = await expect_error(StoreUnavailable, asyncio.wait_for(store.list_outboxes(), 30))

    assert f"{named!r}, which awaken did not create" in str(error)
    await store.close()
    assert content(path) == before


async def test_tables_and_indexes_of_ones_own_are_no_harm(good: Path, tmp_path: Path) -> None:
    own = (
        "create table if not exists\nmine (id TEXT UNIQUE);"
        "create unique index\nmine_by_id ON mine (id); CREATE INDEX mine_too ON mine (id); ANALYZE"
    )
    store = crafted(good, tmp_path / "own.db", own)
    assert len((await store.list_threads(ThreadQuery())).items) == 2
    await store.close()


def content(path: Path) -> bytes:
    return path.read_bytes()


def test_every_table_is_known_by_its_name(good: Path) -> None:
    with closing(sqlite3.connect(good)) as db:
        names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        assert {name for (name,) in db.execute(names)} == set(TABLES)


# -- cursors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_cursor_made_by_hand_is_no_cursor(kind: str, tmp_path: Path) -> None:
    store: Store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "awaken.db")
    await store.open()
    for number in range(3):
        await write(store, f"t{number}", at_ms=number)
    page = await store.list_threads(ThreadQuery(limit=1))
    seal, *place = loads(urlsafe_b64decode(page.cursor or ""), list[Any])
    deep = "[" * 100_000 + "]" * 100_000
    forged = [
        deep.encode(),
        b'["x",' + deep.encode() + b"]",
        b'["' + seal.encode() + b'",' + deep.encode() + b"]",
        dumps([seal, 10**30, "t1"]),
        dumps([seal, -(10**30), "t1"]),
        dumps([seal, 2**63, "t1"]),
        dumps([seal, [10**400, "t1", ""]]),
        dumps([seal, True, "t1"]),
        dumps([seal, *place, *place]),
        dumps([seal]),
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'["\\ud800", 1, "t"]',
    ]
    for text in forged:
        cursor = urlsafe_b64encode(text).decode()
        await expect_error(InvalidRecord, store.list_threads(ThreadQuery(cursor=cursor)))
    await expect_error(InvalidRecord, store.list_threads(ThreadQuery(cursor="\ud800")))
    await store.close()
