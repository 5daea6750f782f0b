"""Trouble under the store: what the caller is told, and that nothing is half written."""

from __future__ import annotations

import asyncio
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from awaken.core.store.commits import ThreadCommit
from awaken.errors import StoreUnavailable
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance.helpers import everything, record, says, texts, write

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "awaken.db"


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[sqlite3.Connection]:
    """Those the store makes, the writer's first."""
    made: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def listed(*args: Any, **options: Any) -> sqlite3.Connection:
        made.append(connect(*args, **options))
        return made[-1]

    monkeypatch.setattr("awaken.stores.sqlite.open.sqlite3.connect", listed)
    return made


@pytest.fixture
async def store(path: Path, connections: list[sqlite3.Connection]) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, busy_timeout=0.05)
    await write(store, messages=says("before"), run=record("r"))
    yield store
    await store.close()


async def refusal(store: SqliteStore, *words: str) -> str:
    """What a commit is refused with; nothing that can be read has changed."""
    before = await everything(store)
    with pytest.raises(StoreUnavailable) as refused:
        await write(store, messages=says(*words), run=record("r", revision=1))
    assert await everything(store) == before
    assert isinstance(refused.value.__cause__, sqlite3.Error)
    return str(refused.value)


async def goes_on(store: SqliteStore) -> None:
    await write(store, messages=says("after"), run=record("r", revision=1))
    assert await texts(store) == ["before", "after"]


# -- no space ----------------------------------------------------------------------------------


async def test_a_full_disk_refuses_and_recovers(
    store: SqliteStore, connections: list[sqlite3.Connection]
) -> None:
    writer = connections[0]
    (pages,) = writer.execute("PRAGMA page_count").fetchone()
    writer.execute(f"PRAGMA max_page_count = {pages + 2}").fetchall()

    said = await refusal(store, "long " * 5000)

    assert f"no space is left for {store.path}: nothing was written" in said
    writer.execute("PRAGMA max_page_count = 4294967294").fetchall()
    await goes_on(store)


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    """What is written beyond `size` fails, for every file of this process."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_disk_that_fails_refuses_and_recovers(store: SqliteStore) -> None:
    with files_no_longer_than(os.stat(f"{store.path}-wal").st_size + 5000):
        said = await refusal(store, "long " * 5000)

    assert "the disk failed under" in said or "no space is left" in said
    assert "nothing was written" in said
    await goes_on(store)
    with closing(sqlite3.connect(store.path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def test_a_small_commit_is_not_refused_for_a_large_one(
    store: SqliteStore, connections: list[sqlite3.Connection]
) -> None:
    """Though they would have gone into one transaction."""
    writer = connections[0]
    (pages,) = writer.execute("PRAGMA page_count").fetchone()
    writer.execute(f"PRAGMA max_page_count = {pages + 10}").fetchall()
    commits = [
        ThreadCommit(thread_id=name, expected_length=0, messages=says(text))
        for name, text in (("a", "x"), ("b", "long " * 50_000), ("c", "x"))
    ]
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        small, large, last = (asyncio.ensure_future(store.commit(each)) for each in commits)
        await asyncio.sleep(0)
        other.execute("ROLLBACK")

    assert ((await small).length, (await last).length) == (1, 1)
    with pytest.raises(StoreUnavailable, match="no space is left"):
        await large


# -- locks and rights --------------------------------------------------------------------------


async def test_a_file_that_is_locked_for_too_long_is_told_of(store: SqliteStore) -> None:
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        said = await refusal(store, "a")
        assert "is locked by another program for longer than busy_timeout" in said
        other.execute("ROLLBACK")

    await goes_on(store)


CHILD = """
import asyncio, os, sys
from awaken.errors import StoreUnavailable
from awaken.stores.sql.migrations import load_migrations
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance.helpers import says, texts, write

async def main(path):
    store = SqliteStore(path)
    try:
        print(await texts(store))
    except StoreUnavailable as error:
        print("unread", error)
    for deed in (write(store, messages=says("x")), store.claim("t", at_ms=1)):
        try:
            await deed
        except StoreUnavailable as error:
            print("refused", error)
    await store.close()

load_migrations("sqlite")  # from a folder that may be closed to others
if os.getuid() == 0:
    os.setuid(65534)
for path in sys.argv[1:]:
    asyncio.run(main(path))
"""


def seen_by_somebody_else(*paths: str) -> list[str]:
    """What a process that is not the files' owner meets."""
    child = [sys.executable, "-c", CHILD, *paths]
    return subprocess.run(child, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.skipif(sys.platform == "win32", reason="rights of files are another thing there")
async def test_without_the_right_to_write_a_file_can_still_be_read() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = os.path.join(folder, "awaken.db")
        store = SqliteStore(path)
        await write(store, messages=says("a"))
        await store.close()
        os.chmod(path, 0o444)
        new = os.path.join(folder, "new.db")
        secret = os.path.join(folder, "secret.db")
        with closing(sqlite3.connect(secret)) as db:
            db.execute("CREATE TABLE x (y)")
        os.chmod(secret, 0o000)
        os.chmod(folder, 0o555)

        said = seen_by_somebody_else(path, new, secret)
        os.chmod(folder, 0o777)
        beside = seen_by_somebody_else(path)

    readable, unmade, unreadable = said[:3], said[3:6], said[6:]
    assert readable[0] == beside[0] == "['a']"
    for line in (*readable[1:], *beside[1:]):
        assert line.startswith("refused")
    for line in (readable[1], beside[1]):
        assert f"database {path} may only be read" in line
    assert all(f"directory {folder} may not be written" in line for line in unmade)
    assert all(f"database {secret} may not be read" in line for line in unreadable)


# -- damage ------------------------------------------------------------------------------------


def damage(path: Path) -> bytes:
    """Overwrite everything behind the first page, where the list of tables is."""
    content = path.read_bytes()
    page_size = int.from_bytes(content[16:18], "big")
    kept = page_size * 8
    path.write_bytes(content[:kept] + b"\xff" * (len(content) - kept))
    return path.read_bytes()


def content(path: Path) -> bytes:
    return path.read_bytes()


async def test_a_damaged_file_is_told_of_and_not_written(path: Path) -> None:
    store = SqliteStore(path)
    for number in range(50):
        await write(store, messages=says(f"{number} " * 100), run=record("r"))
    await store.close()
    damaged = damage(path)

    store = SqliteStore(path)
    with pytest.raises(StoreUnavailable) as refused:
        await store.load_messages("t")
    said = str(refused.value)
    assert f"database {path} is damaged" in said
    assert f"restore a copy, or save what is left with: sqlite3 {path} .recover" in said
    with pytest.raises(StoreUnavailable, match="nothing more is written"):
        await write(store, "elsewhere", messages=says("x"))
    await store.close()

    assert content(path) == damaged
