"""`awaken fork`: starting a new thread from any point of another."""

from __future__ import annotations

import sys

import click

from awaken.cli.exit_codes import ExitCode
from awaken.cli.options import print_json, steers
from awaken.cli.output import count, open_console
from awaken.cli.question import shell_word
from awaken.cli.store_view import StoreView, run_with_store_view


@click.command(short_help="Start a new thread from any point of an old one.")
@click.argument("id", metavar="THREAD")
@click.option(
    "--at", metavar="SEQ", type=click.IntRange(1), help="After this event.  [default: now]"
)
@click.option("--as", "new", metavar="NEW_ID", help="The new thread's id.  [default: a fresh one]")
@steers
def fork(id: str, at: int | None, new: str | None, store: str | None, as_json: bool) -> ExitCode:
    """Start a new thread from an old one, with messages and state as they were then.

    \b
      awaken fork case-7 --as case-7b
      awaken fork case-7 --at 12

    `awaken watch THREAD --no-follow` shows the SEQ at which each step ended. The old thread is not
    changed.
    """

    async def work(store_view: StoreView) -> ExitCode:
        thread = await store_view.find_thread(id)
        made = await store_view.runtime.fork(thread.id, at=at, new=new)
        if as_json:
            return print_json(made)
        console = open_console(sys.stdout)
        console.print(
            f"thread {made.id} begins with {count(made.message_count, 'message')} of {thread.id}"
        )
        console.print(f"  awaken run MODULE:AGENT … --thread {shell_word(made.id)}")
        return ExitCode.DONE

    return run_with_store_view(store, work)
