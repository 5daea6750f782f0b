"""`awaken search`: finding threads and runs by what was said in them."""

from __future__ import annotations

import sys

import click

from awaken.cli.exit_codes import ExitCode
from awaken.cli.options import lists, print_json, print_more
from awaken.cli.output import ago, open_console, print_table, short
from awaken.cli.store_view import StoreView, run_with_store_view
from awaken.runtime.search.service import SearchHit

_COLUMNS = ("THREAD", "RUN", "STATE", "AGENT", "BEGUN", "FOUND")


@click.command(short_help="Find threads and runs by what was said in them.")
@click.argument("text", nargs=-1)
@click.option("--runs", is_flag=True, help="List each run, not each thread at its newest.")
@click.option("--zone", metavar="NAME", help="The time zone of dates; by default UTC.")
@click.option("--rebuild", is_flag=True, help="First throw the index away and build it anew.")
@lists
def search(
    text: tuple[str, ...],
    runs: bool,
    zone: str | None,
    rebuild: bool,
    limit: int,
    cursor: str | None,
    store: str | None,
    as_json: bool,
) -> ExitCode:
    """Find threads by words, "phrases" and filters, the newest run first.

    \b
      awaken search mug
      awaken search '"in pieces" agent:support after:7d'
      awaken search --runs status:failed 'cost:>1'
      awaken search --rebuild --zone Europe/Vienna

    Filters are agent: tool: model: status: label: user: before: after: cost: and tokens:, and a
    word may end with a star. Everything must fit one run. Messages, titles, errors, and the names,
    arguments and results of tools are searched.

    The index lies beside the store. If no server keeps it up to date, it is brought up to date
    first. With --rebuild and --zone, the days of `awaken usage` are those of that time zone.
    """

    async def work(store_view: StoreView) -> ExitCode:
        if rebuild:
            await store_view.runtime.rebuild_search(zone=zone)
        page = await store_view.runtime.search(
            " ".join(text),
            kind="runs" if runs else "threads",
            zone=zone or "UTC",
            limit=limit,
            cursor=cursor,
        )
        if as_json:
            return print_json(page)
        console = open_console(sys.stdout)
        now = store_view.now_ms()
        if page.items:
            print_table(console, _COLUMNS, [_row(hit, now) for hit in page.items])
        if not page.state.is_complete:
            console.print(f"the index is being built: {page.state.threads:,} threads so far")
        elif page.state.pending:
            console.print(f"{page.state.pending:,} threads have news that is not indexed yet")
        return print_more(console, bool(page.items), "nothing was found", page.cursor)

    return run_with_store_view(store, work)


def _row(hit: SearchHit, now_ms: int) -> tuple[str, ...]:
    return (
        hit.thread_id,
        short(hit.run_id) if hit.run_id is not None else "",
        hit.status or "",
        hit.agent_id or "",
        ago(now_ms, hit.started_at_ms),
        hit.snippet or hit.title or hit.question,
    )
