"""Finding out whether any run in a store is still active, and which tickets are open."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.aio.cancel import wait_first
from awaken.core.lifecycle import RunStatus
from awaken.core.run import RunRecord
from awaken.core.store.commands import CommandKind
from awaken.core.store.store import Store
from awaken.core.store.threads import RunQuery, TicketQuery
from awaken.core.suspension import Ticket, TicketStatus
from awaken.testing.chaos.store_dump import task_of

_MAX_RESULTS = 500
POLL_SECONDS = 0.05
"""The most seconds to wait for a change before checking again."""


async def open_runs(store: Store) -> list[RunRecord]:
    """Runs that have not ended, in any thread."""
    found: list[RunRecord] = []
    for status in (RunStatus.RUNNING, RunStatus.WAITING, RunStatus.CREATED):
        found.extend(await store.list_runs(RunQuery(status=status, limit=_MAX_RESULTS)))
    return found


async def list_orphans(store: Store) -> list[RunRecord]:
    """The delegates that wait for nothing: their parent run has ended, they have not, and no
    cancel is pending for them. There must never be one, once the parent's end is committed."""
    orphans: list[RunRecord] = []
    for run in await open_runs(store):
        parent = await store.load_run(run.parent_run_id or "") if run.is_delegated else None
        if parent is not None and parent.status is RunStatus.DONE:
            commands = await store.load_commands(run.thread_id)
            if not any(command.kind is CommandKind.CANCEL for command in commands):
                orphans.append(run)
    return orphans


async def questions(store: Store) -> list[Ticket]:
    """The tickets that an approver can answer now."""
    tickets = await store.list_tickets(TicketQuery(status=TicketStatus.OPEN, limit=_MAX_RESULTS))
    return answerable(tickets, await open_runs(store))


def answerable(tickets: Iterable[Ticket], runs: Iterable[RunRecord]) -> list[Ticket]:
    """The tickets that an approver can answer. A delegate's ticket is answered through its parent
    run, and cannot be answered once that has ended.

    Args:
        runs: all runs that have not ended.
    """
    open_by_id = {run.run_id: run for run in runs}
    return [
        ticket
        for ticket in tickets
        if ticket.status is TicketStatus.OPEN
        and ticket.run_id in open_by_id
        and not _is_asked_through_parent(open_by_id[ticket.run_id], open_by_id)
    ]


def _is_asked_through_parent(run: RunRecord, open_by_id: dict[str, RunRecord]) -> bool:
    parent = open_by_id.get(run.parent_run_id or "")
    return run.is_delegated and (parent is None or task_of(parent) is None)


async def at_rest(store: Store, *, clock: Clock = SYSTEM_CLOCK) -> bool:
    """Whether all runs have ended or wait for an answer."""
    waiting = await open_runs(store)
    if any(run.status is not RunStatus.WAITING for run in waiting):
        return False
    # Looked at twice, because a thread may be claimed or released between the two reads.
    return (
        not await _has_owner(store, waiting)
        and not await store.list_interrupted(now_ms=clock.now_ms())
        and not await _has_owner(store, waiting)
    )


async def _has_owner(store: Store, runs: Iterable[RunRecord]) -> bool:
    """Whether the thread of one of the runs has an owner."""
    threads = [await store.load_thread(run.thread_id) for run in runs]
    return any(thread is not None and thread.owner is not None for thread in threads)


class ChangeWatcher:
    """Waits until one of the runs' threads has changed since the last call.

    `wait` also returns after `POLL_SECONDS`, because it does not watch threads that begin
    meanwhile.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[str, int] = {}

    async def wait(self, runs: Iterable[RunRecord]) -> None:
        threads = {run.thread_id for run in runs}
        await wait_first(*map(self._wait_changed, threads), asyncio.sleep(POLL_SECONDS))

    async def _wait_changed(self, thread_id: str) -> None:
        self._seen[thread_id] = await self._store.wait_changed(
            thread_id, self._seen.get(thread_id, 0)
        )
