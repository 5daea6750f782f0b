"""The background tasks of an agent, in the process that runs them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Sequence

from awaken.cli.children import task_title
from awaken.cli.output import terminal_line
from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.event import ActivitySnapshot, RunEvent, RunStart
from awaken.core.identity import RunIdentity
from awaken.core.run import RunRecord, RunWaitingTicket
from awaken.core.task import TaskStatus
from awaken.core.tool import PROGRESS_ACTIVITY
from awaken.ext.tasks import TaskProgress
from awaken.ext.tasks.listing import BackgroundTask
from awaken.ext.tasks.task import find_live_task
from awaken.runtime import Runtime
from awaken.runtime.metrics_hooks import descendants

POLL_SECONDS = 0.3
"""Seconds between two checks of the tasks, which wake no waiter when they report or ask."""

ShowEvent = Callable[[RunEvent], object]


async def find_waiting_run(runtime: Runtime, thread: str) -> RunRecord | None:
    """The run of a thread that waits for its background tasks, or `None`."""
    head = await runtime.store.load_thread(thread)
    if head is None or head.open_run_id is None:
        return None
    run = await runtime.find_run(head.open_run_id)
    return run if run is not None and run.is_background_task_waiting() else None


async def wait_for_report(
    tasks: LiveTasks, asked_keys: Container[str], show: ShowEvent | None = None
) -> RunRecord | None:
    """Wait until a task has reported to the waiting run, or the run no longer waits. Returns `None`
    in both cases.

    If an agent in a background task needs an answer first, returns that agent's run.

    Args:
        asked_keys: the keys of tickets that the person at the terminal was asked about before.
        show: is called with each event of the tasks' progress.
    """
    runtime, thread, seen = tasks.runtime, tasks.run.thread_id, 0
    while await find_waiting_run(runtime, thread) is not None:
        if await runtime.store.load_commands(thread):
            return None
        if show is not None:
            for event in await tasks.take_progress_events():
                show(event)
        for asking in await _list_asking_runs(runtime, thread):
            if any(ticket.key not in asked_keys for ticket in tickets_of(asking)):
                return asking
        try:
            async with asyncio.timeout(POLL_SECONDS):
                seen = await runtime.store.wait_changed(thread, seen)
        except TimeoutError:
            pass
    return None


def tickets_of(run: RunRecord) -> Sequence[RunWaitingTicket]:
    """The tickets that a run waits for."""
    return run.waiting.tickets if run.waiting is not None else ()


async def _list_asking_runs(runtime: Runtime, thread: str) -> list[RunRecord]:
    """List the runs of agents in background tasks that themselves wait for an answer."""
    found: list[RunRecord] = []
    for head in await descendants(runtime.store, thread):
        run = await runtime.find_run(head.open_run_id) if head.open_run_id is not None else None
        if run is None or run.parent_run_id is None or not tickets_of(run):
            continue
        parent = await runtime.find_run(run.parent_run_id)
        if parent is not None and parent.is_task:
            found.append(run)
    return found


class LiveTasks:
    """The tasks that a run waits for and that run in this process, with their progress."""

    def __init__(self, runtime: Runtime, run: RunRecord, clock: Clock = SYSTEM_CLOCK) -> None:
        self.runtime, self.run = runtime, run
        self._clock = clock
        self._last_progress: dict[str, TaskProgress] = {}

    async def list_running(self) -> list[BackgroundTask]:
        """The tasks of the run's own thread, oldest first."""
        thread = self.run.thread_id
        tasks = await self.runtime.tasks(thread, status=TaskStatus.RUNNING)
        return [
            task
            for task in reversed(tasks.items)
            if task.thread_id == thread and find_live_task(task.id) is not None
        ]

    async def names(self) -> str:
        """The names of the tasks; empty if there are none."""
        return ", ".join(terminal_line(task_title(task)) for task in await self.list_running())

    async def take_progress_events(self) -> list[RunEvent]:
        """The tasks' progress since the last call of this method, as events."""
        events: list[RunEvent] = []
        for task in await self.list_running():
            if task.progress is None or task.progress == self._last_progress.get(task.id):
                continue
            if task.id not in self._last_progress:
                events.append(self._event(task, self._start(task)))
            self._last_progress[task.id] = task.progress
            content = {"message": task.progress.message, "progress": task.progress.fraction}
            report = ActivitySnapshot(
                message_id=task.task_id,
                activity_type=PROGRESS_ACTIVITY,
                content=content,
                replace=True,
            )
            events.append(self._event(task, report))
        return events

    def _start(self, task: BackgroundTask) -> RunStart:
        """The start event of a task, which gives readers its name."""
        identity = RunIdentity(
            thread_id=task.id,
            run_id=task.id,
            parent_run_id=self.run.run_id,
            agent_id=f"task {task_title(task)}",
        )
        return RunStart(thread_id=task.id, run_id=task.id, identity=identity)

    def _event(self, task: BackgroundTask, event: RunStart | ActivitySnapshot) -> RunEvent:
        return RunEvent(
            thread_id=task.id,
            run_id=task.id,
            parent_run_id=self.run.run_id,
            at_ms=self._clock.now_ms(),
            event=event,
        )
