"""Cancelling with a receipt: what became of every run, task and call of a tree."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from awaken.contract.commits import CallEntry, CallPhase
from awaken.domain.lifecycle import CancelledEnd, RunStatus
from awaken.domain.receipt import CancelItem, CancelOutcome, CancelReceipt
from awaken.domain.run import RunRecord
from awaken.runtime.runtime import AgentRuntime
from awaken.runtime.steer import cancel, descendants, find
from awaken.runtime.task_records import KeptTask, is_task

_STOPPED, _FINISHED, _UNKNOWN = (
    CancelOutcome.STOPPED,
    CancelOutcome.FINISHED,
    CancelOutcome.UNKNOWN,
)
_MAY_HAVE = "it is unknown whether it took effect"
_TOO_LATE = "it had not ended in time"
log = logging.getLogger("awaken.runtime")

Spawn = Callable[[Awaitable[bool]], asyncio.Task[bool]]
"""Starts a task that somebody owns."""


async def cancel_with_receipt(
    runtime: AgentRuntime, id: str, deadline: float, spawn: Spawn
) -> CancelReceipt:
    """Cancel a run and all it has started, and say within `deadline` seconds what became of it.

    What takes longer goes on in a task that `spawn` starts, whoever waits for it.
    """
    live = runtime.active.find(id)
    place = await find(runtime, live.thread_id if live is not None else id)
    thread_id = live.thread_id if live is not None else place.thread_id if place else id
    tree = _Tree(runtime, thread_id)
    await tree.look()
    asked = spawn(cancel(runtime, id))
    try:
        async with asyncio.timeout(deadline):
            if not await asyncio.shield(asked):
                return CancelReceipt(accepted=False)
            if live is not None:
                await live.wait_ended(None)
            while await tree.look():
                await tree.ended()
    except TimeoutError:
        pass
    finally:
        if not asked.done():
            asked.add_done_callback(_ended_late)
    items: list[CancelItem] = []
    for run_id in tree.runs.values():
        record = await runtime.store.load_run(run_id)
        if record is not None:
            items.extend(_items(record, await runtime.store.load_calls(run_id)))
    return CancelReceipt(accepted=live is not None or bool(tree.runs), items=tuple(items))


def _ended_late(asked: asyncio.Task[bool]) -> None:
    if not asked.cancelled() and (error := asked.exception()) is not None:
        log.error("a cancel that took too long has failed", exc_info=error)


class _Tree:
    """The runs a cancel has to do with, by their threads, as far as they were found."""

    def __init__(self, runtime: AgentRuntime, thread_id: str) -> None:
        self.runs: dict[str, str] = {}
        self._runtime = runtime
        self._root = thread_id
        self._over: dict[str, str | None] | None = None
        self._awaited: set[str] = set()

    async def look(self) -> bool:
        """Find the runs that are open, and from the second time on also those that were begun
        meanwhile; whether there are some nobody has waited for."""
        own = await self._runtime.store.load_thread(self._root)
        threads = [] if own is None else [own]
        threads.extend(await descendants(self._runtime.store, self._root))
        over, first = self._over or {}, self._over is None
        for thread in threads:
            if first:
                over[thread.id] = thread.latest_run_id
            begun = thread.latest_run_id if over.get(thread.id) != thread.latest_run_id else None
            run_id = thread.open_run_id or begun
            if run_id is not None:
                self.runs.setdefault(thread.id, run_id)
        self._over = over
        return not self._awaited.issuperset(self.runs)

    async def ended(self) -> None:
        """Wait until the runs that were found have ended, wherever they run."""
        for thread_id, run_id in self.runs.items():
            await self._ended(thread_id, run_id)
            self._awaited.add(thread_id)

    async def _ended(self, thread_id: str, run_id: str) -> None:
        runtime, seen = self._runtime, 0
        while True:
            live = runtime.active.find_by_run(run_id)
            if live is not None:
                await live.wait_ended(None)
            thread = await runtime.store.load_thread(thread_id)
            if thread is None or thread.open_run_id != run_id:
                return
            seen = await runtime.store.changed(thread_id, seen)


def _items(record: RunRecord, calls: Sequence[CallEntry]) -> list[CancelItem]:
    """A run and its calls."""
    outcome = _run_outcome(record)
    run = CancelItem(
        kind="task" if is_task(record) else "run",
        id=record.run_id,
        name=_name(record),
        run_id=record.run_id,
        outcome=outcome,
        note=_TOO_LATE if outcome is _UNKNOWN else None,
    )
    return [run, *map(_call, calls)]


def _name(record: RunRecord) -> str:
    """The agent whose run it is, or what a task was called by who started it, or does."""
    if not is_task(record):
        return record.agent_id
    task = KeptTask.of(record).task
    return task.name or task.description or task.task_type


def _run_outcome(record: RunRecord) -> CancelOutcome:
    if record.status is not RunStatus.DONE:
        return _UNKNOWN
    return _STOPPED if isinstance(record.termination_reason, CancelledEnd) else _FINISHED


def _call(entry: CallEntry) -> CancelItem:
    note: str | None
    match entry.phase:
        case CallPhase.SUCCEEDED | CallPhase.FAILED:
            outcome, note = _FINISHED, None
        case CallPhase.CANCELLED:
            outcome, note = _STOPPED, None
        case CallPhase.UNKNOWN:
            outcome, note = _STOPPED if entry.stopped else _UNKNOWN, _MAY_HAVE
        case CallPhase.INTENT | CallPhase.SUSPENDED:
            outcome, note = _UNKNOWN, _TOO_LATE
    return CancelItem(
        kind="call",
        id=entry.call_id,
        name=entry.tool_name,
        run_id=entry.run_id,
        outcome=outcome,
        note=note,
    )
