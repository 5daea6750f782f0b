"""`awaken tasks`: listing background tasks."""

from __future__ import annotations

import sys

import click
from rich.text import Text

from awaken.cli.children import task_title
from awaken.cli.exit_codes import ExitCode
from awaken.cli.options import limit_option, print_json, print_more, steers
from awaken.cli.output import ago, complain_unreadable, open_console, print_table, result_words
from awaken.cli.run_summary import extract_result
from awaken.cli.store_view import StoreView, format_task_state, run_with_store_view
from awaken.core.task import TaskStatus
from awaken.ext.tasks.listing import BackgroundTask, list_tasks

_COLUMNS = ("TASK", "NAME", "STATE", "BEGUN", "THREAD", "RESULT")
_STATUSES = [status.value for status in TaskStatus]


@click.command(short_help="List background tasks, the newest first.")
@click.argument("thread", required=False)
@click.option("--status", type=click.Choice(_STATUSES), help="Only those with this status.")
@limit_option
@steers
def tasks(
    thread: str | None, status: str | None, limit: int, store: str | None, as_json: bool
) -> ExitCode:
    """List background tasks, newest first: those of a thread and the threads beneath it, or all.

    \b
      awaken tasks --status running
      awaken tasks case-7

    THREAD is the thread that gets a message when a task ends. A task with the status "to resume"
    has lost its process: `awaken resume` resumes it, or reports it as interrupted. `awaken show`
    and `awaken cancel` take a task's id, too. Only the process that runs a task knows its progress.
    """

    async def work(store_view: StoreView) -> ExitCode:
        owner = (await store_view.find_thread(thread)).id if thread is not None else None
        wanted = TaskStatus(status) if status else None
        found = await list_tasks(store_view.store, owner, wanted, limit)
        complain_unreadable(found.unreadable)
        if as_json:
            return print_json(found.items)
        resumable, now = await store_view.find_resumable(), store_view.now_ms()
        console = open_console(sys.stdout)
        if found.items:
            print_table(console, _COLUMNS, [_row(task, resumable, now) for task in found])
        return print_more(console, bool(found.items), "no tasks", None)

    return run_with_store_view(store, work)


def _row(task: BackgroundTask, resumable: frozenset[str], now_ms: int) -> tuple[str | Text, ...]:
    result = result_words(extract_result(task.result)) if task.result is not None else ""
    return (
        task.id,
        task_title(task),
        format_task_state(task, resumable),
        ago(now_ms, task.created_at_ms),
        f"{task.thread_id} ({task.task_id})",
        result or task.error or "",
    )
