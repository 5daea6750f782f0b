"""Cancelling with a receipt: what became of every run, task and call of a tree."""

from __future__ import annotations

import asyncio

from awaken.contract.commits import CallEntry, CallPhase
from awaken.contract.threads import ThreadContext
from awaken.domain.lifecycle import CancelledEnd, RunStatus
from awaken.domain.receipt import CancelItem, CancelOutcome, CancelReceipt
from awaken.domain.run import RunRecord
from awaken.runtime.runtime import AgentRuntime
from awaken.runtime.steer import cancel, descendants, find
from awaken.runtime.tasks import is_task

_STOPPED, _FINISHED, _UNKNOWN = (
    CancelOutcome.STOPPED,
    CancelOutcome.FINISHED,
    CancelOutcome.UNKNOWN,
)
_MAY_HAVE = "it is unknown whether it took effect"


async def cancel_with_receipt(runtime: AgentRuntime, id: str, deadline: float) -> CancelReceipt:
    """Cancel a run and all it has started, and say within `deadline` seconds what became of it."""
    live = runtime.active.find(id)
    place = await find(runtime, live.thread_id if live is not None else id)
    thread_id = place.thread_id if place is not None else id
    before = await _open_runs(runtime, thread_id)
    if not await cancel(runtime, id):
        return CancelReceipt(accepted=False)
    before |= await _open_runs(runtime, thread_id)
    try:
        async with asyncio.timeout(deadline):
            for run_thread, run_id in before.items():
                await _ended(runtime, run_thread, run_id)
    except TimeoutError:
        pass
    items: list[CancelItem] = []
    for run_thread, run_id in before.items():
        context = await runtime.store.load_context(run_thread, tail=0)
        record = await runtime.store.load_run(run_id)
        if context is not None and record is not None:
            items.extend(_items(record, context))
    return CancelReceipt(accepted=True, items=tuple(items))


async def _open_runs(runtime: AgentRuntime, thread_id: str) -> dict[str, str]:
    """The open runs of a tree, by thread."""
    own = await runtime.store.load_thread(thread_id)
    threads = [own] if own is not None else []
    threads.extend(await descendants(runtime.store, thread_id))
    return {t.id: t.open_run_id for t in threads if t.open_run_id is not None}


async def _ended(runtime: AgentRuntime, thread_id: str, run_id: str) -> None:
    """Wait until a run has ended, wherever it runs."""
    seen = 0
    while True:
        live = runtime.active.find_by_run(run_id)
        if live is not None:
            await live.wait_ended(None)
        thread = await runtime.store.load_thread(thread_id)
        if thread is None or thread.open_run_id != run_id:
            return
        seen = await runtime.store.changed(thread_id, seen)


def _items(record: RunRecord, context: ThreadContext) -> list[CancelItem]:
    """A run and the calls of its last turn."""
    run = CancelItem(
        kind="task" if is_task(record) else "run",
        id=record.run_id,
        name=record.agent_id,
        run_id=record.run_id,
        outcome=_run_outcome(record),
    )
    return [run, *[_call(entry) for entry in context.calls if entry.run_id == record.run_id]]


def _run_outcome(record: RunRecord) -> CancelOutcome:
    if record.status is not RunStatus.DONE:
        return _UNKNOWN
    return _STOPPED if isinstance(record.termination_reason, CancelledEnd) else _FINISHED


def _call(entry: CallEntry) -> CancelItem:
    match entry.phase:
        case CallPhase.SUCCEEDED | CallPhase.FAILED:
            outcome, note = _FINISHED, None
        case CallPhase.CANCELLED:
            outcome, note = _STOPPED, None
        case CallPhase.UNKNOWN if entry.stopped:
            outcome, note = _STOPPED, _MAY_HAVE
        case _:
            outcome, note = _UNKNOWN, None
    return CancelItem(
        kind="call",
        id=entry.call_id,
        name=entry.tool_name,
        run_id=entry.run_id,
        outcome=outcome,
        note=note,
    )
