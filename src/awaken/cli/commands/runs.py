"""`awaken runs`: listing runs."""

from __future__ import annotations

import sys

import click
from rich.text import Text

from awaken.cli.children import name_of, parent_thread_of
from awaken.cli.exit_codes import ExitCode, Mistake
from awaken.cli.options import MOST_LISTED, lists, print_json, print_more
from awaken.cli.output import ago, complain_unreadable, open_console, print_table, short
from awaken.cli.store_view import StoreView, format_run_state, run_with_store_view
from awaken.core.lifecycle import RunStatus
from awaken.core.run import RunRecord
from awaken.core.store.threads import Page, RunQuery

COLUMNS = ("RUN", "AGENT", "STATE", "STEPS:", "TOKENS:", "CREATED", "THREAD")


@click.command()
@click.option("--thread", metavar="ID", help="Only those of this thread.")
@click.option("--agent", metavar="ID", help="Only those of this agent.")
@click.option(
    "--status",
    type=click.Choice([status.value for status in RunStatus]),
    help="Only those with this status.",
)
@click.option(
    "--orphaned",
    is_flag=True,
    help="Only those that are to go on, while no process carries them out.",
)
@lists
def runs(
    thread: str | None,
    agent: str | None,
    status: str | None,
    orphaned: bool,
    limit: int,
    cursor: str | None,
    store: str | None,
    as_json: bool,
) -> ExitCode:
    """List runs, the newest first.

    \b
      awaken runs --status waiting
      awaken runs --thread case-7
      awaken runs --agent support --json
      awaken runs --orphaned

    Delegates and background tasks are runs, too; each shows the thread that started it. `awaken
    show` draws the tree of one run.

    A server takes up a run within seconds if it has the run's agent. So what --orphaned lists for
    longer belongs to an agent that no server has: serve it again, or cancel the run.
    """
    if orphaned and (thread or status or cursor):
        raise Mistake("--orphaned lists the runs of all threads: leave out the other options")

    async def work(store_view: StoreView) -> ExitCode:
        page = (
            await list_orphaned(store_view, agent, limit)
            if orphaned
            else await list_page(store_view)
        )
        complain_unreadable(page.unreadable)
        if as_json:
            return print_json(page)
        resumable, now = await store_view.find_resumable(), store_view.now_ms()
        console = open_console(sys.stdout)
        if page.items:
            print_table(console, COLUMNS, [run_row(run, resumable, now) for run in page.items])
        return print_more(console, bool(page.items), "no runs", page.cursor)

    async def list_page(store_view: StoreView) -> Page[RunRecord]:
        query = RunQuery(
            thread_id=(await store_view.find_thread(thread)).id if thread else None,
            agent_id=agent,
            status=RunStatus(status) if status else None,
            limit=limit,
            cursor=cursor,
        )
        return await store_view.runtime.list_runs(query)

    return run_with_store_view(store, work)


async def list_orphaned(store_view: StoreView, agent: str | None, limit: int) -> Page[RunRecord]:
    """The first runs that are to go on, or to start, while no process has their thread."""
    now = store_view.now_ms()
    found = list(await store_view.store.list_interrupted(now_ms=now))
    asked = RunQuery(status=RunStatus.CREATED, agent_id=agent, limit=MOST_LISTED)
    page = await store_view.runtime.list_runs(asked)
    for run in page:
        if await _could_start(store_view, run, now):
            found.append(run)
    items = [run for run in found if agent is None or run.agent_id == agent]
    return Page(items=tuple(items[:limit]), unreadable=page.unreadable)


async def _could_start(store_view: StoreView, run: RunRecord, now_ms: int) -> bool:
    """Whether a submitted run is due, and nothing in its thread goes before it."""
    head = await store_view.store.load_thread(run.thread_id)
    if head is None or head.owner is not None or head.open_run_id is not None:
        return False
    waiting = await store_view.store.load_commands(run.thread_id)
    return any(command.run_id == run.run_id and command.is_due(now_ms) for command in waiting)


def run_row(run: RunRecord, resumable: frozenset[str], now_ms: int) -> tuple[str | Text, ...]:
    """A run as a row of a table with `COLUMNS`."""
    parent = parent_thread_of(run)
    return (
        run.run_id,
        name_of(run),
        format_run_state(run, resumable),
        f"{run.steps:,}",
        f"{run.input_tokens + run.output_tokens:,}",
        ago(now_ms, run.created_at * 1_000),
        short(run.thread_id) if parent is None else f"beneath {short(parent)}",
    )
