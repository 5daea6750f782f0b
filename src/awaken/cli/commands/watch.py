"""`awaken watch`: what happens in a thread, whichever process it happens in."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing

import click

from awaken.cli.commands.decide import open_tickets
from awaken.cli.exit_codes import ExitCode, exit_code_for
from awaken.cli.options import json_option, store_option
from awaken.cli.output import complain, open_console, say_json
from awaken.cli.question import line_to_answer, shell_word
from awaken.cli.store_view import StoreView, Subject, run_with_store_view
from awaken.cli.thread_printer import ThreadPrinter, is_over, is_pause
from awaken.core.event import RunEvent
from awaken.core.lifecycle import TerminationReason
from awaken.runtime.live.tree import follow_tree
from awaken.runtime.metrics_hooks import descendants
from awaken.stores.bus.local import LocalBus

POLL_SECONDS = 2.0
"""Seconds between two checks for runs whose process has ended."""


@click.command(short_help="Watch a thread or a run, in whichever process it is.")
@click.argument("id", metavar="THREAD|RUN")
@click.option("--after", metavar="SEQ", type=int, default=0, help="Begin after this event.")
@click.option("--no-follow", is_flag=True, help="What has happened so far, and no more.")
@click.option("--forever", is_flag=True, help="Stay when the run is over, for the next one.")
@store_option
@json_option
def watch(
    id: str, after: int, no_follow: bool, forever: bool, store: str | None, as_json: bool
) -> ExitCode:
    """Watch a thread or a run: first what has happened, then what happens, from any process.

    \b
      awaken watch case-7
      awaken watch case-7 --json --after 120
      awaken watch case-7 --forever

    It ends when no run of the thread is open any more; one that waits for an answer is. Ctrl-C
    stops watching and nothing else. Text appears when it is complete: its pieces are seen only by
    the process that runs the agent.

    What delegates and background tasks do stands further in, with their names. In the JSON, their
    events have a thread of their own, and a seq in it; --after counts the events of the thread
    that is watched.

    The exit code is that of the run that ended last, as for `awaken run`; with --no-follow it is 0.
    """

    async def work(store_view: StoreView) -> ExitCode:
        watcher = Watcher(store_view, await store_view.find(id), as_json=as_json, forever=forever)
        try:
            await watcher.read(after, follow=not no_follow)
        except asyncio.CancelledError:
            watcher.say("no longer watching; the run goes on")
            raise
        return ExitCode.DONE if no_follow or not watcher.seen else exit_code_for(watcher.ending)

    return run_with_store_view(store, work)


class Watcher:
    """Reads one thread, or one run of it, to the end."""

    def __init__(
        self, store_view: StoreView, subject: Subject, *, as_json: bool, forever: bool
    ) -> None:
        self.seen = False
        self._store_view, self._subject = store_view, subject
        self._as_json, self._forever = as_json, forever
        self._child_run_ids: set[str] = set()
        self._printer = ThreadPrinter(
            store_view.runtime, subject.thread.id, open_console(sys.stdout), numbered=True
        )

    @property
    def ending(self) -> TerminationReason | None:
        return self._printer.ending

    async def read(self, after: int, *, follow: bool) -> None:
        """Show the stored events and, with `follow`, the next ones, until no run is open."""
        follow = follow and (self._forever or await self._has_open_run())
        caught_up = asyncio.Event()
        events = follow_tree(
            self._store_view.store,
            LocalBus(),
            self._subject.thread.id,
            after,
            live=follow,
            caught_up=caught_up,
        )
        async with asyncio.TaskGroup() as group:
            check = group.create_task(self._watch_for_lost_process(caught_up)) if follow else None
            async with aclosing(events):
                await self._read(events, follow)
            if check is not None:
                check.cancel()

    async def _read(self, events: AsyncIterator[RunEvent], follow: bool) -> None:
        async for event in events:
            if event.seq is None or not self._is_watched(event):
                continue  # texts are printed from the log
            await self._show(event)
            over = follow and is_over(event) and not self._forever and self._is_own(event)
            if over and not await self._has_open_run() and await self._is_latest(event):
                return

    def _is_own(self, event: RunEvent) -> bool:
        return event.thread_id == self._subject.thread.id

    def _is_watched(self, event: RunEvent) -> bool:
        """Whether an event belongs to the watched thread or run, or to its delegates and tasks."""
        run = self._subject.run
        if run is None or event.run_id == run.run_id:
            return True
        if event.parent_run_id in (run.run_id, *self._child_run_ids):
            self._child_run_ids.add(event.run_id)
        return event.run_id in self._child_run_ids

    async def _show(self, event: RunEvent) -> None:
        self.seen = True
        if self._as_json:
            say_json(event)
            self._printer.count(event)
        else:
            await self._printer.show(event)
        if is_pause(event) and self._is_own(event) and await self._is_latest(event):
            for ticket in await open_tickets(self._store_view, self._subject):
                self.say(f"to answer: {line_to_answer(self._subject.id, ticket)}")

    async def _has_open_run(self) -> bool:
        """Whether the watched run, or a run of the watched thread, is open."""
        if self._subject.run is not None:
            run = await self._store_view.runtime.find_run(self._subject.run.run_id)
            return run is not None and not run.status.is_terminal
        thread = await self._store_view.store.load_thread(self._subject.thread.id)
        return thread is not None and thread.open_run_id is not None

    async def _is_latest(self, event: RunEvent) -> bool:
        thread = await self._store_view.store.load_thread(event.thread_id)
        return thread is not None and thread.event_count <= (event.seq or 0)

    async def _watch_for_lost_process(self, caught_up: asyncio.Event) -> None:
        """Print a note when no process runs an open run any more."""
        reported_id: str | None = None
        await caught_up.wait()
        while True:
            resumable = await self._store_view.find_resumable()
            lost = next((id for id in await self._list_open_runs() if id in resumable), None)
            if lost is not None and lost != reported_id:
                reported_id = lost
                self.say(
                    "nobody runs it now; this goes on with it: awaken resume MODULE:AGENT "
                    + shell_word(self._subject.id)
                )
            await asyncio.sleep(POLL_SECONDS)

    async def _list_open_runs(self) -> list[str]:
        """The ids of the open runs of the thread and of its child threads."""
        store, id = self._store_view.store, self._subject.thread.id
        head = await store.load_thread(id)
        heads = [] if head is None else [head, *await descendants(store, id)]
        return [head.open_run_id for head in heads if head.open_run_id is not None]

    def say(self, text: str) -> None:
        if self._as_json:
            complain(text)
        else:
            self._printer.view.note(text)
