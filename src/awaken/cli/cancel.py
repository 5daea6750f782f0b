"""`awaken cancel`: stop a run, in whichever process it is, or in none."""

from __future__ import annotations

import asyncio
import sys

import click

from awaken.cli.desk import Desk, at_desk
from awaken.cli.exits import Exit, ending_words
from awaken.cli.options import complain, print_json, steers
from awaken.cli.transcript import open_console
from awaken.domain.run import RunRecord

PATIENCE = 5.0


@click.command(short_help="Cancel a run, in whichever process it is.")
@click.argument("id", metavar="THREAD|RUN")
@steers
def cancel(id: str, store: str | None, as_json: bool) -> Exit:
    """Cancel a run: one that is alive in any process, one that waits, one whose process is gone.

    \b
      awaken cancel case-7

    Its open calls are told, what was done stays done, and the thread can go on. It waits a few
    seconds for the run to end. The exit code is 1 if there was nothing to cancel.
    """

    async def work(desk: Desk) -> Exit:
        subject = await desk.find(id)
        run_id = subject.run.run_id if subject.run is not None else subject.thread.open_run_id
        if run_id is None or not await desk.runtime.cancel(run_id):
            complain(f"nothing to cancel: no run of {subject.words} is open")
            return Exit.FAILED
        run = await _ended(desk, subject.thread.id, run_id)
        if as_json:
            return print_json(run)
        console = open_console(sys.stdout)
        if run.status.is_terminal:
            console.print(f"run {run.run_id} has ended: {ending_words(run.termination_reason)}")
        else:
            console.print(f"run {run.run_id} was told to stop and has not ended yet")
        return Exit.DONE

    return at_desk(store, work)


async def _ended(desk: Desk, thread: str, run_id: str) -> RunRecord:
    """The run's record once it has ended, or when patience has."""
    since = 0
    try:
        async with asyncio.timeout(PATIENCE):
            while not (run := await _load(desk, run_id)).status.is_terminal:
                since = await desk.store.changed(thread, since)
    except TimeoutError:
        run = await _load(desk, run_id)
    return run


async def _load(desk: Desk, run_id: str) -> RunRecord:
    run = await desk.runtime.find_run(run_id)
    assert run is not None, "a run that could be cancelled is there"
    return run
