"""The follower: everything that happens in a thread, first what was, then what is.

There is one follower for all clients. It reads commits behind a cursor from the store, and listens
to the live bus from then on; `awaken.runtime.live.cursor` decides what the reader has not got yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Any

from awaken.core.aio.owned_tasks import start_task
from awaken.core.bus import LiveBus, Subscription, SupportsReplay
from awaken.core.event import RunEvent, StepSnapshot
from awaken.core.store.commits import StreamLogEntry
from awaken.core.store.store import Store
from awaken.errors import InvalidCursor
from awaken.runtime.live.cursor import Desynchronized, FollowerCursor

PAGE = 200
MAX_BUS_DELAY_SECONDS = 1.0
"""If the bus sends nothing for that many seconds after a change, the store is read instead."""
_RETRY_SECONDS = 0.01
_MAX_SNAPSHOTS = 100


class EventFollower(AsyncGenerator[RunEvent, None]):
    """The events of a followed thread: one by one with `async for`, or in lists with
    `batches`."""

    def __init__(self, batches: AsyncGenerator[list[RunEvent], None]) -> None:
        self._batches = batches
        self._next: list[RunEvent] = []

    def batches(self) -> AsyncGenerator[list[RunEvent], None]:
        """The events in lists; a list is what has come while the reader was busy."""
        return self._batches

    async def asend(self, value: None) -> RunEvent:
        while not self._next:
            self._next = (await anext(self._batches))[::-1]
        return self._next.pop()

    async def athrow(self, *error: Any) -> RunEvent:
        self._next = []
        await self._batches.athrow(*error)
        return await self.asend(None)

    async def aclose(self) -> None:
        self._next = []
        await self._batches.aclose()


def follow(
    store: Store,
    bus: LiveBus,
    thread_id: str,
    after: int = 0,
    live: tuple[int, int] | None = None,
) -> EventFollower:
    """The events of a thread behind `seq` `after`, in whichever process they happen; never ends.

    Gives every durable event once and in order; some come `ahead` of their commit. Transient events
    come in order, perhaps not all: after a loss a `StepSnapshot` replaces the deltas of the step.
    A `StreamReset` voids the step's deltas, and with `from_seq` what was given ahead.

    Args:
        live: the place of the last event that the reader has got, if it has got any that were not
            stored. It goes on behind that event if the owner's bus still knows what it has got;
            else a `StreamReset` voids it first.

    Raises:
        InvalidCursor: the thread does not have that many events.
    """
    return EventFollower(_follow(store, bus, FollowerCursor(thread_id, after), live))


async def _follow(
    store: Store, bus: LiveBus, cursor: FollowerCursor, live: tuple[int, int] | None
) -> AsyncGenerator[list[RunEvent], None]:
    await check_cursor(store, cursor.thread_id, cursor.seq)
    if live is not None:
        cursor, first_events = resume_cursor(bus, cursor, live)
        if first_events:
            yield first_events
    async with aclosing(follow_from(store, bus, cursor)) as batches:
        async for batch in batches:
            yield batch


async def check_cursor(store: Store, thread_id: str, after: int) -> None:
    """
    Raises:
        InvalidCursor: the thread does not have that many events.
    """
    if after == 0:
        return
    thread = await store.load_thread(thread_id)
    last = thread.event_count if thread is not None else 0
    if not 0 < after <= last:
        raise InvalidCursor(thread_id, after, last)


def resume_cursor(
    bus: LiveBus, cursor: FollowerCursor, live: tuple[int, int]
) -> tuple[FollowerCursor, list[RunEvent]]:
    """The cursor of a reader that comes back, and the events that it gets first. The reader has the
    stored events up to `cursor`, and unstored ones up to the one that was sent at `live`."""
    sent = bus.find_replay(cursor.thread_id, live[0]) if isinstance(bus, SupportsReplay) else None
    known = (
        FollowerCursor.from_replay(cursor.thread_id, sent, live[1]) if sent is not None else None
    )
    if known is not None and known.seq == cursor.seq:
        return known, []
    return cursor, [cursor.reset_event()]


async def follow_from(
    store: Store, bus: LiveBus, cursor: FollowerCursor
) -> AsyncGenerator[list[RunEvent], None]:
    """The events that a reader at `cursor` has not got yet, in batches; never ends."""
    async with AsyncExitStack() as stack:
        subscription = await stack.enter_async_context(bus.listen(cursor.thread_id))
        follower = await stack.enter_async_context(_Follower(store, bus, cursor, subscription))
        while True:
            async for batch in follower.catch_up():
                yield batch
            async for batch in follower.live():
                yield batch


class _Follower:
    """Brings one reader up to date, and keeps it so.

    `_changed` says that a process has written to the thread since it was read.
    """

    def __init__(
        self, store: Store, bus: LiveBus, cursor: FollowerCursor, subscription: Subscription
    ) -> None:
        self._store, self._bus, self._cursor, self._subscription = store, bus, cursor, subscription
        self._answers = self._changed = False

    async def __aenter__(self) -> _Follower:
        self._watching = start_task(self._watch())
        self._watching.add_done_callback(lambda _: self._subscription.wake())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watching.cancel()
        with suppress(BaseException):
            await asyncio.wait([self._watching])

    async def _watch(self) -> None:
        """Wake the listener when any process has written to the thread."""
        seen = 0
        while True:
            seen = await self._store.wait_changed(self._cursor.thread_id, seen)
            self._changed = True
            self._subscription.wake()

    # -- from the store -----------------------------------------------------------------------

    async def catch_up(self) -> AsyncIterator[list[RunEvent]]:
        """What the reader has missed: what is stored, then what the owner has of the open step."""
        cursor = self._cursor
        for _ in range(_MAX_SNAPSHOTS):
            self._changed = False
            async for batch in self._read():
                yield batch
            state = await self._bus.snapshot(cursor.thread_id)
            self._answers = state is not None
            if state is None:
                break
            try:
                given = cursor.on_publisher_state(state)
            except Desynchronized:
                # A commit was made between the two reads, or its events are just being sent.
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if given:
                yield given
            return
        cursor.on_gap()
        if given := await self._read_open_step():
            yield given

    async def _read(self) -> AsyncIterator[list[RunEvent]]:
        cursor, limit = self._cursor, PAGE
        while True:
            before = cursor.seq
            page = await self._store.load_commits(cursor.thread_id, after=before, limit=limit)
            if given := [event for view in page for event in cursor.on_commit(view)]:
                yield given
            if len(page) < limit:
                return
            limit = PAGE if cursor.seq > before else 2 * limit  # commits may have no events

    async def _read_open_step(self) -> list[RunEvent]:
        """What the store has of the open step, if no owner can be asked."""
        cursor = self._cursor
        thread = await self._store.load_thread(cursor.thread_id)
        given = cursor.on_owner_gone() if thread is None or thread.owner is None else []
        pieces = await self._store.load_stream_log(cursor.thread_id)
        turn = _open_answer(pieces)
        if turn is not None and thread is not None and thread.event_count == cursor.seq:
            given += cursor.on_stored_answer(pieces[0].run_id, turn)
        return given

    # -- live ---------------------------------------------------------------------------------

    async def live(self) -> AsyncIterator[list[RunEvent]]:
        """What comes, until the store has to be read again."""
        cursor = self._cursor
        while True:
            try:
                async with asyncio.timeout(MAX_BUS_DELAY_SECONDS if self._changed else None):
                    batch = await self._subscription.receive()
            except TimeoutError:
                return  # the bus has not sent what the store has
            if self._watching.done():
                self._watching.result()
            if batch.lost:
                cursor.on_gap()
                return
            given: list[RunEvent] = []
            is_in_step = True
            try:
                cursor.on_live_events(batch.events, given)
            except Desynchronized:
                is_in_step = False
            if given:
                yield given
            if not is_in_step:
                return
            if batch.events:
                self._changed = False
            elif self._changed and not self._answers:
                return


def _open_answer(pieces: Sequence[StreamLogEntry]) -> StepSnapshot | None:
    """What has been stored of an unfinished answer; `None` if that is nothing, or its message is
    not known."""
    if not pieces or not pieces[0].message_id:
        return None
    calls: dict[str, tuple[str, str]] = {}
    for id, name, written in (call for piece in pieces for call in piece.calls):
        calls[id] = (name, calls.get(id, ("", ""))[1] + written)
    return StepSnapshot(
        message_id=pieces[0].message_id,
        text="".join(piece.text for piece in pieces),
        calls=tuple((id, name, written) for id, (name, written) in calls.items()),
    )
