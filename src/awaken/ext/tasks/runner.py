"""A task's life: it waits for a slot, runs its body, and has its end recorded."""

from __future__ import annotations

from awaken.errors import RunLeft
from awaken.ext.tasks import book
from awaken.ext.tasks.admission import TaskOptions
from awaken.ext.tasks.supervise import Work, supervise
from awaken.ext.tasks.task import TaskHandle, TaskResult


async def launch(handle: TaskHandle, work: Work, options: TaskOptions) -> str:
    """Record that a task runs, and start it. Returns its id. If this raises, the task does not
    start."""
    await book.enter(handle, options.resume)
    start(handle, work, options.deadline)
    return handle.record.task_id


def start(handle: TaskHandle, work: Work, deadline: float | None) -> None:
    """Start a recorded task. If its run was cancelled meanwhile, the task is cancelled at once."""
    run_id = (handle.record.parent_context.run_id or "").strip()
    if run_id in handle.handles.cancelled_runs:
        handle.token.cancel()
    broken_off = f"task {handle.record.task_id} broke off"
    handle.runner = handle.handles.own(run_task(handle, work, deadline), broken_off)
    handle.runner.add_done_callback(lambda _: book.tear_down(handle))


async def run_task(handle: TaskHandle, work: Work, deadline: float | None) -> None:
    """Wait for a slot, run a task and record its end. The caller must call `book.tear_down`
    afterwards, since this may be cancelled anywhere."""
    try:
        result = await _take_turn(handle, work, deadline)
    except RunLeft:
        return
    ended = book.settled(handle.record, result, handle.handles.clock.now_ms())
    await book.close(handle, ended)


async def _take_turn(handle: TaskHandle, work: Work, deadline: float | None) -> TaskResult:
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
