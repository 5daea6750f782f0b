"""What goes on in the background, as a user sees it: tasks, and runs that nobody holds on to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import msgspec

from awaken.codec import Json
from awaken.contract.background import TaskStatus
from awaken.contract.store import Store
from awaken.contract.threads import RunQuery, TicketQuery
from awaken.domain.lifecycle import RunStatus
from awaken.domain.run import RunKind, RunRecord, WaitingReason
from awaken.domain.ticket import TicketStatus
from awaken.domain.value import Value
from awaken.errors import NotFound, RunAbandoned
from awaken.ext.background import TaskProgress, find_live_task
from awaken.runtime import AgentRuntime, operations
from awaken.runtime.delegates import parent_of
from awaken.runtime.messages import root_of
from awaken.runtime.task_records import KeptTask

PATIENCE = 5.0
"""Seconds without news after which whoever waits for a run looks whether anybody carries it on."""
GLANCE = 0.2
"""Seconds between two looks at tasks, who wake nobody when their agents ask something."""


WhyNot = Callable[[RunRecord, Iterable[str]], str | None]
"""Why a run that nobody carries on, and needs these others, is not carried on here either; nothing
if it will be."""


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
    tasks: list[BackgroundTask] = []
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
        if page.cursor is None or len(tasks) >= limit:
            return sorted(tasks, key=_age, reverse=True)[:limit]
        query = msgspec.structs.replace(query, cursor=page.cursor)


def _age(task: BackgroundTask) -> tuple[int, str]:
    return task.created_at_ms, task.id


def _run_status(status: TaskStatus) -> RunStatus:
    return RunStatus.DONE if status.is_terminal else RunStatus.RUNNING


# -- runs -------------------------------------------------------------------------------------


async def over_or_asking(engine: AgentRuntime, id: str, why_not: WhyNot) -> RunRecord:
    """The run of a run or thread id, once it is over or waits for somebody's answer, whoever
    carries it on.

    Raises:
        NotFound: there is none, or it was deleted.
        RunAbandoned: nobody carries it on, and nobody here will.
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
                seen, doubt = await engine.store.changed(run.thread_id, seen), None
        except TimeoutError:
            # Looked at twice: while one gives a run up to another, nobody has it.
            before, doubt = doubt, await _doubt(engine, run, why_not)
            if before is not None and doubt is not None:
                raise RunAbandoned(run_id, doubt) from None


async def _doubt(engine: AgentRuntime, run: RunRecord, why_not: WhyNot) -> str | None:
    """Why nobody will carry a run on; nothing if somebody does, or will, or works for it."""
    store = engine.store
    root = await store.load_thread(await root_of(store, run.thread_id))
    family = [] if root is None else [root, *await operations.descendants(store, root.id)]
    if any(thread.owner is not None for thread in family):
        return None
    while (parent := await parent_of(store, run)) is not None:
        run = parent  # which carries it on
    return why_not(run, [thread.open_run_id for thread in family if thread.open_run_id])


async def _asks(store: Store, run: RunRecord) -> bool:
    """Whether a run waits for somebody outside, who has not answered yet."""
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
    """Wait until nothing of a thread's tree is live here, and nothing is under way that goes on
    with it (`work`, by thread), but tasks whose agents need an answer."""
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
    """Whether a task goes on only when somebody has answered an agent in it, or in one before."""
    task = find_live_task(thread_id)
    if task is not None and task.queued:
        return True
    for beneath in await operations.descendants(engine.store, thread_id):
        run = await engine.store.load_run(beneath.open_run_id) if beneath.open_run_id else None
        if run is not None and run.status is RunStatus.WAITING and await _asks(engine.store, run):
            return True
    return False
