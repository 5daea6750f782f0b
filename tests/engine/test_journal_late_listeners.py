"""A listener that comes between the noting of an event and its commit."""

from __future__ import annotations

import pytest

from awaken.clock import SYSTEM_CLOCK
from awaken.core.event import NullEventSink, StepStart, TextDelta
from awaken.core.identity import RunIdentity
from awaken.core.lifecycle import RunStatus
from awaken.core.run import RunRecord
from awaken.engine.journal import Journal
from awaken.runtime.live.cursor import Desynchronized, FollowerCursor
from awaken.stores.bus.local import LocalBus
from awaken.stores.memory import MemoryStore

pytestmark = pytest.mark.anyio


async def test_it_finds_out_that_the_event_is_missing() -> None:
    """06/CL-13: it was not sent, because there was no listener when it was noted, and the owner's
    standing did not have it yet. The next piece of the answer does not hide that."""
    store, bus = MemoryStore(), LocalBus()
    fence = await store.claim("t", at_ms=1)
    topic = bus.topic(fence)
    identity = RunIdentity(thread_id="t", run_id="r", agent_id="a")
    journal = Journal(NullEventSink(), store, identity, SYSTEM_CLOCK, 0, fence, topic=topic)
    topic.attach(lambda: journal.progress(None))
    journal.note(StepStart(message_id="m"))

    async with bus.listen("t") as subscription:
        cursor = FollowerCursor("t")
        standing = await bus.snapshot("t")
        assert standing is not None
        assert cursor.on_publisher_state(standing) == []
        await _commit(journal)
        await journal.send_transient(TextDelta(delta="word"))
        heard = await subscription.receive()
        with pytest.raises(Desynchronized):
            cursor.on_live_events(heard.events, [])

        (view,) = await store.load_commits("t", after=0)
        assert [event.event for event in cursor.on_commit(view)] == [StepStart(message_id="m")]


async def _commit(journal: Journal) -> None:
    run = RunRecord(
        run_id="r",
        thread_id="t",
        agent_id="a",
        status=RunStatus.RUNNING,
        created_at=1,
        updated_at=1,
        revision=1,
    )
    await journal.commit((), run, {}, {})
