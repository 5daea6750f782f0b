"""A file nobody can write for a while: when it can be again, nothing is stuck."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from awaken import Agent, Runtime, tool
from awaken.core.lifecycle import NATURAL_END, RunStatus
from awaken.errors import AgentLoopError, StoreUnavailable, ThreadOwned
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FakeClock, ScriptedModel, tool_call_response
from awaken.testing.conformance.helpers import expect_error, says, write

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "awaken.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path, busy_timeout=0.01)
    yield store
    await store.close()


class Outage:
    """Another program that keeps the file locked."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._db: sqlite3.Connection | None = None

    def begin(self) -> None:
        self._db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._db.execute("BEGIN IMMEDIATE")

    def end(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


@contextmanager
def outage(path: Path) -> Iterator[None]:
    """The file cannot be written within the block."""
    locked = Outage(path)
    locked.begin()
    try:
        yield
    finally:
        locked.end()


async def test_a_release_that_failed_is_made_up_for(store: SqliteStore, path: Path) -> None:
    """Its owner lives, so nobody else could ever take the thread."""
    other = SqliteStore(path)
    fence = await store.claim("t", at_ms=1)
    await write(store, messages=says("a"), fence=fence)
    with outage(path):
        await expect_error(StoreUnavailable, store.release(fence))
    await expect_error(ThreadOwned, other.claim("t", at_ms=2))

    await write(store, "u", messages=says("anything"))

    assert (await other.claim("t", at_ms=3)).epoch == fence.epoch + 1
    await other.close()


async def test_a_release_that_failed_does_not_take_from_the_next_owner(
    store: SqliteStore, path: Path
) -> None:
    """It is made up for late, and the thread was taken again meanwhile: the fence is another."""
    fence = await store.claim("t", at_ms=1)
    with outage(path):
        await expect_error(StoreUnavailable, store.release(fence))
        await expect_error(StoreUnavailable, write(store, "u", messages=says("in vain")))

    newer = await store.claim("t", at_ms=2)
    await write(store, messages=says("a"), fence=newer)
    await write(store, messages=says("b"), fence=newer)

    thread = await store.load_thread("t")
    assert thread is not None
    assert thread.owner == store.owner


async def test_a_run_that_broke_off_in_an_outage_goes_on_after_it(path: Path) -> None:
    """Design §8: the same process recovers it; the thread can be used and deleted again."""
    locked, paid = Outage(path), []

    @tool
    async def pay() -> str:
        """Pay."""
        paid.append(5)
        locked.begin()
        return "paid"

    model = ScriptedModel([tool_call_response("", "pay", "c1", {}), "hello", "done", "and on"])
    agent = Agent("a", model=model, tools=[pay])
    store = SqliteStore(path, busy_timeout=0.01)
    async with Runtime([agent], store=store, clock=FakeClock(auto=True)) as runtime:
        with pytest.raises(AgentLoopError, match="locked"):
            await runtime.run("a", "go", thread="t")
        locked.end()

        assert (await runtime.run("a", "hello", thread="u")).response == "hello"
        (run,) = await runtime.recover()
        result = await run

        assert (result.response, result.termination) == ("done", NATURAL_END)
        assert paid == [5], "it may have been paid, so it is not paid again"
        assert {record.status for record in await runtime.list_runs()} == {RunStatus.DONE}
        assert (await runtime.run("a", "go on", thread="t")).response == "and on"
        await runtime.delete_thread("t")
    await store.close()
