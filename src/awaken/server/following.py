"""The events of one run, to its end: what a protocol's stream is made of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from awaken.contract.store import Store
from awaken.contract.threads import ThreadQuery
from awaken.control.tasks import start_task
from awaken.domain.event import RunEvent, RunFinish
from awaken.domain.lifecycle import CANCELLED, RunStatus
from awaken.domain.run import RunRecord
from awaken.front.runtime import Runtime
from awaken.live.bus import LocalBus
from awaken.live.follow import Following
from awaken.live.tree import follow_tree

Batches = AsyncGenerator[list[RunEvent], None]


def follow_run(
    runtime: Runtime, run: RunRecord, *, after: int, is_last: Callable[[RunEvent], bool]
) -> Following:
    """The events of a run's thread and of the delegates beneath it, behind event `after`.

    Delegates are read side by side with the run; what is still missing of them is given before the
    run's last event. A run that is withdrawn before it starts has no events: its end is made up.
    """
    events = runtime.follow(run.thread_id, after=after, tree=True)
    batches = _until_withdrawn(runtime.store, run, after, events.batches())
    return Following(_with_delegates(runtime.store, run.thread_id, after, batches, is_last))


async def _with_delegates(
    store: Store,
    thread_id: str,
    after: int,
    batches: Batches,
    is_last: Callable[[RunEvent], bool],
) -> Batches:
    given: dict[str, int] = {}
    async with aclosing(batches):
        async for batch in batches:
            for index, event in enumerate(batch):
                if event.thread_id != thread_id and event.seq is not None:
                    given[event.thread_id] = event.seq
                if is_last(event):
                    missing = await _missing(store, thread_id, after, given)
                    batch[index:index] = missing
                    break
            yield batch


async def _missing(
    store: Store, thread_id: str, after: int, given: dict[str, int]
) -> list[RunEvent]:
    """What the threads beneath have, and was not given."""
    if not await store.list_threads(ThreadQuery(ancestor_thread_id=thread_id, limit=1)):
        return []
    async with aclosing(follow_tree(store, LocalBus(), thread_id, after, live=False)) as events:
        return [
            event
            async for event in events
            if event.thread_id != thread_id
            and (event.seq is None or event.seq > given.get(event.thread_id, 0))
        ]


async def _until_withdrawn(store: Store, run: RunRecord, after: int, batches: Batches) -> Batches:
    """The events, or the end of a submitted run that was cancelled before it started."""
    async with aclosing(batches):
        if run.status is RunStatus.CREATED:
            withdrawn = start_task(_withdrawn(store, run, after))
            try:
                while True:
                    batch = await _next(batches, withdrawn)
                    yield batch
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
