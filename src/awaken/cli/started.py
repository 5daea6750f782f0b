"""Runs that others have started: delegates and tasks, by the names people know them by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from awaken.contract.threads import RunQuery, Threads
from awaken.domain.run import RunRecord
from awaken.front.records import TASK_AGENT, KeptTask
from awaken.front.tasks import BackgroundTask

MOST_STARTED = 200


class Started(NamedTuple):
    """A run, and how many levels beneath the one that was asked for it is."""

    level: int
    run: RunRecord


def name_of(run: RunRecord) -> str:
    """The name of the agent or of the task whose run it is."""
    return f"task {run.agent_id.removeprefix(TASK_AGENT)}" if run.is_task else run.agent_id


def agent_of(run: RunRecord) -> str:
    """The agent whose run, or task, it is."""
    return KeptTask.of(run).task.parent_context.agent_id or "" if run.is_task else run.agent_id


def task_title(task: BackgroundTask) -> str:
    """What a task was called by who started it, or what it does."""
    return task.name or task.description


def parent_thread_of(run: RunRecord) -> str | None:
    """The thread of whoever started a run."""
    return run.request.parent_thread_id if run.request is not None else None


async def started_by(threads: Threads, run_ids: Iterable[str], level: int = 1) -> list[Started]:
    """What runs have started, each followed by what it has started itself, the oldest first."""
    found: list[Started] = []
    for run_id in run_ids:
        page = await threads.list_runs(RunQuery(parent_run_id=run_id, limit=MOST_STARTED))
        for run in reversed(page.items):
            if len(found) < MOST_STARTED:
                found.append(Started(level, run))
                found += await started_by(threads, [run.run_id], level + 1)
    return found[:MOST_STARTED]
