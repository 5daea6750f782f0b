"""The events of one run: what a protocol's stream is made of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from awaken.contract.store import Store
from awaken.control.tasks import start_task
from awaken.domain.event import RunEvent, RunFinish
from awaken.domain.lifecycle import CANCELLED, RunStatus
from awaken.domain.run import RunRecord
from awaken.live.follow import Following
from awaken.server.call import Call

Batches = AsyncGenerator[list[RunEvent], None]


def follow_run(call: Call, run: RunRecord, *, after: int) -> Following:
    """The events of a run's thread and of the delegates beneath it, behind event `after`, with ids
    as the client sees them. A run that is withdrawn before it starts has no events: its end is made
    up."""
    events = call.follow(run.thread_id, after=after, tree=True)
    if run.status is not RunStatus.CREATED:
        return events
    return Following(_until_withdrawn(call, run, after, events.batches()))


async def _until_withdrawn(call: Call, run: RunRecord, after: int, batches: Batches) -> Batches:
    withdrawn = start_task(_withdrawn(call.runtime.store, run, after))
    async with aclosing(batches):
        try:
            while True:
                batch = await _next(batches, withdrawn)
                yield [call.names.event(event) for event in batch]
                if any(event.run_id == run.run_id for event in batch):
                    break
        finally:
            withdrawn.cancel()
            await asyncio.wait([withdrawn])
        async for batch in batches:
            yield batch


async def _next(batches: Batches, withdrawn: asyncio.Task[RunEvent]) -> list[RunEvent]:
    coming = start_task(anext(batches))
    try:
        await asyncio.wait([coming, withdrawn], return_when=asyncio.FIRST_COMPLETED)
        return coming.result() if coming.done() else [withdrawn.result()]
    finally:
        if not coming.done():
            coming.cancel()
            await asyncio.wait([coming])


async def _withdrawn(store: Store, run: RunRecord, after: int) -> RunEvent:
    """Wait until a submitted run has ended without having started, and return an end for it."""
    seen = 0
    while True:
        seen = await store.changed(run.thread_id, seen)
        now = await store.load_run(run.run_id)
        if now is not None and now.status is not RunStatus.DONE:
            continue
        events = await store.load_events(run.thread_id, after=after)
        if not any(told.run_id == run.run_id for told in events):
            end = RunFinish(thread_id=run.thread_id, run_id=run.run_id, termination=CANCELLED)
            at_ms = (now or run).updated_at_ms
            return RunEvent(thread_id=run.thread_id, run_id=run.run_id, at_ms=at_ms, event=end)
