"""A database from a stranger, in a folder that others can look into."""

from __future__ import annotations

import fcntl
import os
import socket
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from awaken.errors import StoreUnavailable, ThreadOwned
from awaken.stores.sql.migrations import Migration, load_migrations
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance.helpers import expect_error, names, record, says, texts, write

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder / "awaken.db"


@contextmanager
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


async def made(path: Path, owner: str | bytes | None = None) -> None:
    """A database with an interrupted run, as its owner left it."""
    store = SqliteStore(path)
    await write(store, messages=says("a"), run=record("r"))
    await store.close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE threads SET owner = ?", (owner,))
        db.commit()


async def looked_at(path: Path) -> None:
    """Everything that asks whether an owner is alive."""
    store = SqliteStore(path)
    await store.load_thread("t")
    await store.list_outboxes()
    assert names(await store.list_interrupted(now_ms=1)) == ["r"]
    await store.claim("t", at_ms=2)
    await store.compact()
    await store.close()


def everything_in(folder: Path) -> set[str]:
    return {str(found.relative_to(folder)) for found in folder.rglob("*")}


def fill(path: Path, text: str) -> None:
    path.write_text(text)


def content(path: Path) -> str:
    return path.read_text()


def rights(path: str | Path) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


# -- names of owners ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "owner",
    ["/../../precious", "x/../../precious", "x\n", "x/y", "..", "", "é", "x" * 4000, "x y", "*"],
)
async def test_the_name_of_an_owner_leads_to_no_file_but_its_own(
    path: Path, tmp_path: Path, owner: str
) -> None:
    """Opening a stranger's database deletes nothing."""
    fill(tmp_path / "precious", "")
    # The folders that would make the path of `x/../..` a real one.
    (path.parent / f"{path.name}-owner-").mkdir()
    (path.parent / f"{path.name}-owner-x").mkdir()
    (path.parent / f"{path.name}-owner-x" / "y").touch()
    await made(path, owner)
    before = everything_in(tmp_path)

    await looked_at(path)

    assert everything_in(tmp_path) == before


async def test_what_is_no_lock_file_is_neither_followed_nor_waited_for_nor_removed(
    path: Path, tmp_path: Path
) -> None:
    fill(tmp_path / "precious", "")
    lock = f"{path}-owner-"
    os.symlink(tmp_path / "precious", f"{lock}link")
    os.symlink(tmp_path / "missing", f"{lock}dangling")
    os.mkfifo(f"{lock}pipe")
    os.mkdir(f"{lock}folder")
    fill(Path(f"{lock}manual.txt"), "somebody's own words")
    with socket.socket(socket.AF_UNIX) as ear:
        here = os.getcwd()
        os.chdir(path.parent)  # the name of a socket is short
        ear.bind(f"{path.name}-owner-socket")
        os.chdir(here)
        await made(path)
        before = everything_in(tmp_path)
        for owner in ("link", "dangling", "pipe", "folder", "manual.txt", "socket"):
            with closing(sqlite3.connect(path)) as db:
                db.execute("UPDATE threads SET owner = ?", (owner,))
                db.commit()
            await looked_at(path)
            assert everything_in(tmp_path) == before, owner


async def test_a_lock_that_is_held_is_an_owner_whatever_is_in_its_file(path: Path) -> None:
    await made(path, "somebody")
    fill(Path(f"{path}-owner-somebody"), "not empty")
    fd = os.open(f"{path}-owner-somebody", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    store = SqliteStore(path)
    await expect_error(ThreadOwned, store.claim("t", at_ms=2))
    os.close(fd)
    await store.claim("t", at_ms=3)
    await store.close()
    assert f"{path.name}-owner-somebody" in os.listdir(path.parent)


async def test_an_owner_does_not_lock_what_lies_at_its_name(path: Path, tmp_path: Path) -> None:
    fill(tmp_path / "precious", "words")
    store = SqliteStore(path)
    os.symlink(tmp_path / "precious", f"{path}-owner-{store.owner}")
    await store.open()

    await expect_error(StoreUnavailable, store.claim("t", at_ms=1))

    await store.close()
    assert content(tmp_path / "precious") == "words"


# -- rights ------------------------------------------------------------------------------------


async def test_files_are_for_their_user_alone(path: Path) -> None:
    with usual_umask():
        store = SqliteStore(path)
        await write(store, messages=says("secret"))
        await store.claim("t", at_ms=1)
    beside = sorted(os.listdir(path.parent))
    assert beside == [
        path.name,
        f"{path.name}-owner-{store.owner}",
        f"{path.name}-shm",
        f"{path.name}-wal",
    ]
    for name in beside:
        assert rights(path.parent / name) == 0o600, name
    await store.close()


@pytest.mark.parametrize(("given", "lock"), [(0o644, 0o600), (0o660, 0o660), (0o640, 0o600)])
async def test_a_file_that_is_shared_stays_shared_with_those_who_may_write_it(
    path: Path, given: int, lock: int
) -> None:
    """Whoever can open a lock file can lock it: those who only read the database cannot."""
    await made(path)
    os.chmod(path, given)
    store = SqliteStore(path)
    with usual_umask():
        await store.claim("t", at_ms=1)
    assert rights(path) == rights(f"{path}-wal") == given
    assert rights(f"{path}-owner-{store.owner}") == lock
    await store.close()


def knowing_a_later_version(monkeypatch: pytest.MonkeyPatch) -> str:
    """Make this code one that brings files up; returns how the copy of one is named."""
    steps = list(load_migrations("sqlite"))
    later = Migration(len(steps) + 1, "later.sql", "CREATE TABLE later (x);")
    monkeypatch.setattr("awaken.stores.sqlite.engine.load_migrations", lambda _: [*steps, later])
    return f".v{len(steps)}.bak"


@pytest.mark.parametrize("given", [0o600, 0o640])
async def test_the_copy_of_an_old_file_has_its_rights(
    path: Path, monkeypatch: pytest.MonkeyPatch, given: int
) -> None:
    await made(path)
    os.chmod(path, given)
    copy = f"{path}{knowing_a_later_version(monkeypatch)}"

    with usual_umask():
        store = SqliteStore(path)
        await store.open()
    await store.close()

    assert rights(copy) == given


async def test_the_copy_of_an_old_file_is_not_written_through_a_link(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "precious", "words")
    await made(path)
    copy = f"{path}{knowing_a_later_version(monkeypatch)}"
    for link in (copy, f"{copy}.part"):
        os.symlink(tmp_path / "precious", link)

    store = SqliteStore(path)
    assert await texts(store) == ["a"]
    await store.close()

    assert content(tmp_path / "precious") == "words"
    assert stat.S_ISREG(os.lstat(copy).st_mode)
