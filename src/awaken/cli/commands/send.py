"""`awaken send`: sending a message to a live run."""

from __future__ import annotations

import sys

import click

from awaken.cli.exit_codes import ExitCode
from awaken.cli.options import print_json, steers
from awaken.cli.output import complain, open_console
from awaken.cli.question import shell_word
from awaken.cli.store_view import StoreView, run_with_store_view
from awaken.core.value import Value


class SendOutput(Value, frozen=True, kw_only=True):
    """What `--json` prints."""

    thread_id: str
    run_id: str | None = None
    text: str


@click.command(short_help="Write to a run that is under way.")
@click.argument("id", metavar="THREAD|RUN")
@click.argument("text")
@steers
def send(id: str, text: str, store: str | None, as_json: bool) -> ExitCode:
    """Send a message to a live run, in any process; the model reads it at its next step.

    \b
      awaken send case-7 "The customer prefers a voucher."

    The exit code is 1 if there is no open run to read it.
    """

    async def work(store_view: StoreView) -> ExitCode:
        subject = await store_view.find(id)
        if not await store_view.runtime.send(subject.id, text):
            complain(
                f"no run of {subject.words} is open to read it; this starts one: "
                f"awaken run MODULE:AGENT … --thread {shell_word(subject.thread.id)}"
            )
            return ExitCode.FAILED
        if as_json:
            run_id = subject.run.run_id if subject.run is not None else subject.thread.open_run_id
            return print_json(SendOutput(thread_id=subject.thread.id, run_id=run_id, text=text))
        open_console(sys.stdout).print("sent; the model reads it at its next step")
        return ExitCode.DONE

    return run_with_store_view(store, work)
