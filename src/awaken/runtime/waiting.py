"""Listing background tasks, and waiting for runs that other tasks or processes carry out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import msgspec

from awaken.codec import Json
from awaken.core.lifecycle import RunStatus
from awaken.core.run import RunKind, RunRecord, WaitingReason
from awaken.core.store.store import Store
from awaken.core.store.threads import Page, RunQuery, TicketQuery
from awaken.core.suspension import TicketStatus
from awaken.core.task import StoredTask, TaskStatus
from awaken.core.unreadable import UnreadableRow
from awaken.core.value import Value
from awaken.errors import NotFound, RunAbandoned
from awaken.ext import tasks as background
from awaken.ext.tasks.state import TaskProgress
from awaken.worker import AgentRuntime, operations
from awaken.worker.delegates import parent_of
from awaken.worker.messages import root_of

PATIENCE = 5.0
"""Seconds without a change after which a waiting caller checks that the run still has an owner."""
GLANCE = 0.2
"""Seconds between two checks of background tasks: there is no wake-up when their agents ask
something."""


WhyNot = Callable[[RunRecord, Iterable[str]], str | None]
"""Takes a run without an owner, and the ids of the open runs in its tree. Returns why this runtime
will not resume it, or `None` if it will."""


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
        task, live = StoredTask.of(record).task, background.find_live_task(record.run_id)
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


# -- runs -------------------------------------------------------------------------------------


async def over_or_asking(engine: AgentRuntime, id: str, refusal_reason: WhyNot) -> RunRecord:
    """Wait until a run, given by its run or thread id, is over or needs an answer. Returns its
    record. Any process may own the run.

    Raises:
        NotFound: there is no such run, or it was deleted.
        RunAbandoned: no process owns the run, and this runtime will not resume it.
    """
    place = await operations.find(engine, id)
    if place is None or place.run is None:
        raise NotFound("run", id)
    run_id, seen, doubt = place.run.run_id, 0, None
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
        try:
            async with asyncio.timeout(PATIENCE):
                seen, doubt = await engine.store.wait_changed(run.thread_id, seen), None
        except TimeoutError:
            # Checked twice: a run that passes from one owner to the next has none for a moment.
            before, doubt = doubt, await _doubt(engine, run, refusal_reason)
            if before is not None and doubt is not None:
                raise RunAbandoned(run_id, doubt) from None


async def _doubt(engine: AgentRuntime, run: RunRecord, refusal_reason: WhyNot) -> str | None:
    """Why a run will not go on; `None` if any thread of its tree has an owner, or it will be
    resumed here."""
    store = engine.store
    root = await store.load_thread(await root_of(store, run.thread_id))
    family = [] if root is None else [root, *await operations.descendants(store, root.id)]
    if any(thread.owner is not None for thread in family):
        return None
    while (parent := await parent_of(store, run)) is not None:
        run = parent  # the parent's owner resumes its children
    return refusal_reason(run, [thread.open_run_id for thread in family if thread.open_run_id])


async def _asks(store: Store, run: RunRecord) -> bool:
    """Whether a run waits for an answer that has not been given yet."""
    waiting = run.waiting
    if waiting is None or waiting.reason is WaitingReason.BACKGROUND_TASKS:
        return False
    if not waiting.tickets:
        commands = await store.load_commands(run.thread_id)
        return not any(command.run_id in (None, run.run_id) for command in commands)
    query = TicketQuery(run_id=run.run_id, status=TicketStatus.OPEN, limit=1)
    return bool(len(await store.list_tickets(query)))


async def at_rest(engine: AgentRuntime) -> None:
    """Wait until no run is live here, and the runtime's own tasks have ended. Background tasks
    whose agents need an answer are not waited for."""
    while engine.owned or engine.active:
        if engine.owned:
            await asyncio.wait(list(engine.owned), timeout=GLANCE)
            continue
        for live in engine.active.all():
            if live.task is not None or not await _needs_answer(engine, live.thread_id):
                await live.wait_ended(GLANCE)
                break
        else:
            return


async def tree_at_rest(
    engine: AgentRuntime, thread_id: str, work: Mapping[asyncio.Task[Any], str]
) -> None:
    """Wait until nothing in a thread's tree is live here, and no task of `work` (by thread id) is
    about to resume a part of it. Tasks whose agents need an answer are not waited for."""
    root = await root_of(engine.store, thread_id)

    async def is_of_tree(thread: str) -> bool:
        return thread == thread_id or await root_of(engine.store, thread) == root

    while True:
        under_way = [task for task, thread in tuple(work.items()) if await is_of_tree(thread)]
        if under_way:
            await asyncio.wait(under_way, timeout=GLANCE)
            continue
        for live in engine.active.all():
            if not await is_of_tree(live.thread_id):
                continue
            if live.task is not None or not await _needs_answer(engine, live.thread_id):
                await live.wait_ended(GLANCE)
                break
        else:
            return


async def _needs_answer(engine: AgentRuntime, thread_id: str) -> bool:
    """Whether a task needs an answer for one of its agents, or is queued behind one that does."""
    task = background.find_live_task(thread_id)
    if task is not None and task.queued:
        return True
    for beneath in await operations.descendants(engine.store, thread_id):
        run = await engine.store.load_run(beneath.open_run_id) if beneath.open_run_id else None
        if run is not None and run.status is RunStatus.WAITING and await _asks(engine.store, run):
            return True
    return False
