"""`awaken cancel`: cancel a run, in whichever process it is, or in none."""

from __future__ import annotations

import sys

import click
from rich.console import Console
from rich.text import Text

from awaken.cli.exit_codes import ExitCode
from awaken.cli.options import print_json, steers
from awaken.cli.output import complain, count, open_console, print_table, short
from awaken.cli.store_view import StoreView, run_with_store_view
from awaken.core.run import CancelItem, CancelOutcome, CancelReceipt

DEFAULT_DEADLINE_SECONDS = 5.0
_COLUMNS = ("OUTCOME", "KIND", "NAME", "RUN", "NOTE")
_STYLES = {
    CancelOutcome.STOPPED: "yellow",
    CancelOutcome.FINISHED: "green",
    CancelOutcome.UNKNOWN: "bold red",
}
_ENDINGS = {
    CancelOutcome.STOPPED: "was stopped",
    CancelOutcome.FINISHED: "had come to its end",
    CancelOutcome.UNKNOWN: "was told to stop, and may still go on",
}


@click.command(short_help="Cancel a run, in whichever process it is.")
@click.argument("id", metavar="THREAD|RUN")
@click.option(
    "--deadline",
    type=click.FloatRange(0),
    default=DEFAULT_DEADLINE_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for it to end.",
)
@steers
def cancel(id: str, deadline: float, store: str | None, as_json: bool) -> ExitCode:
    """Cancel a run that is live in any process, that waits, or whose process has ended.

    \b
      awaken cancel case-7
      awaken cancel case-7 --deadline 30 --json | jq '.items[] | select(.outcome == "unknown")'

    Its delegates and tasks are cancelled with it. Finished work is kept, and the thread can go on.
    The output says for each run, task and call whether it was stopped, had finished, or whether
    that is unknown. The exit code is 1 if there was nothing to cancel, and 3 if something is
    unknown.
    """

    async def work(store_view: StoreView) -> ExitCode:
        subject = await store_view.find(id)
        receipt = await store_view.runtime.cancel(subject.id, deadline=deadline)
        if not receipt:
            complain(f"nothing to cancel: no run of {subject.words} is open, nor beneath it")
            return ExitCode.FAILED
        if as_json:
            print_json(receipt)
        else:
            _print_receipt(open_console(sys.stdout), receipt)
        return ExitCode.DONE if receipt.complete else ExitCode.SUSPENDED

    return run_with_store_view(store, work)


def _print_receipt(console: Console, receipt: CancelReceipt) -> None:
    if receipt.items:
        first = receipt.items[0]
        console.print(f"run {first.run_id} {_ENDINGS[first.outcome]}")
        print_table(console, _COLUMNS, [_row(item) for item in receipt.items])
    if not receipt.complete:
        unknown = count(len(receipt.of(CancelOutcome.UNKNOWN)), "outcome")
        console.print(Text(f"{unknown} unknown: check before it is done again", "bold red"))


def _row(item: CancelItem) -> tuple[str | Text, ...]:
    name = f"  {item.name}" if item.kind == "call" else item.name
    outcome = Text(item.outcome.value, _STYLES[item.outcome])
    return outcome, item.kind, Text(name), short(item.run_id), item.note or ""
