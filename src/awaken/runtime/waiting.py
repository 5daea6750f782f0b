"""Waiting for runs that other tasks or processes carry out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from awaken.core.lifecycle import RunStatus
from awaken.core.run import RunRecord, WaitingReason
from awaken.core.store.store import Store
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import TicketStatus
from awaken.errors import NotFound, RunAbandoned
from awaken.ext.tasks import lazy_tasks as background
from awaken.worker import Worker, operations
from awaken.worker.delegates import parent_of
from awaken.worker.messages import root_of

OWNER_CHECK_SECONDS = 5.0
"""Seconds without a change after which a waiting caller checks that the run still has an owner."""
TASK_CHECK_SECONDS = 0.2
"""Seconds between two checks of background tasks: there is no wake-up when their agents ask
something."""


RefusalReason = Callable[[RunRecord, Iterable[str]], str | None]
"""Takes a run without an owner, and the ids of the open runs in its tree. Returns why this runtime
will not resume it, or `None` if it will."""


async def wait_for_end_or_question(
    engine: Worker, id: str, refusal_reason: RefusalReason
) -> RunRecord:
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
            async with asyncio.timeout(OWNER_CHECK_SECONDS):
                seen, doubt = await engine.store.wait_changed(run.thread_id, seen), None
        except TimeoutError:
            # Checked twice: a run that passes from one owner to the next has none for a moment.
            before, doubt = doubt, await _doubt(engine, run, refusal_reason)
            if before is not None and doubt is not None:
                raise RunAbandoned(run_id, doubt) from None


async def _doubt(engine: Worker, run: RunRecord, refusal_reason: RefusalReason) -> str | None:
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


async def wait_idle(engine: Worker) -> None:
    """Wait until no run is live here, and the runtime's own tasks have ended. Background tasks
    whose agents need an answer are not waited for."""
    while engine.owned or engine.active:
        if engine.owned:
            await asyncio.wait(list(engine.owned), timeout=TASK_CHECK_SECONDS)
            continue
        for live in engine.active.all():
            if live.task is not None or not await _needs_answer(engine, live.thread_id):
                await live.wait_ended(TASK_CHECK_SECONDS)
                break
        else:
            return


async def wait_tree_idle(
    engine: Worker, thread_id: str, work: Mapping[asyncio.Task[Any], str]
) -> None:
    """Wait until nothing in a thread's tree is live here, and no task of `work` (by thread id) is
    about to resume a part of it. Tasks whose agents need an answer are not waited for."""
    root = await root_of(engine.store, thread_id)

    async def is_of_tree(thread: str) -> bool:
        return thread == thread_id or await root_of(engine.store, thread) == root

    while True:
        under_way = [task for task, thread in tuple(work.items()) if await is_of_tree(thread)]
        if under_way:
            await asyncio.wait(under_way, timeout=TASK_CHECK_SECONDS)
            continue
        for live in engine.active.all():
            if not await is_of_tree(live.thread_id):
                continue
            if live.task is not None or not await _needs_answer(engine, live.thread_id):
                await live.wait_ended(TASK_CHECK_SECONDS)
                break
        else:
            return


async def _needs_answer(engine: Worker, thread_id: str) -> bool:
    """Whether a task needs an answer for one of its agents, or is queued behind one that does."""
    task = background.find_live_task(thread_id)
    if task is not None and task.queued:
        return True
    for child in await operations.descendants(engine.store, thread_id):
        run = await engine.store.load_run(child.open_run_id) if child.open_run_id else None
        if run is not None and run.status is RunStatus.WAITING and await _asks(engine.store, run):
            return True
    return False
