"""The store that fails on demand: it lies to the writer, never to the reader."""

from __future__ import annotations

import pytest

from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message
from awaken.core.run import RunRecord
from awaken.core.store.commits import ThreadCommit
from awaken.core.store.store import Store
from awaken.errors import CommitUnknown, StoreUnavailable
from awaken.stores.memory import MemoryStore
from awaken.testing import CommitFailure, FailingStore
from awaken.testing.conformance import store_checks

pytestmark = pytest.mark.anyio


def step(number: int) -> ThreadCommit:
    """The n-th commit of a run that writes a message each time."""
    run = RunRecord(
        run_id="r",
        thread_id="t",
        agent_id="a",
        status=RunStatus.RUNNING,
        created_at=1,
        updated_at=1,
        revision=number,
    )
    messages = (Message.user(f"{number}", id=f"m{number}"),)
    return ThreadCommit(thread_id="t", expected_length=number - 1, messages=messages, run=run)


async def texts(store: Store) -> list[str]:
    return [message.text() for message in await store.load_messages("t")]


async def test_a_refused_commit_was_not_written() -> None:
    store = FailingStore(MemoryStore(), {2: CommitFailure.REFUSED})
    await store.commit(step(1))

    with pytest.raises(StoreUnavailable, match="commit 2 was to fail"):
        await store.commit(step(2))

    assert await texts(store) == ["1"]
    await store.commit(step(2))
    assert await texts(store) == ["1", "2"]
    assert store.commits == 3


@pytest.mark.parametrize(
    ("failure", "written"), [(CommitFailure.LOST, ["1"]), (CommitFailure.LANDED, ["1", "2"])]
)
async def test_an_answer_that_was_lost_can_be_settled(
    failure: CommitFailure, written: list[str]
) -> None:
    """04 §4.2: it may be durable; `settle` knows."""
    store = FailingStore(MemoryStore(), {2: failure})
    await store.commit(step(1))

    with pytest.raises(CommitUnknown):
        await store.commit(step(2))

    assert await texts(store) == written
    assert (await store.find_commit(step(2)) is not None) == (failure is CommitFailure.LANDED)


async def test_a_store_can_stay_broken() -> None:
    store = FailingStore(MemoryStore(), {}, then=CommitFailure.REFUSED)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await store.commit(step(1))

    store = FailingStore(MemoryStore(), {2: CommitFailure.LANDED}, then=CommitFailure.REFUSED)
    await store.commit(step(1))
    with pytest.raises(CommitUnknown):
        await store.commit(step(2))
    with pytest.raises(StoreUnavailable):
        await store.commit(step(3))


async def test_a_store_that_never_fails_is_whole() -> None:
    for check in store_checks():
        store = FailingStore(MemoryStore(), {})
        assert store.immediate
        await check(store)
