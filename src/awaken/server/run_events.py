"""The events of one run: what a protocol's stream is made of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from awaken.core.aio.owned_tasks import start_task
from awaken.core.event import RunEvent, RunFinish
from awaken.core.lifecycle import CANCELLED, RunStatus
from awaken.core.run import RunRecord
from awaken.core.store.store import Store
from awaken.runtime.live.follow import Following
from awaken.server.call import Call
from awaken.server.client_ids import Names

Batches = AsyncGenerator[list[RunEvent], None]
INSIDE = Names("")
"""Leaves ids as stores have them."""


def follow_run(call: Call, run: RunRecord, *, after: int) -> Following:
    """The events of a run's thread and of the delegates beneath it, behind event `after`, with ids
    as the client sees them. A run that is withdrawn gets an end, as in `with_end`."""
    events = call.follow(run.thread_id, after=after, tree=True)
    return with_end(call.runtime.store, run, events, after=after, names=call.names)


def with_end(
    store: Store, run: RunRecord, events: Following, *, after: int, names: Names = INSIDE
) -> Following:
    """The events of a run's thread, with an end for the run at once if it is withdrawn before it
    starts: while the thread has an owner, the log does not have its events yet.

    Args:
        run: its record, read before `events` began.
        after: the number of an event before the run's first one, such as that of the last event
            that the client has.
        names: those of the client, if `events` has ids as the client sees them.
    """
    if run.status is not RunStatus.CREATED:
        return events
    return Following(_until_withdrawn(events.batches(), store, run, after, names))


async def _until_withdrawn(
    batches: Batches, store: Store, run: RunRecord, after: int, names: Names
) -> Batches:
    withdrawn = start_task(_withdrawn(store, run, after))
    is_given = False
    async with aclosing(batches):
        try:
            while True:
                batch = await _next(batches, withdrawn)
                if batch is None:
                    yield [names.event(withdrawn.result())]
                    is_given = True
                    break
                yield batch
                if any(event.run_id == run.run_id for event in batch):
                    break
        finally:
            withdrawn.cancel()
            await asyncio.wait([withdrawn])
        async for batch in batches:
            # An end that was given is not given again when the log has it.
            if batch := [one for one in batch if not (is_given and one.run_id == run.run_id)]:
                yield batch


async def _next(batches: Batches, withdrawn: asyncio.Task[RunEvent]) -> list[RunEvent] | None:
    """The next events; `None` if the run is withdrawn before they come."""
    coming = start_task(anext(batches))
    try:
        await asyncio.wait([coming, withdrawn], return_when=asyncio.FIRST_COMPLETED)
        return coming.result() if coming.done() else None
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
