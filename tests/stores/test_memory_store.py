"""What is the memory store's own; what it shares with others stands in `tests/conformance`."""

from __future__ import annotations

import asyncio

import pytest

from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message
from awaken.core.run import RunRecord
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.core.store.store import Store
from awaken.core.store.threads import ChildStrategy
from awaken.errors import StaleFence
from awaken.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def commit(length: int = 0, **more: object) -> ThreadCommit:
    message = Message.user(f"{length}", id=f"m{length}")
    fields: dict[str, object] = {"thread_id": "t", "expected_length": length}
    return ThreadCommit(**(fields | {"messages": (message,)} | more))  # type: ignore[arg-type]


def running(run_id: str = "r") -> RunRecord:
    return RunRecord(
        run_id=run_id,
        thread_id="t",
        agent_id="a",
        status=RunStatus.RUNNING,
        created_at=1,
        updated_at=1,
    )


def test_it_is_a_store(store: MemoryStore) -> None:
    whole: Store = store

    assert whole.immediate
    assert whole.owner


def test_a_commit_waits_for_nothing(store: MemoryStore) -> None:
    """It is done in one go, also without an event loop."""
    with pytest.raises(StopIteration) as done:
        store.commit(commit()).send(None)

    assert done.value.value == Committed(1, 1)


async def test_a_forsaken_thread_is_free_and_its_run_interrupted(store: MemoryStore) -> None:
    """As after a crash: the dead write no more, and the next owner has a higher epoch."""
    dead = await store.claim("t", at_ms=1)
    await store.commit(commit(run=running(), fence=dead))
    assert list(await store.list_interrupted(now_ms=1)) == []

    store.forsake()

    assert [run.run_id for run in await store.list_interrupted(now_ms=1)] == ["r"]
    with pytest.raises(StaleFence):
        await store.commit(commit(1, run=running(), fence=dead))
    heir = await store.claim("t", at_ms=2)
    assert heir.epoch > dead.epoch
    await store.commit(commit(1, run=running(), fence=heir))


async def test_a_closed_store_can_be_read_and_opened_again(store: MemoryStore) -> None:
    """It gave up what it owned; nothing else is lost."""
    await store.open()
    fence = await store.claim("t", at_ms=1)
    await store.commit(commit(fence=fence))

    await store.close()
    await store.close()

    thread = await store.load_thread("t")
    assert thread is not None
    assert (thread.message_count, thread.owner) == (1, None)
    await store.open()
    await store.claim("t", at_ms=2)


async def test_two_stores_share_nothing(store: MemoryStore) -> None:
    await store.commit(commit())

    assert await MemoryStore().load_thread("t") is None


async def test_whoever_waits_for_a_thread_hears_that_it_was_deleted(store: MemoryStore) -> None:
    """Once; then it waits for the thread to come back."""
    await store.commit(commit())
    version = await store.wait_changed("t", 0)
    async with asyncio.timeout(100), asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(store.wait_changed("t", version))
        await asyncio.sleep(0)
        await store.delete_thread("t", at_ms=1)
        gone = await waiting
        assert await store.wait_changed("t", version) == gone

        waiting = tasks.create_task(store.wait_changed("t", gone))
        await asyncio.sleep(0)
        assert not waiting.done()
        await store.commit(commit())
        assert await waiting > gone


async def test_a_caller_that_waits_for_a_child_hears_that_its_parent_is_gone(
    store: MemoryStore,
) -> None:
    await store.commit(commit(thread_id="parent"))
    await store.commit(commit(thread_id="child", parent_thread_id="parent"))
    seen = await store.wait_changed("child", 0)
    waiting = asyncio.ensure_future(store.wait_changed("child", seen))
    await store.delete_thread("parent", children=ChildStrategy.DETACH, at_ms=2)
    assert await asyncio.wait_for(waiting, 60) > seen
