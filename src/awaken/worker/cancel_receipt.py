"""Cancelling with a receipt that says how each run, task and call of the tree ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence

from awaken.core.aio.owned_tasks import log_end
from awaken.core.lifecycle import CancelledEnd, RunStatus
from awaken.core.run import CancelItem, CancelOutcome, CancelReceipt, RunRecord
from awaken.core.store.commits import CallEntry, CallPhase
from awaken.core.task import StoredTask
from awaken.core.thread_ids import child_ids, task_uid
from awaken.errors import UnreadableRecord
from awaken.worker.operations import CancelTargets, finish_cancelled, request_cancel
from awaken.worker.orphans import has_agent, is_elsewhere, levels
from awaken.worker.submissions import withdraw
from awaken.worker.worker import Worker

_STOPPED, _FINISHED, _UNKNOWN = (
    CancelOutcome.STOPPED,
    CancelOutcome.FINISHED,
    CancelOutcome.UNKNOWN,
)
_MAY_HAVE = "it is unknown whether it took effect"
_TOO_LATE = "it had not ended in time"
log = logging.getLogger("awaken.runtime")


async def cancel_with_receipt(
    runtime: Worker, id: str, deadline: float, by: str | None = None
) -> CancelReceipt:
    """Cancel a run and everything it started. After at most `deadline` seconds, returns how each
    of them ended. `by` is the id of the principal that cancels.

    The cancel is stored first. If ending takes longer than the deadline, or the caller is
    cancelled, it goes on in a task of the runtime.
    """
    since = runtime.clock.now_ms() // 1000
    withdrawn = await withdraw(runtime, id, by)
    if withdrawn is not None:
        return CancelReceipt(accepted=True, items=(_run(runtime, withdrawn),))
    targets = await request_cancel(runtime, id, by)
    if not targets:
        return CancelReceipt(accepted=False)
    tree = _CancelTree(runtime, targets, since)
    ending = runtime.owned.start(finish_cancelled(runtime, targets), f"cancel {id}")
    try:
        async with asyncio.timeout(deadline):
            await asyncio.shield(ending)
            await tree.wait_ended()
    except TimeoutError:
        pass
    finally:
        if not ending.done():
            log_end(ending, "a cancel that took longer than its deadline has failed", log)
    return CancelReceipt(accepted=True, items=tuple(await tree.items()))


class _CancelTree:
    """The runs that a cancel reached, with their threads."""

    def __init__(self, runtime: Worker, targets: CancelTargets, since: int) -> None:
        self._runtime = runtime
        self._live = targets.live
        self._since = since
        self._runs = {
            thread.open_run_id or "": thread.id
            for level in levels(targets.threads)
            for thread in level
        }

    async def wait_ended(self) -> None:
        """Wait until all of them have ended, in any process, and also the runs that they started
        before the cancel reached them."""
        if self._live is not None:
            await self._live.wait_ended(None)
            if self._live.run_id is not None:
                self._runs.setdefault(self._live.run_id, self._live.thread_id)
        seen: set[str] = set()
        while new := [run_id for run_id in self._runs if run_id not in seen]:
            for run_id in new:
                await self._wait_run_ended(run_id, self._runs[run_id])
                await self._add_started(run_id)
            seen.update(new)

    async def _wait_run_ended(self, run_id: str, thread_id: str) -> None:
        runtime, number = self._runtime, 0
        while True:
            live = runtime.active.find_by_run(run_id)
            if live is not None:
                await live.wait_ended(None)
            thread = await runtime.store.load_thread(thread_id)
            if thread is None or thread.open_run_id != run_id:
                return
            if thread.owner is None:
                try:
                    await runtime.store.load_run(run_id)
                except UnreadableRecord:
                    return  # it waits, with its cancel, until it can be read
            number = await runtime.store.wait_changed(thread_id, number)

    async def _add_started(self, run_id: str) -> None:
        """Add the runs that a run's calls started, if they are open or were ended by this
        cancel."""
        try:
            calls = await self._runtime.store.load_calls(run_id)
        except UnreadableRecord:
            return
        for name in _list_started_runs(self._runs[run_id], calls):
            if name in self._runs:
                continue
            run = await self._runtime.store.load_run(name)
            if run is not None and self._belongs_to_cancel(run):
                self._runs[name] = run.thread_id

    def _belongs_to_cancel(self, run: RunRecord) -> bool:
        if run.status is not RunStatus.DONE:
            return True
        ended_now = run.finished_at is None or run.finished_at >= self._since
        return ended_now and isinstance(run.termination_reason, CancelledEnd)

    async def items(self) -> list[CancelItem]:
        found: list[CancelItem] = []
        for run_id in self._runs:
            try:
                record = await self._runtime.store.load_run(run_id)
                calls = await self._runtime.store.load_calls(run_id)
            except UnreadableRecord as error:
                found.append(_unreadable(run_id, error))
                continue
            if record is not None:
                found.append(_run(self._runtime, record))
                found.extend(map(_call, calls))
        return found


def _list_started_runs(thread_id: str, calls: Sequence[CallEntry]) -> Iterator[str]:
    """The ids of runs that these calls of a thread may have started: the delegate of each call that
    did not succeed, and the background task of each successful call of the last step. The id of an
    earlier version's task is its call's key."""
    last = calls[-1].key.rpartition(":")[0] if calls else ""
    for call in calls:
        if call.phase is not CallPhase.SUCCEEDED:
            yield from child_ids(thread_id, call.key)
        elif call.key.rpartition(":")[0] == last:
            yield from (call.key, task_uid(thread_id, call.key))


def _run(runtime: Worker, record: RunRecord) -> CancelItem:
    outcome, note = _run_outcome(runtime, record)
    return CancelItem(
        kind="task" if record.is_task else "run",
        id=record.run_id,
        name=_name(record),
        run_id=record.run_id,
        outcome=outcome,
        note=note,
    )


def _unreadable(run_id: str, error: UnreadableRecord) -> CancelItem:
    note = f"{error}. Its cancel is stored, and ends it when it can be read"
    return CancelItem(kind="run", id=run_id, name="", run_id=run_id, outcome=_UNKNOWN, note=note)


def _name(record: RunRecord) -> str:
    """The run's agent id, or the task's name, else its description or type."""
    if not record.is_task:
        return record.agent_id
    task = StoredTask.of(record).task
    return task.name or task.description or task.task_type


def _run_outcome(runtime: Worker, record: RunRecord) -> tuple[CancelOutcome, str | None]:
    if record.status is not RunStatus.DONE:
        if is_elsewhere(record) and not has_agent(runtime, record):
            return _UNKNOWN, (
                f"a backend runs it, and only its agent can stop it: it ends as soon as a runtime "
                f"that has agent '{record.agent_id}' is opened with recover=True; if that never "
                "happens, delete its thread with force=True"
            )
        return _UNKNOWN, _TOO_LATE
    if record.left_running is not None:
        return _UNKNOWN, record.left_running
    task = StoredTask.of(record).task if record.is_task else None
    if task is not None and task.outcome_unknown:
        return _STOPPED if task.stoppable else _UNKNOWN, _MAY_HAVE
    stopped = isinstance(record.termination_reason, CancelledEnd)
    return _STOPPED if stopped else _FINISHED, None


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
