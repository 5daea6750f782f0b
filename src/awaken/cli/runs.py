"""`awaken runs`: listing runs."""

from __future__ import annotations

import sys

import click
from rich.text import Text

from awaken.cli.console import open_console
from awaken.cli.desk import Desk, at_desk, standing
from awaken.cli.exits import Exit
from awaken.cli.options import lists, print_json, print_more
from awaken.cli.started import name_of, parent_thread_of
from awaken.cli.tables import print_table
from awaken.cli.text import ago, short
from awaken.contract.threads import RunQuery
from awaken.domain.lifecycle import RunStatus
from awaken.domain.run import RunRecord

COLUMNS = ("RUN", "AGENT", "STATE", "STEPS:", "TOKENS:", "CREATED", "THREAD")


@click.command()
@click.option("--thread", metavar="ID", help="Only those of this thread.")
@click.option("--agent", metavar="ID", help="Only those of this agent.")
@click.option(
    "--status",
    type=click.Choice([status.value for status in RunStatus]),
    help="Only those with this status.",
)
@lists
def runs(
    thread: str | None,
    agent: str | None,
    status: str | None,
    limit: int,
    cursor: str | None,
    store: str | None,
    as_json: bool,
) -> Exit:
    """List runs, the newest first.

    \b
      awaken runs --status waiting
      awaken runs --thread case-7
      awaken runs --agent support --json

    Delegates and background tasks are runs, too; each shows the thread that started it. `awaken
    show` draws the tree of one run.
    """

    async def work(desk: Desk) -> Exit:
        query = RunQuery(
            thread_id=(await desk.find_thread(thread)).id if thread else None,
            agent_id=agent,
            status=RunStatus(status) if status else None,
            limit=limit,
            cursor=cursor,
        )
        page = await desk.runtime.list_runs(query)
        if as_json:
            return print_json(page)
        left_behind, now = await desk.left_behind(), desk.now_ms()
        console = open_console(sys.stdout)
        if page.items:
            print_table(console, COLUMNS, [run_row(run, left_behind, now) for run in page.items])
        return print_more(console, bool(page.items), "no runs", page.cursor)

    return at_desk(store, work)


def run_row(run: RunRecord, left_behind: frozenset[str], now_ms: int) -> tuple[str | Text, ...]:
    """A run as a row of a table with `COLUMNS`."""
    parent = parent_thread_of(run)
    return (
        run.run_id,
        name_of(run),
        standing(run, left_behind),
        f"{run.steps:,}",
        f"{run.input_tokens + run.output_tokens:,}",
        ago(now_ms, run.created_at * 1_000),
        short(run.thread_id) if parent is None else f"beneath {short(parent)}",
    )
