"""The events of one run for a client's stream, and the other parts of such a stream.

- `follow_run` and `with_end` follow a run, also one that is withdrawn before it starts.
- `leave_callback` gives what is called if the client leaves before its stream has ended.
- `with_media` puts media into messages, for protocols whose clients get no files from the server.
- `find_open_run` finds the run of a thread that a client can follow, and where its events begin.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from itertools import takewhile
from typing import NamedTuple

from awaken.core.aio.owned_tasks import start_task
from awaken.core.blobs import RunBlobs
from awaken.core.event import RunEvent, RunFinish
from awaken.core.lifecycle import CANCELLED, RunStatus
from awaken.core.message import Message
from awaken.core.run import RunRecord
from awaken.core.store.commands import CommandKind, Submission, ThreadCommand
from awaken.core.store.store import Store
from awaken.core.store.threads import RunQuery
from awaken.core.thread import Thread
from awaken.engine.large_content import load_media
from awaken.runtime.live.follow import EventFollower
from awaken.server.call import ApiCall
from awaken.server.client_ids import ClientIds
from awaken.server.errors import HttpRefusal
from awaken.server.lookup import may_see_in
from awaken.server.route import KeyRole

Batches = AsyncGenerator[list[RunEvent], None]
UNSCOPED = ClientIds("")
"""Leaves ids as stores have them."""


def follow_run(call: ApiCall, run: RunRecord, *, after: int) -> EventFollower:
    """The events of a run's thread and of its delegates, behind event `after`, with ids
    as the client sees them. A run that is withdrawn gets an end, as in `with_end`."""
    events = call.follow(run.thread_id, after=after, tree=True)
    return with_end(call.runtime.store, run, events, after=after, ids=call.ids)


def with_end(
    store: Store, run: RunRecord, events: EventFollower, *, after: int, ids: ClientIds = UNSCOPED
) -> EventFollower:
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
    return EventFollower(_until_withdrawn(events.batches(), store, run, after, ids))


async def _until_withdrawn(
    batches: Batches, store: Store, run: RunRecord, after: int, ids: ClientIds
) -> Batches:
    withdrawn = start_task(_wait_withdrawn(store, run, after))
    is_sent = False
    async with aclosing(batches):
        try:
            while True:
                batch = await _next(batches, withdrawn)
                if batch is None:
                    yield [ids.event(withdrawn.result())]
                    is_sent = True
                    break
                yield batch
                if any(event.run_id == run.run_id for event in batch):
                    break
        finally:
            withdrawn.cancel()
            await asyncio.wait([withdrawn])
        async for batch in batches:
            # An end that was sent is not sent again when the log has it.
            if batch := [one for one in batch if not (is_sent and one.run_id == run.run_id)]:
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


async def _wait_withdrawn(store: Store, run: RunRecord, after: int) -> RunEvent:
    """Wait until a submitted run has ended without having started, and return an end for it."""
    seen = 0
    while True:
        seen = await store.wait_changed(run.thread_id, seen)
        now = await store.load_run(run.run_id)
        if now is not None and now.status is not RunStatus.DONE:
            continue
        events = await store.load_events(run.thread_id, after=after)
        if not any(event.run_id == run.run_id for event in events):
            end = RunFinish(thread_id=run.thread_id, run_id=run.run_id, termination=CANCELLED)
            at_ms = (now or run).updated_at_ms
            return RunEvent(thread_id=run.thread_id, run_id=run.run_id, at_ms=at_ms, event=end)


HEADER = "x-awaken-on-disconnect"
QUERY = "on_disconnect"


async def leave_callback(
    call: ApiCall, id: str, thread_id: str
) -> Callable[[], Awaitable[object]] | None:
    """What to call when the client leaves: `None`, unless the client asked that its run be
    cancelled then.

    Args:
        id: the id inside of the run, or of the thread whose open run it is.
        thread_id: the id inside of the run's thread.

    Raises:
        HttpRefusal: the client only watches the run, and may not cancel it.
    """
    action = call.request.headers.get(HEADER) or call.request.query_params.get(QUERY)
    if action != "cancel":
        return None
    submits = call.request.method == "POST"  # the run is the client's own then
    if not submits and not await _may_cancel(call, thread_id):
        raise HttpRefusal(
            403, "missing_role", "the run of another client is cancelled with role decide"
        )
    return lambda: call.runtime.cancel(id, deadline=0, principal=call.principal)


async def _may_cancel(call: ApiCall, thread_id: str) -> bool:
    can = call.has(KeyRole.INVOKE, KeyRole.DECIDE)
    return can and await may_see_in(call, thread_id, (KeyRole.DECIDE,))


async def with_media(call: ApiCall, messages: Sequence[Message]) -> Sequence[Message]:
    """The messages with the bytes of their media in them, also of media that the store keeps as
    blobs. A text replaces a blob that does not exist any more."""
    blobs = call.runtime.blobs
    if blobs is None:
        return messages
    scope = call.principal.scope
    return await load_media(RunBlobs(blobs=blobs, uses=call.runtime.store, scope=scope), messages)


class OpenRun(NamedTuple):
    """A run that is running, or will run without an action of a client.

    `before` is the number of the thread's last event before the run's first. `event_count` is the
    number of the thread's last event at a moment when the run was open: an end of the run up to
    there was a pause. `submission` is set if the run had not begun with it.
    """

    run: RunRecord
    before: int
    event_count: int
    submission: Submission | None = None

    def list_visible(self, log: Sequence[Message]) -> list[Message]:
        """The messages of the thread that the run has read when it has begun; `log` was read after
        the run's record."""
        if self.submission is None:
            return list(log)
        logged, rewound = {message.id for message in log}, self.submission.rewind_to
        kept = log
        if rewound is not None:
            kept = list(takewhile(lambda message: message.id != rewound, log))
        return [
            *kept,
            *(message for message in self.submission.messages if message.id not in logged),
        ]


async def find_open_run(store: Store, thread_id: str) -> OpenRun | None:
    """The thread's run that is running, has an answer to resume with, or has not started yet;
    `None` if there is none, or if it waits for an answer."""
    # The order of these reads matters: a command is dropped by the commit that changes the record.
    thread = await store.load_thread(thread_id)
    if thread is None:
        return None
    commands = await store.load_commands(thread_id)
    run = await _open_run(store, thread, commands)
    if run is None:
        return None
    submissions = [command.submission for command in commands if command.run_id == run.run_id]
    before = await event_before(store, thread, run)
    return OpenRun(run, before, thread.event_count, next(filter(None, submissions), None))


_RESUMING = (CommandKind.DECISIONS, CommandKind.CANCEL)


def can_resume(run: RunRecord, commands: Sequence[ThreadCommand]) -> bool:
    """Whether a waiting run will resume, in any process: it has an answer or a cancel.

    Args:
        commands: those of its thread, read before the record: the commit that drops a command
            changes the record, too.
    """
    return any(one.kind in _RESUMING and one.run_id in (None, run.run_id) for one in commands)


_LOOK_BACK = 200


async def event_before(store: Store, thread: Thread, run: RunRecord) -> int:
    """The number of the event before the run's first one. Its events are the thread's last, so
    they are looked for from the end."""
    back = _LOOK_BACK
    while True:
        after = max(0, thread.event_count - back)
        events = await store.load_events(thread.id, after=after, limit=back)
        mine = [index for index, event in enumerate(events) if event.run_id == run.run_id]
        if not mine:
            return thread.event_count
        if mine[0] > 0 or after == 0:
            return after + mine[0]
        back *= 2


async def _open_run(
    store: Store, thread: Thread, commands: Sequence[ThreadCommand]
) -> RunRecord | None:
    now = await store.load_thread(thread.id)
    if now is None:
        return None
    if now.open_run_id is None:
        submitted = RunQuery(thread_id=thread.id, status=RunStatus.CREATED, limit=1)
        return next(iter(await store.list_runs(submitted)), None)
    run = await store.load_run(now.open_run_id)
    if run is not None and run.status is RunStatus.WAITING:
        return run if can_resume(run, commands) else None
    return run
