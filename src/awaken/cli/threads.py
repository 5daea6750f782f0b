"""`awaken threads`: what conversations a store holds."""

from __future__ import annotations

import sys

import click

from awaken.cli.desk import Desk, at_desk, thread_standing
from awaken.cli.exits import Exit
from awaken.cli.options import lists, print_json, print_more
from awaken.cli.tables import print_table
from awaken.cli.text import ago
from awaken.cli.transcript import open_console
from awaken.contract.threads import ThreadQuery

_COLUMNS = ("THREAD", "STATE", "MESSAGES:", "CHANGED", "BEGINS")


@click.command()
@click.option("--prefix", metavar="TEXT", default="", help="Only those whose id begins so.")
@click.option("--children-of", metavar="THREAD", help="Only those this thread has started.")
@lists
def threads(
    prefix: str,
    children_of: str | None,
    limit: int,
    cursor: str | None,
    store: str | None,
    as_json: bool,
) -> Exit:
    """List threads, the one changed last first.

    \b
      awaken threads
      awaken threads --prefix case- --limit 5
      awaken threads --json | jq -r '.items[].id'

    A thread is idle, running, waiting for an answer, or to resume: the process that ran it is
    gone, or its answer came while nobody ran it. `awaken resume` takes those up.
    """

    async def work(desk: Desk) -> Exit:
        parent = (await desk.find_thread(children_of)).id if children_of else None
        query = ThreadQuery(parent_thread_id=parent, prefix=prefix, limit=limit, cursor=cursor)
        page = await desk.runtime.list_threads(query)
        if as_json:
            return print_json(page)
        left_behind, now = await desk.left_behind(), desk.now_ms()
        rows = [
            (
                thread.id,
                thread_standing(thread, left_behind),
                f"{thread.message_count:,}",
                ago(now, thread.updated_at),
                await _begins(desk, thread.id),
            )
            for thread in page.items
        ]
        console = open_console(sys.stdout)
        if rows:
            print_table(console, _COLUMNS, rows)
        return print_more(console, bool(rows), "no threads", page.cursor)

    return at_desk(store, work)


async def _begins(desk: Desk, thread: str) -> str:
    """The first words of a thread, by which people know it."""
    first = await desk.runtime.messages(thread, limit=3)
    said = [message for message in first if message.is_visible_user()] or list(first)
    return said[0].text() if said else ""
