"""A database that is deleted or replaced while it is open: noticed, and never written again."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest

from awaken import Agent, Runtime
from awaken.errors import AwakenError, StoreUnavailable, ThreadOwned
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FunctionModel
from awaken.testing.conformance.helpers import expect_error, record, says, texts, write

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "awaken.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    await write(store, messages=says("before"), run=record("r"))
    yield store
    await store.close()


def delete_all(path: Path) -> None:
    for name in os.listdir(path.parent):
        (path.parent / name).unlink()


def restore(path: Path) -> None:
    """As `mv backup awaken.db` does it."""
    backup = path.with_name("backup")
    with closing(sqlite3.connect(path)) as db, closing(sqlite3.connect(backup)) as copy:
        db.backup(copy)
    backup.replace(path)


def delete_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def delete_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


@pytest.mark.parametrize("mishap", [delete_all, restore, delete_log, delete_folder])
async def test_a_commit_to_a_file_that_is_not_there_any_more_is_no_success(
    store: SqliteStore, path: Path, mishap: Callable[[Path], None]
) -> None:
    mishap(path)

    for _ in range(2):
        error = await expect_error(StoreUnavailable, write(store, messages=says("lost")))
        assert f"{path}" in str(error)
        assert "was deleted or replaced while the database" in str(error)
        await expect_error(StoreUnavailable, store.claim("u", at_ms=2))
        await expect_error(StoreUnavailable, store.compact())


async def test_a_reader_of_a_replaced_file_is_told(store: SqliteStore, path: Path) -> None:
    assert await texts(store) == ["before"]
    restore(path)
    await expect_error(StoreUnavailable, store.load_messages("t"))


async def test_a_caller_that_waits_for_changes_is_told_that_none_will_come(
    store: SqliteStore, path: Path
) -> None:
    number = await store.wait_changed("t", 0)
    waiting = asyncio.ensure_future(store.wait_changed("t", number))
    await asyncio.sleep(0)
    delete_all(path)
    with pytest.raises(StoreUnavailable, match="was deleted or replaced"):
        await asyncio.wait_for(waiting, 30)


async def test_a_file_that_comes_back_is_used_again_after_the_store_was_closed(
    store: SqliteStore, path: Path
) -> None:
    away = f"{path}.away"
    os.rename(path, away)
    await expect_error(StoreUnavailable, write(store, messages=says("lost")))
    os.rename(away, path)
    await expect_error(StoreUnavailable, write(store, messages=says("lost")))

    await store.close()
    await store.open()

    await write(store, messages=says("after"))
    assert await texts(store) == ["before", "after"]


async def test_the_store_of_the_old_file_takes_nothing_from_the_new_one(
    store: SqliteStore, path: Path
) -> None:
    """Neither its log, when it is closed, nor what it held."""
    await store.claim("u", at_ms=1)
    delete_all(path)
    new = SqliteStore(path)
    await write(new, messages=says("new"))
    await new.claim("u", at_ms=1)

    await expect_error(StoreUnavailable, write(store, messages=says("lost")))
    await store.close()

    await write(new, messages=says("newer"))
    another = SqliteStore(path)
    assert await texts(another) == ["new", "newer"]
    await expect_error(ThreadOwned, another.claim("u", at_ms=2))
    await another.close()
    await new.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


async def test_files_that_others_use_and_leave_are_no_mishap(
    store: SqliteStore, path: Path
) -> None:
    """Other stores come and go, the log is emptied, the file is written anew: it is the same."""
    for number in range(3):
        other = SqliteStore(path)
        await write(other, messages=says(f"other {number}"))
        await other.compact()
        await other.close()
        await write(store, messages=says(f"mine {number}"))
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            db.execute("VACUUM")
    assert len(await texts(store)) == 7


async def test_a_run_is_told_that_its_database_is_gone(path: Path) -> None:
    agent = Agent("a", model=FunctionModel(lambda request: "Done."))
    async with Runtime([agent], store=f"sqlite:///{path}") as runtime:
        assert (await runtime.run("a", "one", thread="t")).response == "Done."
        delete_all(path)
        for words in ("two", "three"):
            with pytest.raises(AwakenError, match="was deleted or replaced"):
                await runtime.run("a", words, thread="t")
    async with Runtime([agent], store=f"sqlite:///{path}") as runtime:
        assert (await runtime.run("a", "four", thread="t")).response == "Done."
        assert len(await runtime.messages("t")) == 2
