"""Listing background tasks from their records, with what this process knows of them."""

from __future__ import annotations

from typing import Self

import msgspec

from awaken.codec import Json
from awaken.core.lifecycle import RunStatus
from awaken.core.run import RunKind, RunRecord
from awaken.core.store.store import Store
from awaken.core.store.threads import Page, RunQuery
from awaken.core.task import StoredTask, TaskStatus
from awaken.core.unreadable import UnreadableRow
from awaken.core.value import Value
from awaken.ext.tasks.state import TaskProgress
from awaken.ext.tasks.task import find_live_task


class BackgroundTask(Value, frozen=True, kw_only=True):
    """The present state of a background task.

    `Runtime.cancel` takes `id`. `thread_id` is the thread that gets a message when the task ends;
    its agents know the task as `task_id`. Only the process that runs a task knows whether it is
    `queued`, and its `progress`.
    """

    id: str
    thread_id: str
    task_id: str
    name: str | None = None
    description: str
    status: TaskStatus
    result: Json = None
    error: str | None = None
    created_at_ms: int
    completed_at_ms: int | None = None
    queued: bool = False
    progress: TaskProgress | None = None

    @classmethod
    def of(cls, record: RunRecord) -> Self:
        task, live = StoredTask.of(record).task, find_live_task(record.run_id)
        return cls(
            id=record.run_id,
            thread_id=task.owner_thread_id,
            task_id=task.task_id,
            name=task.name,
            description=task.description,
            status=task.status,
            result=task.result,
            error=task.error,
            created_at_ms=task.created_at_ms,
            completed_at_ms=task.completed_at_ms,
            queued=live is not None and live.queued,
            progress=live.progress if live is not None else None,
        )


async def list_tasks(
    store: Store, thread: str | None, status: TaskStatus | None, limit: int
) -> Page[BackgroundTask]:
    """The latest tasks of a thread and the threads beneath it, or of the whole store, newest
    first."""
    tasks: list[BackgroundTask] = []
    unreadable: list[UnreadableRow] = []
    query = RunQuery(
        ancestor_thread_id=thread,
        kind=RunKind.TASK,
        status=None if status is None else _run_status(status),
        limit=max(limit, 1),
    )
    while True:
        page = await store.list_runs(query)
        found = [BackgroundTask.of(run) for run in page]
        tasks.extend(task for task in found if status in (None, task.status))
        unreadable += page.unreadable
        if page.cursor is None or len(tasks) >= limit:
            latest = sorted(tasks, key=_age, reverse=True)[:limit]
            return Page(items=tuple(latest), unreadable=tuple(unreadable))
        query = msgspec.structs.replace(query, cursor=page.cursor)


def _age(task: BackgroundTask) -> tuple[int, str]:
    return task.created_at_ms, task.id


def _run_status(status: TaskStatus) -> RunStatus:
    return RunStatus.DONE if status.is_terminal else RunStatus.RUNNING
