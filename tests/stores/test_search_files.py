"""The search index of a SQLite store: a file that may be deleted, damaged or shared (07/CO-41)."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from contextlib import suppress
from pathlib import Path

import pytest

from awaken.core.message import Message
from awaken.core.search.index import EntryUpdate, IndexedHead, IndexState, SearchIndex, ThreadUpdate
from awaken.core.search.query import parse_search
from awaken.core.store.commits import ThreadCommit
from awaken.errors import SearchUnavailable
from awaken.runtime import Runtime
from awaken.runtime.search.service import SearchService
from awaken.stores.sqlite import SqliteStore
from awaken.stores.sqlite import search as sqlite_search

pytestmark = pytest.mark.anyio


def update(n: int, text: str = "mug") -> ThreadUpdate:
    return ThreadUpdate(
        thread_id=f"t{n}",
        scope="",
        before=None,
        after=IndexedHead(created_at=1, commits=1, events=1),
        entries=(EntryUpdate(run_id=f"r{n}", started_ms=n, texts=(f"{text} {n}",)),),
    )


def damage(file: str, place: int) -> None:
    """Write nonsense from a place in the file on."""
    size = os.path.getsize(file)
    assert size > 30_000
    with open(file, "r+b") as opened:
        opened.seek(place)
        opened.write(os.urandom(size - place))


async def count(index: SearchIndex, text: str = "mug") -> int:
    page = await index.find(parse_search(text), scope=None, kind="runs", before_key=None, limit=100)
    return len(page.entries)


async def say(store: SqliteStore, thread: str, text: str) -> None:
    message = Message.user(text, id=f"m-{text}")
    head = await store.load_thread(thread)
    length = head.message_count if head is not None else 0
    await store.commit(
        ThreadCommit(thread_id=thread, expected_length=length, messages=(message,), at_ms=1)
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


async def found(runtime: Runtime, text: str) -> list[str]:
    return [hit.thread_id for hit in await runtime.search(text)]


async def test_a_deleted_index_is_built_anew(path: Path) -> None:
    """07/CO-41: by deleting the file, with or without what SQLite has beside it."""
    async with Runtime([], store=f"sqlite:///{path}") as runtime:
        store = runtime.store
        assert isinstance(store, SqliteStore)
        await say(store, "t", "mug")
        assert await found(runtime, "mug") == ["t"]
        for endings in (("",), ("", "-wal"), ("-wal", "-shm", "")):
            for ending in endings:
                with suppress(FileNotFoundError):
                    os.unlink(f"{path}-search{ending}")
            await say(store, "t", f"cup{len(endings)}")
            assert await found(runtime, "mug") == ["t"]
            assert await found(runtime, f"cup{len(endings)}") == ["t"]


@pytest.mark.parametrize("place", [0, 30, 4096, 5000, 20_000])
async def test_a_damaged_index_is_thrown_away_and_built_anew(
    path: Path, place: int, caplog: pytest.LogCaptureFixture
) -> None:
    """07/CO-41, wherever the damage is; the log says so."""
    caplog.set_level(logging.ERROR, "awaken.stores")
    address = f"sqlite:///{path}"
    async with Runtime([], store=address) as runtime:
        store = runtime.store
        assert isinstance(store, SqliteStore)
        for n in range(60):
            await say(store, f"t{n}", f"mug number{n} {'filler ' * 50}")
        assert await found(runtime, "number7") == ["t7"]
    damage(f"{path}-search", place)
    async with Runtime([], store=address) as runtime:
        assert await found(runtime, "number7") == ["t7"]
        assert len(await runtime.search("mug", limit=100)) == 60
        assert list(await runtime.usage(by=())) == []
    assert "is thrown away and built anew" in caplog.text


async def test_an_index_says_that_it_is_being_built(path: Path) -> None:
    """07/CO-41: also if it is deleted under the process that keeps it."""
    async with Runtime([], store=f"sqlite:///{path}") as runtime:
        store = runtime.store
        assert isinstance(store, SqliteStore)
        await say(store, "t", "mug")
        service = runtime._searching()
        assert await service._indexer.look()
        assert (await service.state()).is_complete
        os.unlink(f"{path}-search")
        assert not (await service.state()).is_complete
        assert await service._index.claim(service._indexer._owner, 60, IndexState())
        page = await runtime.search("mug")
        assert (list(page), page.state.is_complete) == ([], False)
        assert await service._indexer.look()
        page = await runtime.search("mug")
        assert (len(page), page.state.is_complete) == (1, True)


async def test_an_index_of_another_version_is_built_anew(path: Path) -> None:
    async with Runtime([], store=f"sqlite:///{path}") as runtime:
        store = runtime.store
        assert isinstance(store, SqliteStore)
        await say(store, "t", "mug")
        assert await found(runtime, "mug") == ["t"]
        await runtime.rebuild_search(zone="Europe/Vienna")
    with sqlite3.connect(f"{path}-search") as db:
        db.execute("UPDATE search_meta SET value = '0 older' WHERE name = 'version'")
        db.execute("DROP TABLE search_tags")
    db.close()
    async with Runtime([], store=f"sqlite:///{path}") as runtime:
        assert await found(runtime, "mug") == ["t"]
        state = await runtime._searching()._index.load_state()
        assert state.zone == "Europe/Vienna"


async def test_a_disk_that_refuses_leaves_everything_else_working(path: Path) -> None:
    """The file cannot be made: a search says why, and it is found when the disk takes it."""
    folder = f"{path}-search"
    async with Runtime([], store=f"sqlite:///{path}") as runtime:
        store = runtime.store
        assert isinstance(store, SqliteStore)
        os.mkdir(folder)
        await say(store, "t", "mug")
        for _ in range(2):
            with pytest.raises(SearchUnavailable, match="unable to open") as caught:
                await runtime.search("mug")
            assert str(path) not in str(caught.value)
        keeping = asyncio.ensure_future(runtime.keep_search())
        await asyncio.sleep(0.05)
        assert not keeping.done()
        await say(store, "t", "cup")
        assert await store.load_messages("t")
        os.rmdir(folder)
        for _ in range(100):
            await asyncio.sleep(0.05)
            with suppress(SearchUnavailable):
                if await found(runtime, "cup"):
                    break
        assert await found(runtime, "cup") == ["t"]
        keeping.cancel()
        await asyncio.wait([keeping])


async def test_a_full_disk_rolls_a_batch_back(path: Path) -> None:
    index = SqliteStore(path).search_index()
    await index.apply([update(0)])
    connection = index._writer  # type: ignore[attr-defined]
    connection._db.execute("PRAGMA max_page_count = 30")
    with pytest.raises(SearchUnavailable, match="full"):
        await index.apply([update(n, "cup " * 10_000) for n in range(1, 20)])
    assert await count(index) == 1
    assert await count(index, "cup") == 0
    connection._db.execute("PRAGMA max_page_count = 100000")
    assert await index.apply([update(n) for n in range(1, 20)]) == 19
    assert await count(index) == 20
    await index.close()


async def test_a_search_that_takes_too_long_says_so(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_search, "MAX_SECONDS", -1.0)
    monkeypatch.setattr(sqlite_search, "_STEPS", 10)
    index = SqliteStore(path).search_index()
    await index.apply([update(n) for n in range(50)])
    with pytest.raises(SearchUnavailable, match="took longer"):
        await count(index)
    monkeypatch.setattr(sqlite_search, "MAX_SECONDS", 60.0)
    assert await count(index) == 50
    await index.close()


async def test_two_that_index_at_once_count_nothing_twice(path: Path) -> None:
    """Even if both believe that they own the index."""
    store = SqliteStore(path)
    one, two = store.search_index(), store.search_index()
    updates = [update(n) for n in range(50)]
    async with asyncio.TaskGroup() as group:
        done = [group.create_task(index.apply(updates)) for index in (one, two, one, two)]
    assert sum(task.result() for task in done) == 50
    assert await count(one) == await count(two) == 50
    await one.close()
    await two.close()


async def test_one_process_indexes_and_the_others_stand_by(path: Path) -> None:
    first, second = (Runtime([], store=f"sqlite:///{path}") for _ in range(2))
    async with first, second:
        keeping = [asyncio.ensure_future(runtime.keep_search()) for runtime in (first, second)]
        await asyncio.sleep(0.2)
        store = first.store
        assert isinstance(store, SqliteStore)
        owner = (await _state(first)).owner
        assert owner is not None
        await say(store, "t", "mug")
        for _ in range(100):
            await asyncio.sleep(0.05)
            if await found(second, "mug"):
                break
        assert await found(second, "mug") == ["t"]
        assert (await _state(second)).owner == owner
        owns_first = owner == first._searching()._indexer._owner
        keeping[0 if owns_first else 1].cancel()
        await (first if owns_first else second)._close_search()
        for _ in range(200):
            await asyncio.sleep(0.05)
            if (await _state(second)).owner not in (None, owner):
                break
        assert (await _state(second)).owner not in (None, owner)
        for task in keeping:
            task.cancel()
        await asyncio.wait(keeping)


async def _state(runtime: Runtime) -> IndexState:
    service: SearchService = runtime._searching()
    return await service._index.load_state()
