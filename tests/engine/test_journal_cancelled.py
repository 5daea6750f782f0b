"""A commit whose waiter is cancelled, and cancelled again while it finds out what became of it."""

from __future__ import annotations

import asyncio

import pytest

from awaken.clock import SYSTEM_CLOCK
from awaken.core.event import CollectingSink, NullEventSink, StepEnd
from awaken.core.identity import RunIdentity
from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message
from awaken.core.run import RunRecord
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.engine.journal import Journal
from awaken.errors import CommitUnknown
from awaken.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio


class Slow(MemoryStore):
    """A store that has written, or read, and is slow to say so the first time."""

    immediate = False

    def __init__(self) -> None:
        super().__init__()
        self.written, self.read = asyncio.Event(), asyncio.Event()

    async def commit(self, commit: ThreadCommit) -> Committed:
        committed = await super().commit(commit)
        await self._hold(self.written)
        return committed

    async def find_commit(self, commit: ThreadCommit) -> Committed | None:
        await self._hold(self.read)
        return await super().find_commit(commit)

    async def _hold(self, reached: asyncio.Event) -> None:
        if not reached.is_set():
            reached.set()
            await asyncio.Event().wait()


class Unsure(Slow):
    """A store that loses the answer to its first commit, too."""

    async def commit(self, commit: ThreadCommit) -> Committed:
        committed = await MemoryStore.commit(self, commit)
        if not self.written.is_set():
            self.written.set()
            raise CommitUnknown("the line broke")
        return committed


class Gated(MemoryStore):
    """A store whose commits wait until its gate is open."""

    immediate = False

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def commit(self, commit: ThreadCommit) -> Committed:
        await self.gate.wait()
        return await super().commit(commit)


RECORD = RunRecord(
    run_id="r", thread_id="t", agent_id="a", status=RunStatus.RUNNING, created_at=1, updated_at=1
)


async def test_what_is_noted_while_a_commit_is_under_way_is_sent_with_the_next_one() -> None:
    store, sink = Gated(), CollectingSink()
    identity = RunIdentity(thread_id="t", run_id="r", agent_id="a")
    journal = Journal(sink, store, identity, SYSTEM_CLOCK, 0)

    await journal.commit((Message.user("one", id="1"),), RECORD, {}, {}, wait=False)
    journal.note(StepEnd())
    store.gate.set()
    await journal.wait_settled()
    assert sink.take() == []

    await journal.commit((Message.user("two", id="2"),), RECORD, {}, {})
    assert [(type(sent.event), sent.seq) for sent in sink.take()] == [(StepEnd, 1)]


async def test_a_commit_that_is_stopped_before_it_began_is_made_with_the_next_one() -> None:
    store = Gated()
    store.gate.set()
    identity = RunIdentity(thread_id="t", run_id="r", agent_id="a")
    journal = Journal(NullEventSink(), store, identity, SYSTEM_CLOCK, 0)

    await journal.commit((Message.user("one", id="1"),), RECORD, {}, {}, wait=False)
    await journal.stop()
    await journal.commit((Message.user("two", id="2"),), RECORD, {}, {})

    assert [m.text() for m in await store.load_messages("t")] == ["one", "two"]
    assert journal.length == 2


async def test_a_commit_that_is_left_twice_is_found_out_by_the_third_who_asks() -> None:
    """What it held is in the log once, whoever waited for it."""
    store = Slow()
    identity = RunIdentity(thread_id="t", run_id="r", agent_id="a")
    journal = Journal(NullEventSink(), store, identity, SYSTEM_CLOCK, 0)

    first = asyncio.ensure_future(journal.commit((Message.user("one", id="1"),), RECORD, {}, {}))
    await store.written.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    second = asyncio.ensure_future(journal.wait_settled())
    await store.read.wait()
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second

    await journal.commit((Message.user("two", id="2"),), RECORD, {}, {})

    assert [m.text() for m in await store.load_messages("t")] == ["one", "two"]
    assert journal.length == 2


@pytest.mark.parametrize("wait", [True, False])
async def test_a_commit_that_is_left_while_it_is_read_back_is_found_out_by_the_next(
    wait: bool,
) -> None:
    """Nobody knows whether it was made: the next commit asks before it builds on it."""
    store = Unsure()
    identity = RunIdentity(thread_id="t", run_id="r", agent_id="a")
    journal = Journal(NullEventSink(), store, identity, SYSTEM_CLOCK, 0)

    making = journal.commit((Message.user("one", id="1"),), RECORD, {}, {}, wait=wait)
    first = asyncio.ensure_future(making)
    await store.read.wait()
    if wait:
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
    else:
        await journal.stop()

    await journal.commit((Message.user("two", id="2"),), RECORD, {}, {})

    assert [m.text() for m in await store.load_messages("t")] == ["one", "two"]
    assert journal.length == 2
