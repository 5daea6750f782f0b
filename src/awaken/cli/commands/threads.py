"""`awaken threads`: listing the threads of a store."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
from rich.text import Text

from awaken.cli.children import name_of
from awaken.cli.exit_codes import ExitCode
from awaken.cli.options import lists, print_json, print_more
from awaken.cli.output import ago, complain_unreadable, open_console, print_table, terminal_line
from awaken.cli.question import shell_word
from awaken.cli.store_view import StoreView, format_thread_state, run_with_store_view
from awaken.core.store.threads import Page, ThreadQuery
from awaken.core.thread import Thread

MOST_CHILDREN = 5
_COLUMNS = ("THREAD", "STATE", "MESSAGES:", "CHANGED", "BEGINS")
_INDENT = "  "

Row = tuple[str | Text, ...]


@click.command(short_help="List threads, those with the latest runs first.")
@click.option("--prefix", metavar="TEXT", default="", help="Only those whose id begins with this.")
@click.option("--children-of", metavar="THREAD", help="Only those this thread has started.")
@lists
def threads(
    prefix: str,
    children_of: str | None,
    limit: int,
    cursor: str | None,
    store: str | None,
    as_json: bool,
) -> ExitCode:
    """List threads, ordered by when a run last began, paused or ended in them, latest first.

    \b
      awaken threads
      awaken threads --prefix case- --limit 5
      awaken threads --json | jq -r '.items[].id'

    A thread is idle, running, waiting for an answer or for tasks, or to resume: its process has
    ended, or its answer came while no process ran it. `awaken resume` resumes those.

    The latest few threads of delegates and background tasks are list_page beneath the thread that
    started them. They are not part of the JSON; --children-of lists them.
    """

    async def work(store_view: StoreView) -> ExitCode:
        parent = (await store_view.find_thread(children_of)).id if children_of else None
        query = ThreadQuery(
            parent_thread_id=parent,
            root=parent is None and not prefix,
            prefix=prefix,
            limit=limit,
            cursor=cursor,
        )
        page = await store_view.runtime.list_threads(query)
        complain_unreadable(page.unreadable)
        if as_json:
            return print_json(page)
        table = ThreadTable(store_view, await store_view.find_resumable(), store_view.now_ms())
        rows = [row for thread in page for row in await table.rows(thread)]
        console = open_console(sys.stdout)
        if rows:
            print_table(console, _COLUMNS, rows)
        return print_more(console, bool(rows), "no threads", page.cursor)

    return run_with_store_view(store, work)


class ThreadTable:
    """Makes the rows of threads, each followed by the rows of the threads it has started."""

    def __init__(self, store_view: StoreView, resumable: frozenset[str], now_ms: int) -> None:
        self._store_view, self._resumable, self._now_ms = store_view, resumable, now_ms

    async def rows(self, thread: Thread, level: int = 0) -> Sequence[Row]:
        rows: list[Row] = [
            (
                Text(_INDENT * level + terminal_line(thread.id)),
                format_thread_state(thread, self._resumable),
                f"{thread.message_count:,}",
                ago(self._now_ms, thread.updated_at),
                await self._opening_words(thread),
            )
        ]
        started = await self._list_children(thread)
        for child in started:
            rows += await self.rows(child, level + 1)
        if started.cursor is not None:
            words = f"more: awaken threads --children-of {shell_word(thread.id)}"
            rows.append((Text(_INDENT * (level + 1) + "…"), "", "", "", Text(words, "dim")))
        return rows

    async def _list_children(self, thread: Thread) -> Page[Thread]:
        query = ThreadQuery(parent_thread_id=thread.id, limit=MOST_CHILDREN)
        return await self._store_view.runtime.list_threads(query)

    async def _opening_words(self, thread: Thread) -> str:
        """The first words of a thread, preceded by the name of its agent or task if another thread
        started it."""
        first = await self._store_view.runtime.messages(thread.id, limit=3)
        said = [message for message in first if message.is_visible_user()] or list(first)
        words = said[0].text() if said else ""
        if thread.parent_thread_id is None or thread.latest_run_id is None:
            return words
        run = await self._store_view.runtime.find_run(thread.latest_run_id)
        name = name_of(run) if run is not None else ""
        return f"{name}: {words}" if words else name
