"""An opened store, for commands that show and control its runs. These commands need no agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rich.text import Text

from awaken.cli.exit_codes import WAITS_FOR_TASKS, ExitCode, Mistake, describe_ending
from awaken.cli.output import silence_unreadable, terminal_line
from awaken.cli.store_address import resolve_existing_store
from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.lifecycle import RunStatus
from awaken.core.run import RunRecord
from awaken.core.secret import redact_address
from awaken.core.store.store import Store
from awaken.core.store.threads import RunQuery, ThreadQuery
from awaken.core.thread import Thread
from awaken.errors import UnreadableRecord
from awaken.ext.tasks.listing import BackgroundTask
from awaken.runtime import Runtime

SHORTEST_PREFIX = 4
MOST_NAMED = 8
LONGEST_STATE = 40
TO_RESUME = "to resume"
_STYLES = {
    TO_RESUME: "bold yellow",
    WAITS_FOR_TASKS: "cyan",
    "waiting": "yellow",
    "running": "cyan",
    "failed": "red",
}
_PAGE = 1_000


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The thread that an id names, or the run and its thread."""

    thread: Thread
    run: RunRecord | None = None

    @property
    def id(self) -> str:
        return self.thread.id if self.run is None else self.run.run_id

    @property
    def words(self) -> str:
        return terminal_line(
            f"thread {self.thread.id}" if self.run is None else f"run {self.run.run_id}"
        )


class StoreView:
    """An opened store, with lookups by id."""

    def __init__(self, runtime: Runtime, address: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self.runtime = runtime
        self.address = redact_address(address)
        self._clock = clock

    @property
    def store(self) -> Store:
        return self.runtime.store

    def now_ms(self) -> int:
        return self._clock.now_ms()

    async def find(self, text: str) -> Subject:
        """The thread or run that an id, or the beginning of one, names. A run is without its state
        and the ids of its messages.

        Raises:
            Mistake: there is none, or there are several.
            UnreadableRecord: the run cannot be read.
        """
        if thread := await self.store.load_thread(text):
            return Subject(thread=thread)
        # Not `load_run`, which reads the whole run.
        page = await self.store.list_runs(RunQuery(run_id=text))
        for row in page.unreadable:
            raise UnreadableRecord(row.kind, row.id, row.reason)
        for run in page:
            return await self._subject_of(run)
        if len(text) < SHORTEST_PREFIX:
            raise Mistake(
                f"{self.address} has no thread or run {text!r}; the beginning of an id has at "
                f"least {SHORTEST_PREFIX} characters"
            )
        threads, runs = await self._find_threads(text), await self._find_runs(text)
        # A thread and its first run are often created at the same instant, so their ids begin
        # alike.
        if len(threads) == 1 and all(run.thread_id == threads[0].id for run in runs):
            return Subject(thread=threads[0])
        if len(runs) == 1 and not threads:
            return await self._subject_of(runs[0])
        raise self._lookup_error(text, [t.id for t in threads], [r.run_id for r in runs])

    async def find_thread(self, text: str) -> Thread:
        """The thread that an id, or the beginning of one, names.

        Raises:
            Mistake: there is none, or there are several.
        """
        if thread := await self.store.load_thread(text):
            return thread
        found = await self._find_threads(text) if len(text) >= SHORTEST_PREFIX else []
        if len(found) == 1:
            return found[0]
        raise self._lookup_error(text, [thread.id for thread in found])

    async def find_resumable(self) -> frozenset[str]:
        """The ids of the runs that `awaken resume` would resume: the process of a run has ended, or
        an approver answered while no process ran it."""
        runs = await self.store.list_interrupted(now_ms=self.now_ms())
        return frozenset(run.run_id for run in runs)

    async def _subject_of(self, run: RunRecord) -> Subject:
        thread = await self.store.load_thread(run.thread_id)
        if thread is None:
            raise Mistake(
                f"run {run.run_id!r} of {self.address} names thread {run.thread_id!r}, which is "
                "not there: something other than awaken has changed the database"
            )
        return Subject(thread=thread, run=run)

    async def _find_threads(self, prefix: str) -> Sequence[Thread]:
        query = ThreadQuery(prefix=prefix, limit=MOST_NAMED + 1)
        return (await self.store.list_threads(query)).items

    async def _find_runs(self, prefix: str) -> list[RunRecord]:
        found: list[RunRecord] = []
        cursor: str | None = None
        while len(found) <= MOST_NAMED:
            page = await self.store.list_runs(RunQuery(limit=_PAGE, cursor=cursor))
            found += [run for run in page.items if run.run_id.startswith(prefix)]
            if (cursor := page.cursor) is None:
                break
        return found

    def _lookup_error(self, text: str, threads: Sequence[str], runs: Sequence[str] = ()) -> Mistake:
        found = [f"thread {id}" for id in threads] + [f"run {id}" for id in runs]
        if not found:
            return Mistake(
                f"{self.address} has nothing that begins with {text!r}: `awaken threads` and "
                "`awaken runs` list what there is"
            )
        more = ", …" if len(found) > MOST_NAMED else ""
        return Mistake(
            f"{text!r} can be several: {', '.join(found[:MOST_NAMED])}{more}. Give more of the id"
        )


@asynccontextmanager
async def open_store_view(store: str | None) -> AsyncIterator[StoreView]:
    """Open an existing store.

    Raises:
        Mistake: there is no such store.
        StoreUnavailable: the store cannot be used.
    """
    address = resolve_existing_store(store)
    with silence_unreadable():
        async with Runtime([], store=address, recover=False) as runtime:
            yield StoreView(runtime, address)


def run_with_store_view(
    store: str | None, work: Callable[[StoreView], Awaitable[ExitCode]]
) -> ExitCode:
    """Open an existing store and run `work` with it. Returns the exit code."""

    async def main() -> ExitCode:
        async with open_store_view(store) as store_view:
            return await work(store_view)

    return asyncio.run(main())


def format_run_state(run: RunRecord, resumable: frozenset[str]) -> Text:
    """The state of a run as styled text.

    Args:
        resumable: the result of `StoreView.find_resumable`.
    """
    if run.run_id in resumable:
        return _style_state(TO_RESUME)
    if run.status is RunStatus.DONE:
        return _style_state(terminal_line(describe_ending(run.termination_reason), LONGEST_STATE))
    return _style_state(WAITS_FOR_TASKS if run.is_background_task_waiting() else run.status.value)


def format_task_state(task: BackgroundTask, resumable: frozenset[str]) -> Text:
    """The state of a task."""
    return _style_state(TO_RESUME if task.id in resumable else task.status.value)


def format_thread_state(thread: Thread, resumable: frozenset[str]) -> Text:
    """The state of a thread's open run; `idle` if it has none."""
    if thread.open_run_id is None:
        return _style_state("idle")
    if thread.open_run_id in resumable:
        return _style_state(TO_RESUME)
    return _style_state((RunStatus.RUNNING if thread.active_run_id else RunStatus.WAITING).value)


def _style_state(words: str) -> Text:
    return Text(words, _STYLES.get(words.partition(":")[0], ""))
