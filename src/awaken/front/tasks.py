"""What goes on in the background, as a user sees it: tasks, and runs that nobody holds on to."""

from __future__ import annotations

from typing import Self

import msgspec

from awaken.codec import Json
from awaken.contract.background import TaskStatus
from awaken.contract.store import Store
from awaken.contract.threads import RunQuery, TicketQuery
from awaken.domain.lifecycle import RunStatus
from awaken.domain.run import RunRecord, WaitingReason
from awaken.domain.ticket import TicketStatus
from awaken.domain.value import Value
from awaken.errors import NotFound
from awaken.ext.background import TaskProgress, find_live_task
from awaken.runtime import AgentRuntime, steer
from awaken.runtime.task_records import KeptTask, is_task


class BackgroundTask(Value, frozen=True, kw_only=True):
    """A background task as it stands.

    `id` is what `Runtime.cancel` takes; `task_id` is what agents call it by in `thread_id`, the
    thread that is told how it ends. Only the process that runs a task knows whether it is `queued`,
    and its `progress`.
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
        task, live = KeptTask.of(record).task, find_live_task(record.run_id)
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
) -> list[BackgroundTask]:
    """The last tasks of a thread and of all it has started, or of the whole store, newest first."""
    found = await (_of_all(store, status, limit) if thread is None else _of(store, thread))
    tasks = [BackgroundTask.of(record) for record in found]
    tasks = [task for task in tasks if status in (None, task.status)]
    return sorted(tasks, key=_age, reverse=True)[:limit]


def _age(task: BackgroundTask) -> tuple[int, str]:
    return task.created_at_ms, task.id


async def _of(store: Store, thread: str) -> list[RunRecord]:
    found: list[RunRecord] = []
    for beneath in await steer.descendants(store, thread):
        # A task's thread has its run alone.
        page = await store.list_runs(RunQuery(thread_id=beneath.id, limit=1))
        found.extend(run for run in page if is_task(run))
    return found


async def _of_all(store: Store, status: TaskStatus | None, limit: int) -> list[RunRecord]:
    found: list[RunRecord] = []
    running = None if status is None else _run_status(status)
    query = RunQuery(status=running)
    while True:
        page = await store.list_runs(query)
        for run in page:
            if is_task(run) and status in (None, KeptTask.of(run).task.status):
                found.append(run)
        if page.cursor is None or len(found) >= limit:
            return found
        query = msgspec.structs.replace(query, cursor=page.cursor)


def _run_status(status: TaskStatus) -> RunStatus:
    return RunStatus.DONE if status.is_terminal else RunStatus.RUNNING


# -- runs -------------------------------------------------------------------------------------


async def over_or_asking(engine: AgentRuntime, id: str) -> RunRecord:
    """The run of a run or thread id, once it is over or waits for somebody's answer, whoever
    carries it on.

    Raises:
        NotFound: there is none, or it was deleted.
    """
    place = await steer.find(engine, id)
    if place is None or place.run is None:
        raise NotFound("run", id)
    run_id, seen = place.run.run_id, 0
    while True:
        run = await engine.store.load_run(run_id)
        if run is None:
            raise NotFound("run", run_id)
        if run.status is RunStatus.DONE:
            live = engine.active.find_by_run(run_id)
            if live is not None:
                await live.wait_ended(None)
            return run
        if run.status is RunStatus.WAITING and await _asks(engine.store, run):
            return run
        seen = await engine.store.changed(run.thread_id, seen)


async def _asks(store: Store, run: RunRecord) -> bool:
    """Whether a run waits for somebody outside, who has not answered yet."""
    waiting = run.waiting
    if waiting is None or waiting.reason is WaitingReason.BACKGROUND_TASKS:
        return False
    if not waiting.tickets:
        return not await store.load_commands(run.thread_id)
    query = TicketQuery(run_id=run.run_id, status=TicketStatus.OPEN, limit=1)
    return bool(len(await store.list_tickets(query)))
