"""The records of background tasks: finding a task's record, and writing its start and its end.

Up to four places have a record of a task. The first of these that has one is used: the handle of a
task that runs in this process; `handles.ended`, for a while after a task ended here; the journal,
if there is one, which outlives the process; and the state of the owner's thread, which the model
and the next run read. No other module records the start and the end of a task.

The owner of a task is a run: the one that started the task, or a later run of its thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from awaken.codec import Json, clean_text, to_json
from awaken.core.aio.owned_tasks import start_task
from awaken.core.task import (
    PersistedTaskMeta,
    TaskStatus,
    cut_short,
    terminal_event,
)
from awaken.errors import StateError
from awaken.ext.tasks.handles import EndedTask
from awaken.ext.tasks.record_rules import build_orphan_record, retain_latest, shorten_record
from awaken.ext.tasks.state import BACKGROUND_TASK_STATE, ReplaceTasks, UpsertTask
from awaken.ext.tasks.task import TaskHandle, TaskResult, describe

if TYPE_CHECKING:
    from awaken.ext.tasks.manager import BackgroundTaskManager

ATTEMPTS = 5
FIRST_PAUSE = 0.1
SUB_AGENT = "sub_agent"
TORN_DOWN = "task torn down: its event loop ended while it ran"
GOES_ON = "its work cannot be stopped and may go on"

Tasks = Mapping[str, PersistedTaskMeta]

log = logging.getLogger("awaken.background")
_replace = msgspec.structs.replace


class TaskRecords:
    """The tasks of the threads that a manager is responsible for, read from all these places."""

    def __init__(self, manager: BackgroundTaskManager) -> None:
        self._manager = manager
        self._handles = manager.handles

    # -- reading ------------------------------------------------------------------------------

    def state_records(self) -> Tasks:
        """The tasks in the state of the manager's own store, by id."""
        store = self._manager.store
        state = store.read(BACKGROUND_TASK_STATE) if store is not None else None
        return state.tasks if state is not None else {}

    def tasks_of(self, thread_id: str) -> dict[str, PersistedTaskMeta]:
        """All known tasks of a thread, by id."""
        tasks = {
            task_id: task
            for task_id, task in self._manager.manager_of(thread_id).records.state_records().items()
            if task.owner_thread_id == thread_id
        }
        for handle in self._handles.of_thread(thread_id):
            tasks[handle.record.task_id] = handle.record
        return tasks

    def current(self, task: PersistedTaskMeta) -> PersistedTaskMeta:
        """The latest record of a task that this process has."""
        handle, ended = self._handles.find(task), self._handles.ended.get(task.uid)
        if handle is not None:
            return handle.record
        return ended.record if ended is not None else task

    async def load_latest(self, tasks: Sequence[PersistedTaskMeta]) -> Sequence[PersistedTaskMeta]:
        """The latest records of tasks; results that only the journal has are read from there."""
        now = [self.current(task) for task in tasks]
        partly = [t.uid for t in now if t.is_terminal and t.uid not in self._handles.ended]
        journal = self._manager.journal if partly else None
        if journal is None:
            return now
        known = await journal.find(partly)
        return [known.get(task.uid, task) for task in now]

    async def find_by_uid(self, uid: str, thread_id: str) -> PersistedTaskMeta | None:
        """The task of a thread with that `uid`, from this process or the journal.

        The record is added to the thread's state, so that the thread's run waits for the task.
        """
        manager = self._manager.manager_of(thread_id)
        for task in self.tasks_of(thread_id).values():
            if task.uid == uid:
                if task.task_id not in manager.records.state_records():
                    manager.records.save(shorten_record(task))
                return task
        ended = self._handles.ended.get(uid)
        if ended is not None:
            return ended.record
        if manager.journal is None:
            return None
        found = (await manager.journal.find([uid])).get(uid)
        if found is not None:
            manager.records.save(shorten_record(found))
        return found

    # -- writing ------------------------------------------------------------------------------

    def save(self, task: PersistedTaskMeta) -> None:
        """Write a task into the state; the oldest ended tasks are removed to make room.

        Raises:
            StateError: the store refused.
        """
        store = self._manager.store
        if store is None:
            return
        tasks, most = self.state_records(), self._handles.limits.kept
        if task.is_terminal and len(tasks) >= most:
            tasks = {**tasks, task.task_id: task}
            kept = retain_latest(tasks, most)
            if len(kept) < len(tasks):
                store.update(BACKGROUND_TASK_STATE, ReplaceTasks(tasks=kept))
                return
        store.update(BACKGROUND_TASK_STATE, UpsertTask(task=task))

    # -- when a run begins, and at the end of its steps ---------------------------------------

    async def restore(self, thread_id: str, tasks: Tasks) -> None:
        """Bring the records of a thread up to date, and report tasks that ended while their owner
        could not receive the report.

        Running tasks are not changed. A task that is recorded as running but runs in no process has
        failed.

        Args:
            thread_id: the thread in which a run begins.
            tasks: the thread's records as they were persisted.
        """
        handles = self._handles
        known = await self._find_in_journal(thread_id, tasks)
        for attempt in range(ATTEMPTS):
            try:
                self._repair(thread_id, tasks, known)
                break
            except StateError:
                handles.commit_failures["restore_task_metadata"] += 1
                log.exception("the tasks of thread %s could not be restored", thread_id)
                await handles.clock.sleep(FIRST_PAUSE * 4**attempt)
        self.report_missed(thread_id)
        for task in tasks.values():
            ended = handles.ended.get(task.uid)
            if task.is_terminal and ended is not None and ended.is_reported:
                handles.ended.drop(task.uid)

    async def catch_up(self, thread_id: str) -> None:
        """Record the ends of tasks that are recorded as running and have ended elsewhere, and wait
        for those that are ending here.

        The owner may have received the report of the end already, but it waits for a task until the
        state records the end.
        """
        known = await self._find_in_journal(thread_id, self.tasks_of(thread_id))
        for task in known.values():
            if task.is_terminal:
                self.save(shorten_record(task))
        for handle in self._handles.of_thread(thread_id):
            if handle.ending:
                await handle.done.wait()

    def report_missed(self, thread_id: str) -> None:
        """Report to the owner the tasks that ended while it could not receive the report."""
        handles, inbox = self._handles, self._manager.inbox
        for ended in handles.ended.values():
            record = ended.record
            if (
                record.owner_thread_id != thread_id
                or ended.is_reported
                or record.uid in handles.live
            ):
                continue
            if inbox is not None and inbox.send(terminal_event(record)):
                handles.ended.put(record.uid, _replace(ended, is_reported=True))

    async def _find_in_journal(self, thread_id: str, tasks: Tasks) -> Tasks:
        """The journal's records, by `uid`, of tasks that are recorded as running and do not run
        here."""
        missing = [
            task.uid
            for task in tasks.values()
            if task.uid
            and not task.is_terminal
            and task.owner_thread_id in ("", thread_id)
            and self._handles.adopt(task, self._manager) is None
        ]
        journal = self._manager.journal if missing else None
        return {} if journal is None else await journal.find(missing)

    def _repair(self, thread_id: str, tasks: Tasks, known: Tasks) -> None:
        handles, before = self._handles, self.state_records()
        after = dict(before)
        for task_id, task in tasks.items():
            after[task_id] = self._reconcile(thread_id, before.get(task_id, task), known)
        for handle in handles.of_thread(thread_id):
            after[handle.record.task_id] = handle.record
        for ended in handles.ended.values():
            if ended.record.owner_thread_id == thread_id and not ended.is_reported:
                after[ended.record.task_id] = ended.state_record
        after = retain_latest(after, handles.limits.kept)
        store = self._manager.store
        if store is not None and after != before:
            store.update(BACKGROUND_TASK_STATE, ReplaceTasks(tasks=after))

    def _reconcile(
        self, thread_id: str, task: PersistedTaskMeta, known: Tasks
    ) -> PersistedTaskMeta:
        """A persisted record, brought up to date; `known` is what the journal has, by `uid`."""
        handles = self._handles
        mine = task.owner_thread_id in ("", thread_id)
        if not task.uid or not mine:
            # A fork's copy of a task is a task of its own.
            task = _replace(task, uid=handles.ids.new())
        if task.is_terminal:
            return _replace(task, owner_thread_id=thread_id)
        if mine:
            ended, handle = handles.ended.get(task.uid), handles.live.get(task.uid)
            if handle is not None:
                return handle.record
            if ended is not None:
                return ended.state_record
            if task.uid in known:
                return shorten_record(known[task.uid])
        lost = build_orphan_record(task, thread_id, handles.clock.now_ms())
        handles.ended.put(lost.uid, EndedTask(lost, lost.internal))
        return lost


# -- one task, from its first record to its last ------------------------------------------------


async def record_start(handle: TaskHandle, resume: Json | None) -> None:
    """Record a task that is about to start, in its journal and in its owner's state. If this
    raises, neither has the record."""
    begun: asyncio.Future[None] | None = None
    try:
        if handle.journal is not None:
            begun = start_task(handle.journal.begin(handle.record, resume))
            await asyncio.shield(begun)
            handle.begun = True
        handle.owner_manager.records.save(handle.record)
    except BaseException:
        if begun is None or _has_failed(begun):
            handle.handles.drop(handle)
        else:
            failed = f"task {handle.record.task_id} did not start, but stays in the journal"
            handle.handles.own(_withdraw(handle, begun), failed)
        raise


async def _withdraw(handle: TaskHandle, begun: asyncio.Future[None]) -> None:
    """End in the journal a task that will not start."""
    await asyncio.wait((begun,))
    if not _has_failed(begun):
        handle.begun = True
        record = build_end_record(
            handle.record, TaskResult.cancelled(), handle.handles.clock.now_ms()
        )
        # Internal, so that a task that never ran is not reported to its owner.
        await _end_in_journal(handle, _replace(record, internal=True), None)
    handle.handles.drop(handle)


def _has_failed(begun: asyncio.Future[None]) -> bool:
    return begun.done() and (begun.cancelled() or begun.exception() is not None)


def build_end_record(task: PersistedTaskMeta, result: TaskResult, now_ms: int) -> PersistedTaskMeta:
    """The record of a task that ended with that result."""
    status, value, error = result.status, None, result.error
    if status is TaskStatus.COMPLETED:
        try:
            value = to_json(result.value)
        except Exception as failure:
            status, error = TaskStatus.FAILED, f"the result is not JSON: {describe(failure)}"
    elif status is TaskStatus.RUNNING:
        status, error = TaskStatus.FAILED, "the body returned a result with the status running"
    ended = _replace(
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


async def record_end(handle: TaskHandle, record: PersistedTaskMeta) -> None:
    """Record how a task ended, in its journal and in its owner's state, and report it to the owner
    once."""
    event = None if record.internal else terminal_event(record)
    handle.ending = True
    kept = await _end_in_journal(handle, record, event)
    handle.record = record
    handles, is_reported = handle.handles, bool(kept)
    ended = EndedTask(record, is_reported or record.internal, journaled=kept is not None)
    handles.ended.put(record.uid, ended)
    await _save_end(handle, ended)
    # No await from here on: a reader that finds the end of the task also finds the event about it.
    if event is not None and not is_reported:
        is_reported = handles.report(handle, event)
        handles.ended.put(record.uid, _replace(ended, is_reported=is_reported))
    handles.drop(handle)


async def _end_in_journal(
    handle: TaskHandle, record: PersistedTaskMeta, event: Json | None
) -> bool | None:
    """Record an end in the task's journal. Returns whether the journal reports it to the owner, or
    `None` if there is no journal or it did not take the record."""
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


async def _save_end(handle: TaskHandle, ended: EndedTask) -> None:
    """Write the end of a task into its owner's state, in several attempts if need be."""
    for attempt in range(ATTEMPTS):
        if _try_save_end(handle, ended):
            return
        await handle.handles.clock.sleep(FIRST_PAUSE * 4**attempt)
    log.error("the end of task %s could not be recorded; giving up", handle.record.task_id)


def _try_save_end(handle: TaskHandle, ended: EndedTask) -> bool:
    try:
        handle.owner_manager.records.save(ended.state_record)
    except StateError:
        is_agent = handle.record.task_type == SUB_AGENT
        operation = "sub_agent_completion" if is_agent else "task_completion"
        handle.handles.commit_failures[operation] += 1
        log.exception("the end of task %s could not be committed", handle.record.task_id)
        return False
    return True


def record_stop(handle: TaskHandle) -> None:
    """Record the end of a task whose runner was stopped from outside, unless it has ended. A task
    in a journal is left as it is, for the process that resumes it."""
    handles = handle.handles
    if handle.done.is_set():
        return
    if not handle.begun:
        record = handle.record
        if not record.is_terminal:
            torn = TaskResult.failed(TORN_DOWN, cut_short=True)
            record = build_end_record(record, torn, handles.clock.now_ms())
        handle.record = record
        _try_save_end(handle, EndedTask(record, is_reported=False))
        is_reported = record.internal or handles.report(handle, terminal_event(record))
        handles.ended.put(record.uid, EndedTask(record, is_reported))
    handles.drop(handle)
