"""`awaken watch`: what happens in a thread, whichever process it happens in."""

from __future__ import annotations

import asyncio
import shlex
import sys

import click

from awaken.cli.desk import Desk, Subject, at_desk
from awaken.cli.exits import Exit, exit_of
from awaken.cli.follow import Reader, is_over, pauses
from awaken.cli.options import complain, json_option, store_option
from awaken.cli.transcript import open_console
from awaken.codec import dumps_text
from awaken.domain.event import RunEvent
from awaken.domain.lifecycle import TerminationReason

LOOK_EVERY = 2.0
"""Seconds between two looks whether the process that runs the thread is still there."""


@click.command(short_help="Watch a thread or a run, in whichever process it is.")
@click.argument("id", metavar="THREAD|RUN")
@click.option("--after", metavar="SEQ", type=int, default=0, help="Begin after this event.")
@click.option("--no-follow", is_flag=True, help="What has happened so far, and no more.")
@click.option("--forever", is_flag=True, help="Stay when the run is over, for the next one.")
@store_option
@json_option
def watch(
    id: str, after: int, no_follow: bool, forever: bool, store: str | None, as_json: bool
) -> Exit:
    """Watch a thread or a run: first what has happened, then what happens, from any process.

    \b
      awaken watch case-7
      awaken watch case-7 --json --after 120
      awaken watch case-7 --forever

    It ends when no run of the thread is open any more; one that waits for an answer is. Ctrl-C
    stops watching and nothing else. Text appears when it is complete: its pieces are seen only by
    the process that runs the agent.

    The exit code is that of the run that ended last, as for `awaken run`; with --no-follow it is 0.
    """

    async def work(desk: Desk) -> Exit:
        watcher = Watcher(desk, await desk.find(id), as_json=as_json, forever=forever)
        try:
            await watcher.read(after, follow=not no_follow)
        except asyncio.CancelledError:
            watcher.say("no longer watching; the run goes on")
            raise
        return Exit.DONE if no_follow or not watcher.seen else exit_of(watcher.ending)

    return at_desk(store, work)


class Watcher:
    """Reads one thread, or one run of it, to the end."""

    def __init__(self, desk: Desk, subject: Subject, *, as_json: bool, forever: bool) -> None:
        self.seen = False
        self._desk, self._subject = desk, subject
        self._as_json, self._forever = as_json, forever
        self._reader = Reader(
            desk.runtime, subject.thread.id, open_console(sys.stdout), numbered=True
        )

    @property
    def ending(self) -> TerminationReason | None:
        return self._reader.ending

    async def read(self, after: int, *, follow: bool) -> None:
        """Show what is there, and with `follow` what comes, until there is nothing to wait for."""
        follow = follow and (self._forever or await self._open())
        async with asyncio.TaskGroup() as group:
            lookout = group.create_task(self._look_out()) if follow else None
            await self._read(after, follow)
            if lookout is not None:
                lookout.cancel()

    async def _read(self, after: int, follow: bool) -> None:
        thread, run = self._subject.thread.id, self._subject.run
        async for event in self._desk.runtime.events(thread, after=after, follow=follow):
            if run is not None and event.run_id != run.run_id:
                continue
            await self._show(event)
            over = follow and is_over(event) and not self._forever
            if over and not await self._open() and await self._is_latest(event):
                return

    async def _show(self, event: RunEvent) -> None:
        self.seen = True
        if self._as_json:
            click.echo(dumps_text(event))
            self._reader.view.tally.add(event)
            self._reader.ending = self._reader.view.tally.ending
        else:
            await self._reader.show(event)
        if pauses(event) and await self._is_latest(event):
            self.say(f"to answer: awaken decide {shlex.quote(self._subject.id)} yes")

    async def _open(self) -> bool:
        """Whether there is, or may be, more to come."""
        if self._subject.run is not None:
            run = await self._desk.runtime.find_run(self._subject.run.run_id)
            return run is not None and not run.status.is_terminal
        thread = await self._desk.store.load_thread(self._subject.thread.id)
        return thread is not None and thread.open_run_id is not None

    async def _is_latest(self, event: RunEvent) -> bool:
        thread = await self._desk.store.load_thread(event.thread_id)
        return thread is not None and thread.event_count <= (event.seq or 0)

    async def _look_out(self) -> None:
        """Say so if nobody carries the run on."""
        told: str | None = None
        while True:
            thread = await self._desk.store.load_thread(self._subject.thread.id)
            run_id = thread.open_run_id if thread is not None else None
            if run_id is not None and run_id != told and run_id in await self._desk.left_behind():
                told = run_id
                self.say(
                    "nobody runs it now; this goes on with it: awaken resume MODULE:AGENT "
                    + shlex.quote(self._subject.id)
                )
            await asyncio.sleep(LOOK_EVERY)

    def say(self, text: str) -> None:
        if self._as_json:
            complain(text)
        else:
            self._reader.view.note(text)
