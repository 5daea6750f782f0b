"""Waiting for a task without a hold on it."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from awaken.core.aio.owned_tasks import start_task, wait_task

pytestmark = pytest.mark.anyio


async def test_the_task_has_its_result_when_the_wait_is_over() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    task = start_task(work())
    await wait_task(task)
    assert task.result() == 7


async def test_a_task_that_failed_or_was_cancelled_has_ended_too() -> None:
    async def fail() -> None:
        raise ValueError("no")

    failing, waiting = start_task(fail()), start_task(asyncio.Event().wait())
    waiting.cancel()
    await wait_task(failing)
    await wait_task(waiting)
    with pytest.raises(ValueError, match="no"):
        failing.result()
    assert waiting.cancelled()


async def test_cancelling_the_caller_does_not_cancel_the_task(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nor does asyncio report an error that the caller, which has left, cannot ask for."""
    may_end = asyncio.Event()

    async def work() -> None:
        await may_end.wait()
        raise ValueError("late")

    async def wait_for(task: asyncio.Task[None]) -> None:
        await wait_task(task)

    task = start_task(work())
    calling = start_task(wait_for(task))
    await asyncio.sleep(0)
    calling.cancel()
    await asyncio.wait([calling])
    assert calling.cancelled()
    assert not task.done()
    may_end.set()
    await asyncio.wait([task])
    del task, calling
    with caplog.at_level(logging.ERROR, "asyncio"):
        gc.collect()
    assert not caplog.records
