"""`awaken tasks`: what agents have running in the background."""

from __future__ import annotations

import sys

import click
import msgspec
from rich.text import Text

from awaken.cli.desk import Desk, at_desk, standing
from awaken.cli.exits import Exit, Mistake
from awaken.cli.options import lists, print_json, print_more
from awaken.cli.started import parent_thread_of, task_name
from awaken.cli.tables import print_table
from awaken.cli.text import ago, result_words
from awaken.cli.transcript import open_console
from awaken.contract.background import TaskStatus
from awaken.contract.threads import Page, RunQuery
from awaken.domain.run import RunRecord
from awaken.runtime.steer import descendants
from awaken.runtime.tasks import KeptTask, is_task

_COLUMNS = ("TASK", "NAME", "STATE", "BEGUN", "THREAD", "RESULT")
_STATUSES = [status.value for status in TaskStatus]


@click.command(short_help="List background tasks, the newest first.")
@click.argument("thread", required=False)
@click.option("--status", type=click.Choice(_STATUSES), help="Only those that stand so.")
@lists
def tasks(
    thread: str | None,
    status: str | None,
    limit: int,
    cursor: str | None,
    store: str | None,
    as_json: bool,
) -> Exit:
    """List background tasks, the newest first: those of a thread and of all it has started, or all
    there are.

    \b
      awaken tasks --status running
      awaken tasks case-7

    THREAD is the one that is told how a task ends. A task that is to resume has lost its process:
    `awaken resume` takes it up again, or reports it as interrupted. `awaken show` and `awaken
    cancel` take a task's id, too. How far it is, only the process that runs it knows.
    """
    if thread is not None and cursor is not None:
        raise Mistake("the tasks of one thread are listed in one go: leave --cursor out")

    async def work(desk: Desk) -> Exit:
        wanted = TaskStatus(status) if status else None
        if thread is not None:
            page = await _of_thread(desk, (await desk.find_thread(thread)).id, wanted, limit)
        else:
            page = await _of_all(desk, wanted, limit, cursor)
        if as_json:
            found = tuple(KeptTask.of(run).task for run in page)
            return print_json(Page(items=found, cursor=page.cursor))
        left_behind, now = await desk.left_behind(), desk.now_ms()
        console = open_console(sys.stdout)
        if page.items:
            print_table(console, _COLUMNS, [_row(run, left_behind, now) for run in page])
        return print_more(console, bool(page.items), "no tasks", page.cursor)

    return at_desk(store, work)


async def _of_thread(
    desk: Desk, thread: str, wanted: TaskStatus | None, limit: int
) -> Page[RunRecord]:
    """The latest tasks of a thread and of all beneath it."""
    found: list[RunRecord] = []
    for child in await descendants(desk.store, thread):
        run = await desk.runtime.find_run(child.id)
        if run is not None and _fits(run, wanted):
            found.append(run)
    found.sort(key=lambda run: KeptTask.of(run).task.created_at_ms, reverse=True)
    return Page(items=tuple(found[:limit]))


async def _of_all(
    desk: Desk, wanted: TaskStatus | None, limit: int, cursor: str | None
) -> Page[RunRecord]:
    """The next tasks of the store: runs are read on until there are enough of them."""
    found: list[RunRecord] = []
    query = RunQuery(cursor=cursor)
    while True:
        # Never more than are wanted: the cursor is behind the last one that was read.
        query = msgspec.structs.replace(query, limit=limit - len(found))
        page = await desk.runtime.list_runs(query)
        found += [run for run in page if _fits(run, wanted)]
        if page.cursor is None or len(found) == limit:
            return Page(items=tuple(found), cursor=page.cursor)
        query = msgspec.structs.replace(query, cursor=page.cursor)


def _fits(run: RunRecord, wanted: TaskStatus | None) -> bool:
    return is_task(run) and wanted in (None, KeptTask.of(run).task.status)


def _row(run: RunRecord, left_behind: frozenset[str], now_ms: int) -> tuple[str | Text, ...]:
    task = KeptTask.of(run).task
    return (
        run.run_id,
        task_name(run),
        standing(run, left_behind),
        ago(now_ms, task.created_at_ms),
        f"{parent_thread_of(run) or ''} ({task.task_id})",
        result_words(run.final_output or ""),
    )
