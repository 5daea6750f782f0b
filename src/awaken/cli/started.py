"""Delegates and tasks: the runs that other runs have started, and their names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from awaken.core.run import RunRecord
from awaken.core.store.threads import RunQuery, Threads
from awaken.runtime.records import TASK_AGENT, KeptTask
from awaken.runtime.waiting import BackgroundTask

MOST_STARTED = 200


class Started(NamedTuple):
    """A run, and its depth beneath the run that was asked for."""

    level: int
    run: RunRecord


def name_of(run: RunRecord) -> str:
    """The name of a run's agent or task."""
    return f"task {run.agent_id.removeprefix(TASK_AGENT)}" if run.is_task else run.agent_id


def agent_of(run: RunRecord) -> str:
    """The agent of a run, or the agent that started a task."""
    return KeptTask.of(run).task.parent_context.agent_id or "" if run.is_task else run.agent_id


def task_title(task: BackgroundTask) -> str:
    """The name of a task, or else its description."""
    return task.name or task.description


def parent_thread_of(run: RunRecord) -> str | None:
    """The thread that started a run, or `None`."""
    return run.request.parent_thread_id if run.request is not None else None


async def started_by(threads: Threads, run_ids: Iterable[str], level: int = 1) -> list[Started]:
    """The runs that these runs have started, oldest first, each followed by those it has started
    itself."""
    found: list[Started] = []
    for run_id in run_ids:
        page = await threads.list_runs(RunQuery(parent_run_id=run_id, limit=MOST_STARTED))
        for run in reversed(page.items):
            if len(found) < MOST_STARTED:
                found.append(Started(level, run))
                found += await started_by(threads, [run.run_id], level + 1)
    return found[:MOST_STARTED]
