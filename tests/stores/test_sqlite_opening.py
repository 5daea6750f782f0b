"""Files: new ones, old ones, later ones, and those of other programs."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from awaken.core.identity import RequestOrigin
from awaken.core.run import RunKind, RunRequestSnapshot
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.errors import StoreUnavailable
from awaken.stores.sql.migrations import Migration, load_migrations
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance.helpers import (
    DONE,
    all_runs,
    all_threads,
    record,
    says,
    texts,
    write,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "awaken.db"


def content(path: Path) -> bytes:
    return path.read_bytes()


def fill(path: Path, text: str) -> None:
    path.write_text(text)


def look(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(sql).fetchall()


def knowing(monkeypatch: pytest.MonkeyPatch, *later: str) -> Sequence[Migration]:
    """Make this code one that knows later versions."""
    steps = list(load_migrations("sqlite"))
    for script in later:
        steps.append(Migration(len(steps) + 1, f"{len(steps) + 1:04}_later.sql", script))
    monkeypatch.setattr("awaken.stores.sqlite.engine.load_migrations", lambda dialect: steps)
    return steps


async def made(path: Path, *words: str) -> None:
    store = SqliteStore(path)
    await write(store, messages=says(*words))
    await store.close()


async def refusal(path: Path) -> str:
    store = SqliteStore(path)
    with pytest.raises(StoreUnavailable) as refused:
        await store.open()
    with pytest.raises(StoreUnavailable):
        await write(store)
    await store.close()
    assert str(path) in str(refused.value)
    return str(refused.value)


# -- versions ----------------------------------------------------------------------------------


def test_migrations_are_numbered_without_gaps() -> None:
    steps = load_migrations("sqlite")

    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    assert steps[0].name == "0001_begin.sql"
    for step in steps:
        assert sqlite3.complete_statement(step.script.strip()), step.name


async def test_a_new_file_says_whose_it_is_and_which_version(path: Path) -> None:
    await made(path, "a")

    assert look(path, "PRAGMA application_id") == [(0x41574B4E,)]
    assert look(path, "PRAGMA user_version") == [(len(load_migrations("sqlite")),)]
    assert look(path, "PRAGMA journal_mode") == [("wal",)]
    assert look(path, "PRAGMA integrity_check") == [("ok",)]


async def test_an_old_file_is_copied_and_brought_up(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made(path, "a")
    old = len(load_migrations("sqlite"))
    knowing(
        monkeypatch,
        "CREATE TABLE later (x); -- a comment; with a semicolon\nINSERT INTO later VALUES ('a;b');",
        "ALTER TABLE later ADD COLUMN y;",
    )

    store = SqliteStore(path)
    assert await texts(store) == ["a"]
    await write(store, messages=says("b"))
    await store.close()

    assert look(path, "SELECT x, y FROM later") == [("a;b", None)]
    assert look(path, "PRAGMA user_version") == [(old + 2,)]
    copy = path.with_name(f"{path.name}.v{old}.bak")
    assert sorted(os.listdir(path.parent)) == [path.name, copy.name]
    assert look(copy, "PRAGMA user_version") == [(old,)]
    assert look(copy, "SELECT length FROM threads") == [(1,)]


def as_before(path: Path, version: int) -> None:
    """Make the file one of an earlier version, with what that version had of its content."""
    newer = path.with_name("newer")
    path.rename(newer)
    with closing(sqlite3.connect(path)) as db:
        for step in load_migrations("sqlite")[:version]:
            db.executescript(step.script)
        db.execute("PRAGMA application_id = 0x41574B4E")
        db.execute(f"PRAGMA user_version = {version}")
        db.execute("ATTACH ? AS newer", (str(newer),))
        tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        for (table,) in db.execute(tables).fetchall():
            columns = ", ".join(row[1] for row in db.execute(f"PRAGMA table_info({table})"))
            db.execute(f"DELETE FROM {table}")
            db.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM newer.{table}")
        db.commit()
    newer.unlink()


@pytest.mark.parametrize(
    ("made", "what"),
    [
        ("CREATE TABLE keys (color TEXT)", "the table 'keys'"),
        ('CREATE TABLE "Keys" (color TEXT)', "the table 'keys'"),
        (
            "CREATE TABLE mine (a); CREATE INDEX audit_by_age ON mine (a)",
            "the index 'audit_by_age'",
        ),
    ],
)
async def test_a_name_of_a_later_version_that_the_user_has_taken_is_named(
    made: str, what: str, path: Path
) -> None:
    store = SqliteStore(path)
    await write(store)
    await store.close()
    as_before(path, 13)
    with closing(sqlite3.connect(path)) as db:
        db.executescript(made)
    before = look(path, "SELECT name FROM sqlite_schema ORDER BY name")

    said = await refusal(path)

    assert f"has {what}, which awaken did not create" in said
    assert look(path, "SELECT name FROM sqlite_schema ORDER BY name") == before
    assert look(path, "PRAGMA user_version") == [(13,)]


async def test_runs_of_the_first_version_are_listed_by_their_parent(path: Path) -> None:
    store = SqliteStore(path)
    odd = "p'ä\"\\\n"
    for run, parent in (("p", None), ("a", "p"), ("b", odd), ("c", "p"), ("spoilt", "p")):
        await write(store, run, run=record(run, run, parent_run_id=parent))
    await store.close()
    as_before(path, 1)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE runs SET record = x'7b' WHERE id = 'spoilt'")
        db.commit()

    store = SqliteStore(path)
    assert await all_runs(store, parent_run_id="p") == ["c", "a"]
    assert await all_runs(store, parent_run_id=odd) == ["b"]
    await write(store, "a", run=record("a", "a", parent_run_id="p", status=DONE))
    await write(store, "d", run=record("d", "d", parent_run_id="p"))
    assert await all_runs(store, parent_run_id="p") == ["d", "c", "a"]
    await store.close()

    assert look(path, "PRAGMA integrity_check") == [("ok",)]
    assert path.with_name(f"{path.name}.v1.bak").exists()


async def test_tasks_of_the_fifth_version_are_known_by_their_kind(path: Path) -> None:
    """They were told by their agent's name and by their request, however deep their results are."""
    store = SqliteStore(path)
    for run, agent, extras in (
        ("task", "task:dig", {"task": {"result": 1}}),
        ("deep", "task:dig", {"task": {"result": "found"}}),
        ("named so", "task:master", {"tenant": "x"}),
        ("plain", "agent", {"task": "sweep"}),
        ("spoilt", "task:dig", {"task": {}}),
    ):
        request = RunRequestSnapshot(origin=RequestOrigin.INTERNAL, request_extras=extras)
        await write(store, run, run=record(run, run, agent_id=agent, request=request))
    before = await store.load_run("task")
    await store.close()
    as_before(path, 5)
    result = "[" * 3000 + "]" * 3000
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE runs SET record = x'ff' WHERE id = 'spoilt'")
        deep = "CAST(replace(CAST(record AS TEXT), '\"found\"', ?) AS BLOB)"
        db.execute(f"UPDATE runs SET record = {deep} WHERE id = 'deep'", (result,))
        db.commit()

    store = SqliteStore(path)
    assert before is not None
    times = {"created_at_ms": 1000, "updated_at_ms": 1000}
    assert await store.load_run("task") == replace(before, kind=RunKind.TASK, **times)
    for agents in ("named so", "plain"):
        read = await store.load_run(agents)
        assert read is not None
        assert read.kind is RunKind.AGENT
    await store.close()

    assert look(path, "SELECT id FROM runs WHERE kind = 'task'") == [("task",), ("deep",)]
    ((record_text,),) = look(path, "SELECT CAST(record AS TEXT) FROM runs WHERE id = 'deep'")
    assert str(record_text).startswith('{"kind":"task","run_id":"deep"')
    assert result in str(record_text)
    assert look(path, "PRAGMA integrity_check") == [("ok",)]
    assert path.with_name(f"{path.name}.v5.bak").exists()


async def test_what_was_unread_before_the_fourth_version_is_not_taken_twice(path: Path) -> None:
    """Messages were known by their ids, of which one command may have had several."""
    unread = ThreadCommand(thread_id="t", kind=CommandKind.MESSAGES, messages=says("a", "b"))
    store = SqliteStore(path)
    await write(store)
    number = await store.send(unread)
    await store.send(unread)
    await store.send(ThreadCommand(thread_id="t", kind=CommandKind.CANCEL))
    spoilt = await store.send(ThreadCommand(thread_id="t", kind=CommandKind.MESSAGES))
    await store.close()
    as_before(path, 3)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE commands SET body = x'7b' WHERE id = ?", (spoilt,))
        db.commit()

    store = SqliteStore(path)
    for name in ("a", "b"):
        assert await store.send(replace(unread, key=f"m-{name}")) == number
    assert await store.send(replace(unread, key="m-c")) > spoilt
    assert await store.list_outboxes() == []
    await store.close()
    assert look(path, "PRAGMA integrity_check") == [("ok",)]


async def test_a_migration_that_fails_leaves_the_file_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made(path, "a")
    with monkeypatch.context() as patched:
        knowing(patched, "CREATE TABLE later (x); INSERT INTO nowhere VALUES (1);")
        assert "no such table: nowhere" in await refusal(path)

    store = SqliteStore(path)
    assert await texts(store) == ["a"]
    await store.close()
    assert look(path, "SELECT count(*) FROM sqlite_schema WHERE name = 'later'") == [(0,)]


async def test_a_later_file_is_refused_untouched(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = len(load_migrations("sqlite"))
    with monkeypatch.context() as patched:
        knowing(patched, "CREATE TABLE later (x);")
        await made(path, "a")
    before = content(path)

    said = await refusal(path)

    assert f"has version {known + 1}, this awaken knows versions up to {known}" in said
    assert "upgrade awaken" in said
    assert content(path) == before
    assert os.listdir(path.parent) == [path.name]


# -- files of others ---------------------------------------------------------------------------


async def test_a_database_of_another_program_is_left_alone(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE theirs (x)")
    before = content(path)

    assert "of another program and was not changed: name another file" in await refusal(path)
    assert content(path) == before
    assert os.listdir(path.parent) == [path.name]


async def test_a_file_that_is_no_database_is_left_alone(path: Path) -> None:
    fill(path, "Dear diary, today I was mistaken for a database. " * 100)
    before = content(path)

    assert "is not an SQLite database" in await refusal(path)
    assert content(path) == before


async def test_an_empty_file_is_as_good_as_none(path: Path) -> None:
    fill(path, "")
    await made(path, "a")
    assert look(path, "SELECT length FROM threads") == [(1,)]


async def test_a_missing_directory_is_not_made(tmp_path: Path) -> None:
    said = await refusal(tmp_path / "missing" / "awaken.db")

    assert f"there is no directory {tmp_path / 'missing'}" in said
    assert "create it" in said
    assert os.listdir(tmp_path) == []


async def test_a_directory_is_no_file(tmp_path: Path) -> None:
    assert "is a directory: name a file in it" in await refusal(tmp_path)


async def test_what_was_in_the_way_can_be_put_right(tmp_path: Path) -> None:
    """A store that could not be opened tries again, it is not spoilt."""
    store = SqliteStore(tmp_path / "missing" / "awaken.db")
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await store.load_thread("t")
    (tmp_path / "missing").mkdir()

    await write(store, messages=says("a"))
    assert await texts(store) == ["a"]
    await store.close()


# -- at once -----------------------------------------------------------------------------------

CHILD = """
import asyncio, sys
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance.helpers import says, write

async def main(path, name):
    store = SqliteStore(path)
    for word in "abcde":
        await write(store, name, messages=says(word))
    await store.close()

print("ready", flush=True)
sys.stdin.readline()
asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


def start(path: Path, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


async def test_processes_that_make_a_file_at_once_do_not_clash(path: Path) -> None:
    children = [start(path, f"child {number}") for number in range(2)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    stores = [SqliteStore(path) for _ in range(6)]
    async with asyncio.TaskGroup() as tasks:
        for number, store in enumerate(stores):
            tasks.create_task(write(store, f"store {number}", messages=says("a")))
    for child in children:
        child.communicate(timeout=250)
        assert child.returncode == 0

    assert len(await all_threads(stores[0])) == 8
    for store in stores:
        await store.close()
    assert os.listdir(path.parent) == [path.name]
