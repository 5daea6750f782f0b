"""Commands a run sends go with its next commit: once, or not at all."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from awaken.clock import SYSTEM_CLOCK
from awaken.core.event import NullEventSink
from awaken.core.identity import RunIdentity
from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message
from awaken.core.run import RunRecord
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import ThreadCommit
from awaken.core.store.store import Store
from awaken.engine.journal import Journal
from awaken.errors import StorageError
from awaken.stores.memory import MemoryStore
from awaken.stores.sqlite import SqliteStore
from awaken.testing import CommitFailure, FailingStore

pytestmark = pytest.mark.anyio


async def opened(store: Store) -> Store:
    """With a thread `parent` in it."""
    await store.commit(ThreadCommit(thread_id="parent", expected_length=0))
    return store


def new_journal(store: Store) -> Journal:
    identity = RunIdentity(thread_id="t", run_id="r", agent_id="a")
    return Journal(NullEventSink(), store, identity, SYSTEM_CLOCK, 0)


async def commit(journal: Journal, number: int, *, wait: bool = True) -> None:
    run = RunRecord(
        run_id="r",
        thread_id="t",
        agent_id="a",
        status=RunStatus.RUNNING,
        created_at=1,
        updated_at=1,
        revision=number,
    )
    words = (Message.user("", id=f"m{number}"),)
    state: dict[str, msgspec.Raw] = {}
    await journal.commit(words, run, state, state, wait=wait)


def done(number: int, kind: CommandKind = CommandKind.MESSAGES) -> ThreadCommand:
    return ThreadCommand(thread_id="parent", kind=kind, at_ms=number)


async def heard(store: Store) -> Sequence[int]:
    return [command.at_ms for command in await store.load_commands("parent")]


async def test_what_is_sent_goes_with_the_next_commit() -> None:
    store = await opened(MemoryStore())
    journal = new_journal(store)
    assert not journal.has_pending
    journal.extras.sends += [done(1), done(2)]
    assert journal.has_pending
    assert await heard(store) == []

    await commit(journal, 1)
    assert not journal.has_pending
    assert await heard(store) == [1, 2]

    await commit(journal, 2)
    assert await heard(store) == [1, 2]


async def test_a_commit_nobody_waits_for_takes_what_was_there_by_then() -> None:
    store = await opened(SqliteStore(":memory:"))
    journal = new_journal(store)
    journal.extras.sends.append(done(1))
    await commit(journal, 1, wait=False)
    journal.extras.sends.append(done(2))
    await journal.wait_settled()
    assert await heard(store) == [1]

    await commit(journal, 2)
    assert await heard(store) == [1, 2]
    await store.close()


@pytest.mark.parametrize("failure", [CommitFailure.LANDED, CommitFailure.LOST])
async def test_a_lost_answer_doubles_nothing(failure: CommitFailure) -> None:
    """04 §4.2."""
    store = await opened(FailingStore(MemoryStore(), {2: failure}))
    journal = new_journal(store)
    journal.extras.sends.append(done(1))

    await commit(journal, 1)

    assert journal.length == 1
    assert await heard(store) == [1]


async def test_what_no_store_can_write_is_given_up() -> None:
    """With the rest of its commit; the next one goes on without."""
    store = await opened(MemoryStore())
    journal = new_journal(store)
    journal.extras.sends += [done(1), done(2, CommandKind.DECISIONS)]
    with pytest.raises(StorageError, match="decisions cannot be sent") as failed:
        await commit(journal, 1)

    refused = journal.forgive(failed.value)
    assert refused is not None
    assert len(refused.sends) == 2
    await commit(journal, 2)
    assert await heard(store) == []
