"""Running a background task: it waits for a slot, runs its body within its deadline, and ends.

A body that does not stop when it is cancelled, or at its deadline, is given up after a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from awaken.clock import Clock
from awaken.core.aio.cancel import is_cancellation, wait_first
from awaken.core.aio.owned_tasks import start_logged, start_task
from awaken.core.task import CURRENT_TASK, TaskStatus
from awaken.core.thread_ids import without_scope
from awaken.core.tool_context import CURRENT_CALL
from awaken.errors import Cancelled, RunLeft
from awaken.ext.tasks import records
from awaken.ext.tasks.admission import TaskOptions
from awaken.ext.tasks.task import (
    BackgroundTaskExecutionContext,
    TaskHandle,
    TaskResult,
    describe,
)

log = logging.getLogger("awaken.background")
Work = Callable[[], Awaitable[TaskResult]]


async def launch(handle: TaskHandle, work: Work, options: TaskOptions) -> str:
    """Record that a task runs, and start it. Returns its id. If this raises, the task does not
    start."""
    await records.record_start(handle, options.resume)
    start(handle, work, options.deadline)
    return handle.record.task_id


def start(handle: TaskHandle, work: Work, deadline: float | None) -> None:
    """Start a recorded task. If its run was cancelled meanwhile, the task is cancelled at once."""
    run_id = (handle.record.parent_context.run_id or "").strip()
    if run_id in handle.handles.cancelled_runs:
        handle.token.cancel()
    failed = f"task {handle.record.task_id} broke off"
    handle.runner = handle.handles.own(run_task(handle, work, deadline), failed)
    handle.runner.add_done_callback(lambda _: records.record_stop(handle))


async def run_task(handle: TaskHandle, work: Work, deadline: float | None) -> None:
    """Wait for a slot, run a task and record its end. The caller must call `records.record_stop`
    afterwards, since this may be cancelled anywhere."""
    try:
        result = await _run_in_slot(handle, work, deadline)
    except RunLeft:
        return
    ended = records.build_end_record(handle.record, result, handle.handles.clock.now_ms())
    await records.record_end(handle, ended)


async def _run_in_slot(handle: TaskHandle, work: Work, deadline: float | None) -> TaskResult:
    handles = handle.handles
    slots, thread_id, depth = handles.slots, handle.thread_id, handle.depth
    if not slots.take(thread_id, depth):
        handle.queued = True
        admitted = await slots.enter(thread_id, depth, handle.token)
        handle.queued = False
        if not admitted:
            return TaskResult.cancelled()
    try:
        if handle.token.is_cancelled():
            return TaskResult.cancelled()
        limits = handles.limits
        return await supervise(
            handle,
            work,
            deadline=limits.deadline if deadline is None else deadline,
            grace=limits.grace,
            clock=handles.clock,
        )
    finally:
        slots.leave(thread_id, depth)


async def supervise(
    handle: TaskHandle, work: Work, *, deadline: float | None, grace: float, clock: Clock
) -> TaskResult:
    """Run the body and return how it ended.

    A body whose token was cancelled, or that has passed its deadline, has `grace` seconds to
    return. Then its asyncio task is cancelled, and after another `grace` seconds it is given up.

    Raises:
        RunLeft: a run in the body is left to another process.
        CancelledError: the caller was cancelled.
    """
    passed_deadline = _PassedDeadline()
    body = start_task(_run_body(handle, work))
    body.add_done_callback(_retrieve_exception)
    watch = start_logged(
        _watch(handle, passed_deadline, deadline, grace, clock),
        f"the deadline of task {handle.record.task_id} cannot be watched; the task is stopped",
        log,
    )
    try:
        await asyncio.wait((body, watch), return_when=asyncio.FIRST_COMPLETED)
        if not body.done():
            log.warning("task %s ignored its token and is cancelled", handle.record.task_id)
            body.cancel()
            await wait_first(_wait_done(body), clock.sleep(grace))
    finally:
        watch.cancel()
        body.cancel()
    if not body.done():
        log.error("task %s cannot be stopped; giving up on it", handle.record.task_id)
        handle.record = msgspec.structs.replace(handle.record, stoppable=False)
    result = _outcome(body)
    if result.status is not TaskStatus.CANCELLED:
        return result
    if passed_deadline.seconds is not None:
        passed = f"the deadline of {passed_deadline.seconds:g} seconds has passed"
        if result.error is not None:
            passed = f"{passed}; {result.error}"
        return TaskResult.failed(passed, cut_short=True)
    return msgspec.structs.replace(result, cut_short=True)


class _PassedDeadline:
    """Holds the deadline in seconds once it has passed."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds: float | None = None


async def _run_body(handle: TaskHandle, work: Work) -> TaskResult:
    # An asyncio task inherits the context of its creator; this one belongs to no call.
    CURRENT_CALL.set(None)
    CURRENT_TASK.set(BackgroundTaskExecutionContext(handle))
    try:
        result = await work()
    except RunLeft:
        raise
    except Cancelled:
        if handle.token.is_cancelled():
            return TaskResult.cancelled()
        return TaskResult.failed("Cancelled: by something the task waited for")
    except BaseException as error:
        if is_cancellation(error):
            raise
        log.warning("task %s failed", handle.record.task_id, exc_info=True)
        return TaskResult.failed(without_scope(describe(error), handle.record.owner_thread_id))
    if not isinstance(result, TaskResult):
        kind = type(result).__name__
        return TaskResult.failed(f"the body returned a {kind} instead of a TaskResult")
    status: object = result.status
    error_text: object = result.error
    if not isinstance(status, TaskStatus) or not isinstance(error_text, str | None):
        return TaskResult.failed(
            f"the body's TaskResult has the status {status!r} and the error {error_text!r}: give "
            "it a TaskStatus, and a text or None"
        )
    return result


async def _watch(
    handle: TaskHandle,
    passed_deadline: _PassedDeadline,
    deadline: float | None,
    grace: float,
    clock: Clock,
) -> None:
    """Returns when the body's time to stop is over."""
    if deadline is None:
        await handle.token.cancelled()
    else:
        await wait_first(handle.token.cancelled(), clock.sleep(deadline))
        if not handle.token.is_cancelled():
            passed_deadline.seconds = deadline
            handle.token.cancel()
    await clock.sleep(grace)


async def _wait_done(body: asyncio.Future[TaskResult]) -> None:
    await asyncio.wait((body,))


def _outcome(body: asyncio.Future[TaskResult]) -> TaskResult:
    if not body.done() or body.cancelled():
        return TaskResult.cancelled()
    return body.result()


def _retrieve_exception(body: asyncio.Future[TaskResult]) -> None:
    """Retrieve the exception of a body, so that asyncio does not report it as never retrieved."""
    if not body.cancelled():
        body.exception()
