"""A disk that takes nothing for a while: what was not written is made up for, and no caller hears
of a success that was none."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from awaken.core.store.commits import ThreadCommit
from awaken.errors import StoreError, StoreUnavailable, ThreadOwned, VersionConflict
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance.helpers import expect_error, record, says, write
from awaken.testing.conformance.submissions import claim_and_release, submission

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "awaken.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, busy_timeout=0.05)
    yield store
    await store.close()


@pytest.fixture
async def other(path: Path) -> AsyncIterator[SqliteStore]:
    """Another process, as far as the file is concerned."""
    other = SqliteStore(path)
    yield other
    await other.close()


@contextmanager
def disk_refuses(path: Path) -> Iterator[None]:
    """The log takes nothing more: a transaction begins, and its COMMIT fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(f"{path}-wal"), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def owner_of(path: Path, thread_id: str) -> object:
    """As the file has it, dead or alive."""
    with closing(sqlite3.connect(path)) as db:
        (owner,) = db.execute("SELECT owner FROM threads WHERE id = ?", (thread_id,)).fetchone()
    return owner


async def test_a_submission_that_the_disk_refused_left_nothing_behind(
    store: SqliteStore, other: SqliteStore, path: Path
) -> None:
    """Its key can be used again; and no claim of it is kept that was not written."""
    await write(store, "u", messages=says("a"))
    with disk_refuses(path):
        await expect_error(StoreError, store.submit(submission("in vain", key="k")))
    assert await other.load_thread("t") is None
    assert await other.load_run("in vain") is None

    assert (await store.submit(submission("s", key="k"))).is_new
    with disk_refuses(path):
        await expect_error(StoreError, store.claim_next(["agent"], limit=1, at_ms=1, overdue_ms=0))
    assert await claim_and_release(other) == ["s"]
    assert not (await store.submit(submission("s", key="k"))).is_new


async def test_a_release_is_tried_until_the_disk_has_taken_it(
    store: SqliteStore, other: SqliteStore, path: Path
) -> None:
    """Each operation that is asked for meanwhile tries it, and fails; none of them forgets it."""
    fence = await store.claim("t", at_ms=1)
    await write(store, messages=says("a"), fence=fence)
    with disk_refuses(path):
        await expect_error(StoreError, store.release(fence))
        for _ in range(3):
            assert len(await store.load_messages("t")) == 1
            await expect_error(StoreError, write(store, "u", messages=says("in vain")))
    await expect_error(ThreadOwned, other.claim("t", at_ms=2))

    await write(store, "u", messages=says("anything"))

    assert (await other.claim("t", at_ms=3)).epoch == fence.epoch + 1


async def test_a_caller_that_does_not_wait_for_its_release_gets_it_all_the_same(
    store: SqliteStore, other: SqliteStore, path: Path
) -> None:
    fence = await store.claim("t", at_ms=1)
    with disk_refuses(path):
        release = asyncio.ensure_future(store.release(fence))
        await asyncio.sleep(0)
        release.cancel()
        await asyncio.wait([release])
        await expect_error(StoreError, write(store, "u", messages=says("in vain")))

    await write(store, "u", messages=says("anything"))

    assert (await other.claim("t", at_ms=3)).epoch == fence.epoch + 1


async def test_a_store_says_whether_its_disk_takes_writes(path: Path, store: SqliteStore) -> None:
    """A transaction that writes nothing does not tell, nor one that was refused for its content."""
    fence = await store.claim("t", at_ms=1)
    assert not store.is_refusing_writes
    with disk_refuses(path):
        await expect_error(StoreError, write(store, messages=says("in vain"), fence=fence))
        assert store.is_refusing_writes
        await expect_error(StoreUnavailable, store.check_write())
        assert await store.claim_next(["agent"], limit=1, at_ms=1, overdue_ms=0) == ()
        assert store.is_refusing_writes
    await expect_error(ThreadOwned, store.claim("t", at_ms=2))
    assert store.is_refusing_writes
    await store.check_write()
    assert not store.is_refusing_writes


async def test_a_claim_whose_caller_is_gone_is_given_up_though_the_disk_refuses_that(
    store: SqliteStore, other: SqliteStore, path: Path
) -> None:
    await write(store, messages=says("a"))
    claim = asyncio.ensure_future(store.claim("t", at_ms=1))
    await asyncio.sleep(0)
    while owner_of(path, "t") is None:
        pass  # it is made, and the event loop has not heard of it
    with disk_refuses(path):
        claim.cancel()
        await asyncio.wait([claim])
        assert claim.cancelled()
        await expect_error(StoreError, write(store, "u", messages=says("in vain")))
    await expect_error(ThreadOwned, other.claim("t", at_ms=2))

    await write(store, "u", messages=says("anything"))

    assert (await other.claim("t", at_ms=3)).owner == other.owner


async def test_a_commit_that_was_to_release_and_failed_still_owns_the_thread(
    store: SqliteStore, other: SqliteStore, path: Path
) -> None:
    """Also when the store is closed: what it had is free at once, and not only by its lock."""
    fence = await store.claim("t", at_ms=1)
    with disk_refuses(path):
        await expect_error(
            StoreError, write(store, messages=says("a"), run=record("r"), fence=fence, release=True)
        )
    await expect_error(ThreadOwned, other.claim("t", at_ms=2))

    await store.close()

    assert owner_of(path, "t") is None


async def test_an_outage_leaves_no_error_that_no_caller_hears_of(
    store: SqliteStore, path: Path
) -> None:
    """asyncio complains of those: "exception was never retrieved"."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    fence = await store.claim("t", at_ms=1)
    with disk_refuses(path):
        await expect_error(StoreError, store.release(fence))
        await store.load_thread("t")  # tries the release again, with no caller that waits
        await expect_error(StoreError, write(store, "u", messages=says("in vain")))
    await write(store, "u", messages=says("anything"))
    gc.collect()

    assert complaints == []


async def test_commits_behind_a_refused_one_are_no_success_if_the_disk_takes_none(
    store: SqliteStore, path: Path
) -> None:
    """All of them were in one transaction, whose COMMIT SQLite could not carry out."""
    await write(store, messages=says("before"), run=record("r"))
    first, stale, behind = (
        ThreadCommit(thread_id="t", expected_length=length, run=record("r", revision=2))
        for length in (1, 7, 1)
    )
    with disk_refuses(path), closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # the first one waits for this, and the others for it
        commits = [asyncio.ensure_future(store.commit(each)) for each in (first, stale, behind)]
        await asyncio.sleep(0)
        other.execute("ROLLBACK")
        await asyncio.wait(commits)

    errors = [type(commit.exception()) for commit in commits]
    assert errors == [StoreUnavailable, VersionConflict, StoreUnavailable]
    assert len(await store.load_messages("t")) == 1


async def test_a_file_that_is_damaged_in_one_place_is_written_in_no_other(path: Path) -> None:
    """The damage was met by a reader; where the commit would go, the file is well."""
    store = SqliteStore(path)
    for number in range(100):
        await write(store, messages=says(f"needle{number:03}needle"), run=record("r"))
    await store.close()
    damaged = spoil_page_of(path, b"needle050needle")

    store = SqliteStore(path)
    await write(store, "elsewhere", messages=says("well"))
    with pytest.raises(StoreUnavailable, match="is damaged"):
        await store.load_messages("t")
    for deed in (
        write(store, "elsewhere", messages=says("no more")),
        store.compact(),
        store.claim("elsewhere", at_ms=1),
    ):
        with pytest.raises(StoreUnavailable, match="nothing more is written"):
            await deed
    assert len(await store.load_messages("elsewhere")) == 1
    await store.close()
    assert damaged


def spoil_page_of(path: Path, words: bytes) -> bool:
    """Overwrite the head of the page that holds those words; returns whether they were found."""
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[16:18], "big")
    start = content.find(words) // size * size
    content[start : start + 8] = b"\xff" * 8
    path.write_bytes(content)
    return start > 0
