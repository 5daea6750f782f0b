"""Owners: alive as long as the kernel keeps their lock, and not a moment longer."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from awaken.clock import SYSTEM_CLOCK
from awaken.core.store.commits import Fence
from awaken.errors import StaleFence, StoreUnavailable, ThreadOwned
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance.helpers import expect_error, names, record, says, texts, write

pytestmark = pytest.mark.anyio

CHILD = """
import asyncio, sys
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance.helpers import record, says, write

async def main(path):
    store = SqliteStore(path)
    fence = await store.claim("t", at_ms=1)
    await write(store, messages=says("child"), run=record("r"), fence=fence)
    print(store.owner, flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await store.close()

asyncio.run(main(sys.argv[1]))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "awaken.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    await store.close()


@contextmanager
def another_process(path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that owns thread `t`, and the name it does so by."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        yield child, child.stdout.readline().strip()
    finally:
        child.kill()
        child.communicate()


def lock_files(path: Path) -> list[str]:
    return sorted(name for name in os.listdir(path.parent) if "-owner-" in name)


async def test_a_killed_owner_is_followed_at_once(store: SqliteStore, path: Path) -> None:
    with another_process(path) as (child, owner):
        owned = await expect_error(ThreadOwned, store.claim("t", at_ms=2))
        assert owned.owner == owner
        assert str(child.pid) in owner
        assert lock_files(path) == [f"{path.name}-owner-{owner}"]
        assert names(await store.list_interrupted(now_ms=2)) == []

        child.send_signal(signal.SIGKILL)
        child.wait()

    assert names(await store.list_interrupted(now_ms=2)) == ["r"]
    fence = await store.claim("t", at_ms=3)
    assert fence.epoch == 2
    assert lock_files(path) == [f"{path.name}-owner-{store.owner}"]
    await write(store, messages=says("parent"), fence=fence)
    assert await texts(store) == ["child", "parent"]


async def test_an_owner_that_ends_well_leaves_nothing_behind(
    store: SqliteStore, path: Path
) -> None:
    with another_process(path) as (child, _):
        child.communicate("done\n", timeout=250)
        assert child.returncode == 0

    assert lock_files(path) == []
    thread = await store.load_thread("t")
    assert thread is not None
    assert thread.owner is None


async def test_owners_are_found_by_any_name_of_the_file(
    store: SqliteStore, path: Path, tmp_path: Path
) -> None:
    link = tmp_path / "elsewhere"
    link.mkdir()
    (link / "link.db").symlink_to(path)
    await store.open()
    other = SqliteStore(link / "link.db")
    await store.claim("t", at_ms=1)
    await other.claim("u", at_ms=1)

    await expect_error(ThreadOwned, other.claim("t", at_ms=2))
    await expect_error(ThreadOwned, store.claim("u", at_ms=2))
    await other.close()
    await store.claim("u", at_ms=3)


async def test_a_lock_file_is_there_from_the_first_claim_to_the_end(
    store: SqliteStore, path: Path
) -> None:
    await write(store, messages=says("a"))
    assert lock_files(path) == []
    fence = await store.claim("t", at_ms=1)
    assert lock_files(path) == [f"{path.name}-owner-{store.owner}"]
    await store.release(fence)
    await store.claim("u", at_ms=1)
    await store.close()
    assert lock_files(path) == []


async def test_files_of_the_dead_are_tidied_away(store: SqliteStore, path: Path) -> None:
    for number in range(3):
        os.close(os.open(f"{path}-owner-dead-{number}", os.O_CREAT))
    other = SqliteStore(path)
    await other.claim("t", at_ms=1)
    await store.claim("u", at_ms=1)

    compacted = await store.compact()

    assert compacted.dead_owners == 3
    assert lock_files(path) == sorted(f"{path.name}-owner-{s.owner}" for s in (store, other))
    await expect_error(ThreadOwned, store.claim("t", at_ms=2))
    await other.close()


async def test_a_claim_that_cannot_be_shown_is_not_made(store: SqliteStore, path: Path) -> None:
    """Without a lock others would take the owner for dead."""
    await write(store, run=record("r"))
    os.mkdir(f"{path}-owner-{store.owner}")

    with pytest.raises(StoreUnavailable, match="a file beside"):
        await store.claim("t", at_ms=1)

    thread = await store.load_thread("t")
    assert thread is not None
    assert thread.owner is None


async def test_a_process_is_listed_until_it_is_killed(store: SqliteStore, path: Path) -> None:
    """07 §6.6: with its process id, its host, and since when it has the store open."""
    await store.open()
    with another_process(path) as (child, owner):
        (other,) = [found for found in await store.processes() if found.owner == owner]
        assert (other.pid, other.host) == (child.pid, owner.rsplit("-", 2)[0])
        assert other.since_ms is not None
        assert 0 < other.since_ms <= SYSTEM_CLOCK.now_ms()
        child.kill()
        child.wait()
        assert [found.owner for found in await store.processes()] == [store.owner]


async def test_a_file_that_is_no_lock_is_no_process(store: SqliteStore, path: Path) -> None:
    await store.open()
    os.mkdir(f"{path}-owner-folder")
    os.close(os.open(f"{path}-owner-dead", os.O_CREAT))
    os.close(os.open(f"{path}-owner-a b", os.O_CREAT))
    assert [found.owner for found in await store.processes()] == [store.owner]


async def test_a_store_whose_file_was_replaced_fails_its_check(
    store: SqliteStore, path: Path
) -> None:
    """06 §2.11"""
    await store.open()
    await store.check()
    os.replace(path, f"{path}.moved")
    with pytest.raises(StoreUnavailable):
        await store.check()


async def test_a_store_that_was_forgotten_gives_up_its_threads(
    store: SqliteStore, path: Path
) -> None:
    forgotten = SqliteStore(path)
    await forgotten.claim("t", at_ms=1)
    await expect_error(ThreadOwned, store.claim("t", at_ms=2))

    del forgotten
    gc.collect()

    async def claimed() -> Fence:
        while True:
            try:
                return await store.claim("t", at_ms=3)
            except ThreadOwned:
                continue

    async with asyncio.timeout(550):
        assert (await claimed()).owner == store.owner
        while lock_files(path) != [f"{path.name}-owner-{store.owner}"]:  # noqa: ASYNC110 - by a thread
            await asyncio.sleep(0.01)


async def test_stores_that_claim_at_once_agree_on_one(path: Path) -> None:
    stores = [SqliteStore(path) for _ in range(4)]
    claims = [asyncio.ensure_future(store.claim("t", at_ms=1)) for store in stores]
    await asyncio.wait(claims)

    won = [claim.result() for claim in claims if claim.exception() is None]
    assert len(won) == 1
    for store in stores:
        if store.owner != won[0].owner:
            await expect_error(StaleFence, write(store, messages=says("x")))
        else:
            await write(store, messages=says("a"), fence=won[0])
    for store in stores:
        await store.close()
