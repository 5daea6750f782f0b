"""Tasks that were cut short: whether they took effect, and whether their work has ended."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from background_kit import Bench, call, call_context, settle

from awaken import tool
from awaken.core.task import PersistedTaskMeta, TaskStatus
from awaken.core.tool import ToolEffect, ToolError
from awaken.core.tool_context import Tool, ToolOutput
from awaken.ext.tasks import (
    BackgroundLimits,
    BackgroundTaskManager,
    TaskContext,
    TaskResult,
    background,
)
from awaken.ext.tasks.record_rules import ORPHANED
from awaken.tool.output import WORKER_DIED, cut_short_result

pytestmark = pytest.mark.anyio

UNKNOWN = (
    "it is unknown whether 'job' took effect. Do not assume either: find out, or say so, before it "
    "is started again"
)
GOES_ON = "its work cannot be stopped and may go on"


def job(**options: Any) -> Tool:
    @tool(name="job", **options)
    async def hang() -> str:
        await asyncio.Event().wait()
        return "never"

    return hang


async def start(bench: Bench, made: Tool, **options: Any) -> None:
    ctx = call_context(services={BackgroundTaskManager: bench.manager})
    await call(background(made, **options), {}, ctx)
    await settle()


async def cancelled(bench: Bench, made: Tool) -> PersistedTaskMeta:
    """The record of a task that was cancelled while it ran."""
    await start(bench, made)
    assert bench.cancel("bg_0")
    await bench.ended("bg_0")
    return bench.record("bg_0")


async def test_of_one_that_must_run_once_nobody_knows_what_it_did() -> None:
    """As of a call in the foreground: it was stopped, and may have taken effect."""
    bench = Bench()

    record = await cancelled(bench, job())

    assert (record.status, record.error) == (TaskStatus.CANCELLED, UNKNOWN)
    assert (record.outcome_unknown, record.stoppable) == (True, True)
    assert bench.events() == [
        {"kind": "cancelled", "task_id": "bg_0", "error": UNKNOWN, "outcome_unknown": True}
    ]
    summary = bench.get("bg_0")
    assert (summary.error, summary.outcome_unknown) == (UNKNOWN, True)


@pytest.mark.parametrize("effect", ["read", "idempotent"])
async def test_one_that_may_run_again_was_just_cancelled(effect: str) -> None:
    bench = Bench()

    record = await cancelled(bench, job(effect=effect))

    assert (record.error, record.outcome_unknown) == (None, False)
    assert bench.events() == [{"kind": "cancelled", "task_id": "bg_0"}]


async def test_what_runs_in_a_thread_is_not_stopped() -> None:
    """A function that is not async goes on, whoever has stopped waiting for it."""
    bench, go = Bench(), threading.Event()

    @tool(name="job", effect="idempotent")
    def block() -> str:
        go.wait(5)
        return "done after all"

    try:
        record = await cancelled(bench, block)
    finally:
        go.set()

    assert (record.outcome_unknown, record.stoppable) == (True, False)
    assert record.error == f"{GOES_ON}; {UNKNOWN}"


async def test_one_that_has_not_begun_did_nothing() -> None:
    """It waited for its turn."""
    bench = Bench(limits=BackgroundLimits(per_thread=1))
    await start(bench, job())
    await start(bench, job())

    assert bench.cancel("bg_1")
    await bench.ended("bg_1")

    assert (bench.record("bg_1").error, bench.record("bg_1").outcome_unknown) == (None, False)
    bench.cancel("bg_0")
    await bench.ended("bg_0")


async def test_one_that_comes_to_its_end_all_the_same_is_done() -> None:
    """What it did counts, though it was to stop."""
    bench = Bench()

    @tool(name="job")
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done after all"
        return "never"

    record = await cancelled(bench, stubborn)

    assert (record.status, record.result) == (TaskStatus.COMPLETED, "done after all")
    assert not record.outcome_unknown


async def test_a_deadline_cuts_short_as_a_cancel_does() -> None:
    """03/DB-3."""
    bench = Bench()

    await start(bench, job(), deadline=30)
    await bench.clock.until_sleeping()
    bench.clock.advance(30)
    await bench.ended("bg_0")

    record = bench.record("bg_0")
    assert record.error == f"the deadline of 30 seconds has passed; {UNKNOWN}"
    assert (record.status, record.outcome_unknown) == (TaskStatus.FAILED, True)


async def test_so_does_the_tools_own_timeout() -> None:
    bench = Bench()

    await start(bench, job(timeout=0.001))
    await bench.ended("bg_0")

    record = bench.record("bg_0")
    assert record.error == f"Timeout: no answer within 0.001 seconds; {UNKNOWN}"
    assert record.outcome_unknown


async def test_so_does_the_death_of_its_worker_process() -> None:
    bench = Bench()

    @tool(name="job")
    async def dying() -> ToolOutput:
        return cut_short_result("job", ToolError.execution_failed("the worker died"), WORKER_DIED)

    await start(bench, dying)
    await bench.ended("bg_0")

    record = bench.record("bg_0")
    assert record.error == f"Execution failed: the worker died; {UNKNOWN}"
    assert record.outcome_unknown


async def test_a_body_that_was_given_up_goes_on() -> None:
    """03/DB-3: what does not stop in its time is let go, and not called stopped."""
    bench, go = Bench(limits=BackgroundLimits(grace=5)), asyncio.Event()

    async def stubborn(_: TaskContext) -> TaskResult:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue
        return TaskResult.success()

    task_id = await bench.spawn(stubborn)
    await settle()
    bench.cancel(task_id)
    for _ in range(2):
        await bench.clock.until_sleeping()
        bench.clock.advance(5)
    await bench.ended(task_id)
    go.set()

    record = bench.record(task_id)
    assert (record.status, record.outcome_unknown) == (TaskStatus.CANCELLED, True)
    assert not record.stoppable
    assert (record.error or "").startswith(GOES_ON)


async def test_of_an_orphan_that_had_to_run_once_nobody_knows_either() -> None:
    """03 §1.4: `failed` as ever, and what can be said of its outcome."""
    bench = Bench()
    lost = PersistedTaskMeta(
        task_id="bg_0",
        task_type="tool",
        description="job",
        status=TaskStatus.RUNNING,
        created_at_ms=0,
        effect=ToolEffect.ONCE,
    )

    await bench.restore_for_thread("thread-1", {"bg_0": lost})

    (event,) = bench.events()
    assert event["error"] == f"{ORPHANED}; {UNKNOWN}"
    assert event["outcome_unknown"] is True
    assert bench.record("bg_0").outcome_unknown
