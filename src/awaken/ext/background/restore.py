"""A thread's tasks when a run begins: which still run, which were lost, what was missed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from awaken.contract.background import PersistedTaskMeta, terminal_event
from awaken.errors import StateError
from awaken.ext.background.handles import Ended
from awaken.ext.background.life import ATTEMPTS, FIRST_PAUSE
from awaken.ext.background.records import brief, orphaned, retained
from awaken.ext.background.state import BACKGROUND_TASK_STATE, ReplaceTasks

if TYPE_CHECKING:
    from awaken.ext.background.manager import BackgroundTaskManager

Tasks = Mapping[str, PersistedTaskMeta]

log = logging.getLogger("awaken.background")


async def restore(manager: BackgroundTaskManager, thread_id: str, tasks: Tasks) -> None:
    """Repair all records of a thread, keep them in the manager's store, and tell what was missed.

    `tasks` are the thread's records as they were persisted.
    """
    handles = manager.handles
    known = await _ask_journal(manager, thread_id, tasks)
    for attempt in range(ATTEMPTS):
        try:
            _repair(manager, thread_id, tasks, known)
            break
        except StateError:
            handles.commit_failures["restore_task_metadata"] += 1
            log.exception("the tasks of thread %s could not be restored", thread_id)
            await handles.clock.sleep(FIRST_PAUSE * 4**attempt)
    tell_missed(manager, thread_id)
    for task in tasks.values():
        ended = handles.ended.get(task.uid)
        if task.is_terminal and ended is not None and ended.told:
            handles.ended.drop(task.uid)


async def catch_up(manager: BackgroundTaskManager, thread_id: str) -> None:
    """Learn how tasks ended that are said to run and do not run here, or that end just now.

    Their owner may have been told by others, but only what is on record says that it need not wait
    any more: told and not on record, it would wait for ever.
    """
    known = await _ask_journal(manager, thread_id, manager.tasks_of(thread_id))
    for task in known.values():
        if task.is_terminal:
            manager.keep(brief(task))
    for handle in manager.handles.of_thread(thread_id):
        if handle.ending:
            await handle.done.wait()


async def _ask_journal(manager: BackgroundTaskManager, thread_id: str, tasks: Tasks) -> Tasks:
    """What the journal knows, by `uid`, of tasks that are said to run and do not run here."""
    missing = [
        task
        for task in tasks.values()
        if not task.is_terminal
        and task.owner_thread_id in ("", thread_id)
        and manager.handles.adopt(task, manager) is None
    ]
    if manager.journal is None or not missing:
        return {}
    return await manager.journal.find(missing)


def _repair(manager: BackgroundTaskManager, thread_id: str, tasks: Tasks, known: Tasks) -> None:
    handles, before = manager.handles, manager.records()
    after = dict(before)
    for task_id, task in tasks.items():
        after[task_id] = _now(manager, thread_id, before.get(task_id, task), known)
    for handle in handles.of_thread(thread_id):
        after[handle.record.task_id] = handle.record
    for ended in handles.ended.values():
        if ended.record.owner_thread_id == thread_id and not ended.told:
            after[ended.record.task_id] = ended.kept
    after = retained(after, handles.limits.kept)
    if manager.store is not None and after != before:
        manager.store.update(BACKGROUND_TASK_STATE, ReplaceTasks(tasks=after))


def _now(
    manager: BackgroundTaskManager, thread_id: str, task: PersistedTaskMeta, known: Tasks
) -> PersistedTaskMeta:
    """A record as it is true now."""
    handles = manager.handles
    mine = task.owner_thread_id in ("", thread_id)
    if not task.uid or not mine:
        # A fork's copy of a task is not that task.
        task = msgspec.structs.replace(task, uid=handles.ids.new())
    if task.is_terminal:
        return msgspec.structs.replace(task, owner_thread_id=thread_id)
    if mine:
        ended, handle = handles.ended.get(task.uid), handles.live.get(task.uid)
        if handle is not None:
            return handle.record
        if ended is not None:
            return ended.kept
        if task.uid in known:
            return brief(known[task.uid])
    lost = orphaned(task, thread_id, handles.clock.now_ms())
    handles.ended.put(lost.uid, Ended(lost, lost.internal))
    return lost


def tell_missed(manager: BackgroundTaskManager, thread_id: str) -> None:
    """Tell the owner of tasks that ended while it could not be told."""
    handles = manager.handles
    for ended in handles.ended.values():
        record = ended.record
        if record.owner_thread_id != thread_id or ended.told or record.uid in handles.live:
            continue
        if manager.inbox is not None and manager.inbox.send(terminal_event(record)):
            handles.ended.put(record.uid, msgspec.structs.replace(ended, told=True))
