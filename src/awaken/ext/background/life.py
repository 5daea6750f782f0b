"""A task from its start to its end: run the body, keep how it ended, tell the owner."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from awaken.codec import Json, clean_text, to_json
from awaken.contract.background import (
    PersistedTaskMeta,
    TaskStatus,
    cut_short,
    terminal_event,
)
from awaken.control.tasks import start_task
from awaken.errors import RunLeft, StateError
from awaken.ext.background.admit import TaskOptions
from awaken.ext.background.handles import Ended
from awaken.ext.background.supervise import Work, describe, supervise
from awaken.ext.background.task import TaskHandle, TaskResult

ATTEMPTS = 5
FIRST_PAUSE = 0.1
SUB_AGENT = "sub_agent"
TORN_DOWN = "task torn down: its event loop ended while it ran"
GOES_ON = "its work cannot be stopped and may go on"

log = logging.getLogger("awaken.background")


async def launch(handle: TaskHandle, work: Work, options: TaskOptions) -> str:
    """Keep that a task runs, and start it; on any error nothing starts."""
    begun: asyncio.Future[None] | None = None
    try:
        if handle.journal is not None:
            begun = start_task(handle.journal.begin(handle.record, options.resume))
            await asyncio.shield(begun)
            handle.begun = True
        handle.home.keep(handle.record)
    except BaseException:
        if begun is None or _failed(begun):
            handle.handles.drop(handle)
        else:
            failed = f"task {handle.record.task_id} is not taken back"
            handle.handles.own(_abandon(handle, begun), failed)
        raise
    start(handle, work, options.deadline)
    return handle.record.task_id


async def _abandon(handle: TaskHandle, begun: asyncio.Future[None]) -> None:
    """Take back what a journal was told of a task that will not start after all."""
    await asyncio.wait((begun,))
    if not _failed(begun):
        handle.begun = True
        record = settled(handle.record, TaskResult.cancelled(), handle.handles.clock.now_ms())
        # It never was: there is nothing to tell anybody.
        await end_in_journal(handle, msgspec.structs.replace(record, internal=True), None)
    handle.handles.drop(handle)


def _failed(begun: asyncio.Future[None]) -> bool:
    return begun.done() and (begun.cancelled() or begun.exception() is not None)


def start(handle: TaskHandle, work: Work, deadline: float | None) -> None:
    """Let a task's life begin; one whose run was cancelled meanwhile is told to stop at once."""
    run_id = (handle.record.parent_context.run_id or "").strip()
    if run_id in handle.handles.cancelled_runs:
        handle.token.cancel()
    broken_off = f"task {handle.record.task_id} broke off"
    handle.runner = handle.handles.own(run_task(handle, work, deadline), broken_off)
    handle.runner.add_done_callback(lambda _: tear_down(handle))


async def run_task(handle: TaskHandle, work: Work, deadline: float | None) -> None:
    """Be a task's whole life; if it is cut short, `tear_down` has to follow."""
    try:
        result = await _take_turn(handle, work, deadline)
    except RunLeft:
        return
    await finish(handle, settled(handle.record, result, handle.handles.clock.now_ms()))


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


def settled(task: PersistedTaskMeta, result: TaskResult, now_ms: int) -> PersistedTaskMeta:
    """A task as its result leaves it."""
    status, value, error = result.status, None, result.error
    if status is TaskStatus.COMPLETED:
        try:
            value = to_json(result.value)
        except Exception as failure:
            status, error = TaskStatus.FAILED, f"the result is not JSON: {describe(failure)}"
    elif status is TaskStatus.RUNNING:
        status, error = TaskStatus.FAILED, "the body's result says that it still runs"
    ended = msgspec.structs.replace(
        task,
        status=status,
        result=value,
        error=None if error is None else clean_text(error),
        completed_at_ms=now_ms,
    )
    if not result.cut_short:
        return ended
    why = [ended.error] if ended.error is not None else []
    return cut_short(ended, "; ".join(why if task.stoppable else [*why, GOES_ON]) or None)


async def finish(handle: TaskHandle, record: PersistedTaskMeta) -> None:
    """Keep how a task ended, in its journal and in its owner's state, and tell the owner."""
    event = None if record.internal else terminal_event(record)
    handle.ending = True
    kept = await end_in_journal(handle, record, event)
    handle.record = record
    handles, told = handle.handles, bool(kept)
    ended = Ended(record, told or record.internal, journaled=kept is not None)
    handles.ended.put(record.uid, ended)
    await keep(handle, ended)
    # From here on nothing waits: who reads that the task has ended finds its event as well.
    if event is not None and not told:
        told = handles.tell(handle, event)
        handles.ended.put(record.uid, msgspec.structs.replace(ended, told=told))
    handles.drop(handle)


async def end_in_journal(
    handle: TaskHandle, record: PersistedTaskMeta, event: Json | None
) -> bool | None:
    """Keep an end in the task's journal; whether the owner will be told by it, or nothing if there
    is none that has kept it."""
    journal = handle.journal
    if journal is None or not handle.begun:
        return None
    for attempt in range(ATTEMPTS):
        try:
            return await journal.end(record, event)
        except Exception:
            log.exception("the end of task %s could not be journaled", record.task_id)
            await handle.handles.clock.sleep(FIRST_PAUSE * 4**attempt)
    return None


async def keep(handle: TaskHandle, ended: Ended) -> None:
    """Write a task's end into its owner's state, if need be several times."""
    for attempt in range(ATTEMPTS):
        if _kept(handle, ended):
            return
        await handle.handles.clock.sleep(FIRST_PAUSE * 4**attempt)
    log.error("the record of task %s was given up", handle.record.task_id)


def _kept(handle: TaskHandle, ended: Ended) -> bool:
    try:
        handle.home.keep(ended.kept)
    except StateError:
        is_agent = handle.record.task_type == SUB_AGENT
        operation = "sub_agent_completion" if is_agent else "task_completion"
        handle.handles.commit_failures[operation] += 1
        log.exception("the end of task %s could not be committed", handle.record.task_id)
        return False
    return True


def tear_down(handle: TaskHandle) -> None:
    """Close a task that was cut short from outside; one in a journal is left to who takes it up."""
    handles = handle.handles
    if handle.done.is_set():
        return
    if not handle.begun:
        record = handle.record
        if not record.is_terminal:
            torn = TaskResult.failed(TORN_DOWN, cut_short=True)
            record = settled(record, torn, handles.clock.now_ms())
        handle.record = record
        _kept(handle, Ended(record, told=False))
        told = record.internal or handles.tell(handle, terminal_event(record))
        handles.ended.put(record.uid, Ended(record, told))
    handles.drop(handle)
