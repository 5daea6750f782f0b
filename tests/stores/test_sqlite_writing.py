"""The writer's thread: one transaction for all who wait, and each may fail alone."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import struct
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import ThreadCommit
from awaken.errors import (
    CommitUnknown,
    InvalidRecord,
    Serialization,
    StoreUnavailable,
    VersionConflict,
)
from awaken.stores.sqlite import SqliteStore
from awaken.testing.conformance.helpers import (
    all_threads,
    raw,
    record,
    says,
    texts,
    wait_until_named,
    write,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "awaken.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    await store.open()
    yield store
    await store.close()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep the writer waiting, as another process in the middle of a commit would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def transactions(path: Path) -> int:
    """How many transactions the log holds: frames that say how large the database is now."""
    log = Path(f"{path}-wal").read_bytes()
    (page_size,) = struct.unpack(">I", log[8:12])
    starts = range(32, len(log) - 24, page_size + 24)
    salt = log[16:24]  # frames of an earlier round have another one
    frames = [log[at : at + 24] for at in starts]
    return sum(frame[4:8] != b"\0\0\0\0" for frame in frames if frame[8:16] == salt)


def commit(thread_id: str, *words: str, **changes: Any) -> ThreadCommit:
    fields: dict[str, Any] = {
        "thread_id": thread_id,
        "expected_length": 0,
        "messages": says(*words),
    }
    return ThreadCommit(**(fields | changes))


async def test_commits_that_wait_share_a_transaction(store: SqliteStore, path: Path) -> None:
    await write(store, "first")
    before = transactions(path)
    async with asyncio.TaskGroup() as tasks:
        with locked(path):
            made = [tasks.create_task(store.commit(commit(f"t{n}", "a"))) for n in range(50)]
            await asyncio.sleep(0)

    assert [task.result().length for task in made] == [1] * 50
    assert len(await all_threads(store)) == 51
    assert transactions(path) - before <= 3


async def test_a_refused_commit_does_not_harm_the_others(store: SqliteStore, path: Path) -> None:
    await write(store, "there", run=record("r", "there"))
    bad: list[tuple[ThreadCommit, type[Exception]]] = [
        (commit("late", expected_length=7), VersionConflict),
        (commit("thief", run=record("r", "thief")), InvalidRecord),
        (commit("orphan", parent_thread_id="nobody"), InvalidRecord),
        # An id that is no text: nobody can foresee it, so the whole transaction is made again.
        (commit("\ud800"), Serialization),
    ]
    async with asyncio.TaskGroup() as tasks:
        with locked(path):
            good = [tasks.create_task(store.commit(commit(f"t{n}", "a"))) for n in range(9)]
            refused = [asyncio.ensure_future(store.commit(each)) for each, _ in bad]
            more = [tasks.create_task(store.commit(commit(f"u{n}", "a"))) for n in range(9)]
            await asyncio.sleep(0)

    for future, (_, error) in zip(refused, bad, strict=True):
        with pytest.raises(error):
            await future
    assert [task.result().length for task in good + more] == [1] * 18
    assert len(await all_threads(store)) == 19


async def test_commits_of_one_thread_keep_their_order(store: SqliteStore) -> None:
    words = [str(number) for number in range(200)]
    async with asyncio.TaskGroup() as tasks:
        for length, word in enumerate(words):
            tasks.create_task(store.commit(commit("t", word, expected_length=length)))

    assert await texts(store) == words


async def test_a_commit_nobody_waits_for_is_made_all_the_same(
    store: SqliteStore, path: Path
) -> None:
    with locked(path):
        task = asyncio.ensure_future(store.commit(commit("t", "a")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    await write(store, "u", messages=says("b"))
    assert await texts(store) == ["a"]


async def test_what_became_of_a_commit_is_asked_behind_it(store: SqliteStore, path: Path) -> None:
    """Somebody who gave up waiting is not told "no" while the commit is still on its way."""
    lost = commit("t", "a", run=record("r", revision=1))
    with locked(path):
        task = asyncio.ensure_future(store.commit(lost))
        await asyncio.sleep(0)
        task.cancel()
        answer = asyncio.ensure_future(store.find_commit(lost))
        await asyncio.sleep(0)

    found = await answer
    assert found is not None
    assert found.length == 1


async def test_another_commit_of_the_same_revision_is_not_taken_for_it(store: SqliteStore) -> None:
    """Somebody else may have gone on with the run meanwhile."""
    lost = commit("t", "mine", run=record("r", revision=1))
    await store.commit(commit("t", "theirs", run=record("r", revision=1)))

    assert await store.find_commit(lost) is None


# -- commits SQLite cannot answer for ----------------------------------------------------------


SHARED = "shared"


class Failing(sqlite3.Connection):
    """A connection whose next COMMIT goes wrong; what really happens is up to the test.

    `SHARED` waits for a transaction with more than one commit in it.
    """

    trouble: list[str] = []  # noqa: RUF012 -- shared on purpose: the store makes the connection
    made = 0

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        if sql == "BEGIN IMMEDIATE":
            self.made = 0
        self.made += "INSERT INTO commits" in sql
        if sql == "COMMIT" and self.trouble and (self.trouble[0] != SHARED or self.made > 1):
            happens = self.trouble.pop(0)
            if happens in ("COMMIT", "ROLLBACK"):
                super().execute(happens)
            raise io_error()
        if self.trouble and sql.lstrip().startswith("SELECT pk, id, thread"):
            self.trouble.pop(0)
            raise io_error()
        return super().execute(sql, *args)


def io_error() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    error.sqlite_errorname = "SQLITE_IOERR"
    return error


@pytest.fixture
async def shaky(path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqliteStore]:
    connect = sqlite3.connect

    def failing(*args: Any, **options: Any) -> sqlite3.Connection:
        return connect(*args, factory=Failing, **options)

    monkeypatch.setattr("awaken.stores.sqlite.open.sqlite3.connect", failing)
    Failing.trouble.clear()
    store = SqliteStore(path)
    await store.open()
    yield store
    Failing.trouble.clear()
    await store.close()


RUN = record("r", revision=3)


async def test_a_transaction_that_stays_open_is_rolled_back(shaky: SqliteStore) -> None:
    Failing.trouble.append("")
    with pytest.raises(StoreUnavailable, match="nothing was written"):
        await write(shaky, messages=says("a"), run=RUN)

    assert await shaky.load_thread("t") is None
    await write(shaky, messages=says("a"), run=RUN)


async def test_a_transaction_that_failed_for_many_is_made_for_each(
    shaky: SqliteStore, path: Path
) -> None:
    Failing.trouble.append(SHARED)
    async with asyncio.TaskGroup() as tasks:
        with locked(path):
            made = [tasks.create_task(shaky.commit(commit(f"t{n}", "a"))) for n in range(9)]
            await asyncio.sleep(0)

    assert Failing.trouble == []
    assert [task.result().length for task in made] == [1] * 9


async def test_a_commit_that_happened_is_found(shaky: SqliteStore) -> None:
    Failing.trouble.append("COMMIT")
    committed = await write(shaky, messages=says("a"), run=RUN)

    assert (committed.length, committed.first_event_seq) == (1, 1)
    assert await texts(shaky) == ["a"]


async def test_a_commit_that_did_not_happen_is_found_missing(shaky: SqliteStore) -> None:
    Failing.trouble.append("ROLLBACK")
    with pytest.raises(StoreUnavailable, match="nothing was written"):
        await write(shaky, messages=says("a"), run=RUN)

    assert await shaky.load_thread("t") is None


async def test_a_commit_that_cannot_be_looked_for_is_unknown(shaky: SqliteStore) -> None:
    Failing.trouble.extend(["COMMIT", "and reading fails, too"])
    lost = commit("t", "a", run=RUN)
    with pytest.raises(CommitUnknown):
        await shaky.commit(lost)

    settled = await shaky.find_commit(lost)
    assert settled is not None
    assert settled.length == 1


async def test_a_commit_without_a_run_is_unknown_too(shaky: SqliteStore) -> None:
    Failing.trouble.append("COMMIT")
    with pytest.raises(CommitUnknown):
        await shaky.commit(commit("t", "a"))


async def test_commands_are_sent_once_if_their_commit_was_made(
    shaky: SqliteStore, path: Path
) -> None:
    """Whatever SQLite says of it, and however often it is tried."""

    def sends(*at_ms: int) -> tuple[ThreadCommand, ...]:
        kind = CommandKind.MESSAGES
        return tuple(ThreadCommand(thread_id="u", kind=kind, at_ms=each) for each in at_ms)

    await write(shaky, "u")
    Failing.trouble.append("COMMIT")
    await write(shaky, messages=says("a"), run=RUN, sends=sends(1, 2))
    for happens in ("ROLLBACK", ""):
        Failing.trouble.append(happens)
        with pytest.raises(StoreUnavailable, match="nothing was written"):
            await write(shaky, messages=says("b"), run=record("r", revision=4), sends=sends(3))
    Failing.trouble.append(SHARED)
    async with asyncio.TaskGroup() as tasks:
        with locked(path):
            for n in range(4, 9):
                tasks.create_task(shaky.commit(commit(f"t{n}", "a", sends=sends(n))))
            await asyncio.sleep(0)

    assert Failing.trouble == []
    found = await shaky.load_commands("u")
    assert [command.at_ms for command in found] == [1, 2, 4, 5, 6, 7, 8]


# -- opening, closing, event loops -------------------------------------------------------------


async def test_closing_finishes_what_was_begun(path: Path) -> None:
    store = SqliteStore(path)
    made = [asyncio.ensure_future(store.commit(commit(f"t{n}", "a"))) for n in range(30)]
    await asyncio.sleep(0)
    await store.close()

    assert [(await future).length for future in made] == [1] * 30
    assert os.listdir(path.parent) == [path.name]


async def test_a_closed_store_says_so_until_it_is_opened(path: Path) -> None:
    store = SqliteStore(path)
    fence = await store.claim("t", at_ms=1)
    await write(store, messages=says("a"), fence=fence)
    waiting = asyncio.ensure_future(wait_until_named(store, "t"))
    await asyncio.sleep(0)
    before = store.owner
    await store.close()
    await store.close()

    for late in (
        waiting,
        store.load_thread("t"),
        store.wait_changed("t", 10**6),
        store.claim("t", at_ms=1),
    ):
        with pytest.raises(StoreUnavailable, match="closed"):
            await late
    await store.open()
    assert await texts(store) == ["a"]
    assert store.owner != before
    assert (await store.claim("t", at_ms=2)).epoch > fence.epoch
    await store.close()


async def test_a_token_from_before_closing_is_good_afterwards(path: Path) -> None:
    """What others wrote meanwhile counts as a change."""
    store = SqliteStore(path)
    for word in "abc":
        await write(store, messages=says(word))
    seen = await store.wait_changed("t", 0)
    await store.close()
    await store.open()

    async with asyncio.timeout(100):
        assert await store.wait_changed("t", seen) > seen
    await store.close()


def test_a_store_serves_one_event_loop_after_another(path: Path) -> None:
    store = SqliteStore(path)

    async def append(word: str) -> list[str]:
        await write(store, messages=says(word))
        return await texts(store)

    assert asyncio.run(append("a")) == ["a"]
    assert asyncio.run(append("b")) == ["a", "b"]
    asyncio.run(store.close())
    assert os.listdir(path.parent) == [path.name]


def test_a_store_serves_several_event_loops_at_once(path: Path) -> None:
    store = SqliteStore(path)

    async def work(name: str) -> None:
        for step in range(20):
            await write(store, name, messages=says(str(step)))

    threads = [
        threading.Thread(target=lambda name=f"t{n}": asyncio.run(work(name))) for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def lengths() -> list[int]:
        found = [len(await texts(store, f"t{n}")) for n in range(4)]
        await store.close()
        return found

    assert asyncio.run(lengths()) == [20] * 4


def test_an_event_loop_that_is_gone_disturbs_nobody(path: Path) -> None:
    store = SqliteStore(path)

    async def leave_early() -> None:
        await store.open()
        asyncio.ensure_future(store.commit(commit("t", "a")))  # noqa: RUF006 -- left on purpose
        asyncio.ensure_future(store.wait_changed("t", 10**6))  # noqa: RUF006 -- the same
        await asyncio.sleep(0)

    async def look() -> list[str]:
        await write(store, "u")
        found = await texts(store)
        await store.close()
        return found

    asyncio.run(leave_early())
    assert asyncio.run(look()) == ["a"]


# -- in memory ---------------------------------------------------------------------------------


async def test_a_database_in_memory_needs_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore.from_address("sqlite://")
    other = SqliteStore(":memory:")
    fence = await store.claim("t", at_ms=1)
    await write(store, messages=says("a"), thread_state=raw(k=1), fence=fence)

    assert await texts(store) == ["a"]
    assert await all_threads(other) == []
    assert (await store.compact()).dead_owners == 0
    await store.close()
    await other.close()
    assert os.listdir(tmp_path) == []
