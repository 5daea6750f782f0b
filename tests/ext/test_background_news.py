"""What an owner knows of tasks that end elsewhere, or while it looks: told is not enough."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from background_kit import (
    Bench,
    MemoryJournal,
    background_store,
    call,
    call_context,
    giving,
    settle,
)

from awaken.codec import Json
from awaken.core.task import PersistedTaskMeta, TaskParentContext, TaskStatus
from awaken.ext.tasks import BackgroundTaskManager, TaskOptions
from awaken.ext.tasks.message_tools import SEND_MESSAGE_TOOL_ID, SendMessageTool

pytestmark = pytest.mark.anyio

THREAD = "thread-1"


class HeldJournal(MemoryJournal):
    """Tells the owner at once, and says only later that it has."""

    def __init__(self) -> None:
        super().__init__(takes_over=True)
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()

    async def end(self, task: PersistedTaskMeta, event: Json) -> bool:
        told = await super().end(task, event)
        self.reached.set()
        await self.go_on.wait()
        return told


async def test_whoever_looks_while_a_task_ends_sees_it_ended() -> None:
    """Its owner may have read the news already, and would wait for it ever after."""
    journal = HeldJournal()
    bench = Bench(journal=journal)
    await bench.spawn(giving("done"))
    async with asyncio.timeout(100):
        await journal.reached.wait()
        looking = asyncio.ensure_future(bench.manager.records.catch_up(THREAD))
        await settle()
        assert not looking.done()
        journal.go_on.set()
        await looking
    assert bench.record("bg_0").status is TaskStatus.COMPLETED


async def test_a_task_that_ended_in_another_process_is_on_record_as_ended() -> None:
    journal = MemoryJournal(takes_over=True)
    elsewhere, here = Bench(journal=journal), Bench(journal=journal)
    await elsewhere.spawn(giving("done"), options=TaskOptions(uid="u1"))
    here.manager.records.save(msgspec.structs.replace(elsewhere.record("bg_0"), uid="u1"))
    await elsewhere.ended("bg_0")
    assert here.status("bg_0") == "running"
    await here.manager.records.catch_up(THREAD)
    assert here.record("bg_0").status is TaskStatus.COMPLETED


async def test_a_task_that_is_taken_up_ends_in_the_journal_of_who_took_it_up() -> None:
    """The run at home in its thread may know that journal only where it runs."""
    journal, bench = MemoryJournal(takes_over=True), Bench()
    home = BackgroundTaskManager(bench.handles)
    home.set_store(background_store())
    home.attach(THREAD, "run-1")
    task = PersistedTaskMeta(
        task_id="bg_0",
        owner_thread_id=THREAD,
        task_type="tool",
        description="look",
        status=TaskStatus.RUNNING,
        created_at_ms=1,
        uid="u1",
    )
    bench.manager.set_journal(journal)
    bench.manager.resume_task(task, giving("done"))
    await bench.ended("bg_0")
    assert [status for status, _ in journal.ends] == ["completed"]


async def test_a_run_that_was_cut_short_gives_no_id_twice() -> None:
    """Its state has not heard of the task it had begun."""
    journal = MemoryJournal(takes_over=True)
    parent = TaskParentContext(run_id="run-1")
    before, after = Bench(journal=journal), Bench(journal=journal)
    assert await before.spawn(giving(), parent=parent) == "bg_0"
    await before.ended("bg_0")
    ids = await asyncio.gather(*(after.spawn(giving(), parent=parent) for _ in range(2)))
    assert sorted(ids) == ["bg_1", "bg_2"]
    await after.ended(*ids)


async def test_a_message_that_is_sent_again_is_the_same_message() -> None:
    """A call that was cut short runs again, and may have sent its message already."""
    tool = SendMessageTool(Bench().manager)
    args = {"to": {"relation": "parent"}, "message": "A word."}
    ctx = call_context(tool=SEND_MESSAGE_TOOL_ID, parent_thread_id="t0", key="m1:0")
    first, again = await call(tool, args, ctx), await call(tool, args, ctx)
    other = await call(tool, args, msgspec.structs.replace(ctx, idempotency_key="m1:1"))
    assert first.data == again.data
    assert first.data["message_id"] != other.data["message_id"]
