"""Who learns from the store that a task has ended, has been told so."""

from __future__ import annotations

import msgspec
import pytest

from awaken import Agent, Runtime
from awaken.core.inbox import inbox_channel
from awaken.core.task import PersistedTaskMeta, TaskStatus, terminal_event
from awaken.testing import FunctionModel

pytestmark = pytest.mark.anyio

TASK = PersistedTaskMeta(
    task_id="bg_0",
    owner_thread_id="t1",
    task_type="tool",
    description="look",
    status=TaskStatus.RUNNING,
    created_at_ms=1,
    uid="u1",
)


async def test_a_run_that_asks_how_a_task_ended_has_the_news_in_its_inbox() -> None:
    """Else it would see that there is nothing to wait for, end, and leave the news unread."""
    agent = Agent("a", model=FunctionModel(lambda _: "Well?"))
    async with Runtime([agent], recover=False) as runtime:
        await runtime.run("a", "Go!", thread="t1")
        engine = runtime.engine
        await engine.tasks.get_journal().begin(TASK, None)
        ended = msgspec.structs.replace(TASK, status=TaskStatus.COMPLETED, result="done")
        assert await engine.tasks.get_journal().end(ended, terminal_event(ended))
        slot = engine.active.reserve("t1")
        slot.inbox, inbox = inbox_channel()
        slot.begin(await runtime.store.claim("t1", at_ms=0), ())

        known = await engine.tasks.get_journal().find([TASK.uid])

        (news,) = inbox.drain()
        slot.release()
    assert known["u1"].status is TaskStatus.COMPLETED
    assert [message["id"] for message in news["messages"]] == ["u1:end"]
