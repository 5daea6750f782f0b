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
from awaken.core.bus import Listening, LiveBus, Recalls
from awaken.core.event import RunEvent, StepSnapshot
from awaken.core.store.commits import StreamLogEntry
from awaken.core.store.store import Store
from awaken.errors import InvalidCursor
from awaken.runtime.live.cursor import OutOfStep, Place

PAGE = 200
SILENCE = 1.0
"""Seconds for which the bus may say nothing of a change before the store is read instead."""
_ASK_AGAIN = 0.01
_MOST_ASKS = 100


class Following(AsyncGenerator[RunEvent, None]):
    """The events that a follower gives: one by one with `async for`, or all that have come since
    the last look with `batches`."""

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
) -> Following:
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
    return Following(_follow(store, bus, Place(thread_id, after), live))


async def _follow(
    store: Store, bus: LiveBus, place: Place, live: tuple[int, int] | None
) -> AsyncGenerator[list[RunEvent], None]:
    await check_cursor(store, place.thread_id, place.cursor)
    if live is not None:
        place, told = come_back(bus, place, live)
        if told:
            yield told
    async with aclosing(go_on(store, bus, place)) as batches:
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


def come_back(bus: LiveBus, place: Place, live: tuple[int, int]) -> tuple[Place, list[RunEvent]]:
    """Where a reader goes on that stands at `place` in the log, and has got events behind it up to
    the one sent at `live`; and what it is told first."""
    sent = bus.recall(place.thread_id, live[0]) if isinstance(bus, Recalls) else None
    known = Place.behind(place.thread_id, sent, live[1]) if sent is not None else None
    if known is not None and known.cursor == place.cursor:
        return known, []
    return place, [place.came_back()]


async def go_on(store: Store, bus: LiveBus, place: Place) -> AsyncGenerator[list[RunEvent], None]:
    """The events that a reader at `place` has not got yet, in batches; never ends."""
    async with AsyncExitStack() as stack:
        listening = await stack.enter_async_context(bus.listen(place.thread_id))
        follower = await stack.enter_async_context(_Follower(store, bus, place, listening))
        while True:
            async for batch in follower.catch_up():
                yield batch
            async for batch in follower.live():
                yield batch


class _Follower:
    """Brings one reader up to date, and keeps it so.

    `_changed` says that a process has written to the thread since it was read.
    """

    def __init__(self, store: Store, bus: LiveBus, place: Place, listening: Listening) -> None:
        self._store, self._bus, self._place, self._listening = store, bus, place, listening
        self._answers = self._changed = False

    async def __aenter__(self) -> _Follower:
        self._watching = start_task(self._watch())
        self._watching.add_done_callback(lambda _: self._listening.wake())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watching.cancel()
        with suppress(BaseException):
            await asyncio.wait([self._watching])

    async def _watch(self) -> None:
        """Wake the listener when any process has written to the thread."""
        seen = 0
        while True:
            seen = await self._store.changed(self._place.thread_id, seen)
            self._changed = True
            self._listening.wake()

    # -- from the store -----------------------------------------------------------------------

    async def catch_up(self) -> AsyncIterator[list[RunEvent]]:
        """What the reader has missed: what is stored, then what the owner has of the open step."""
        place = self._place
        for _ in range(_MOST_ASKS):
            self._changed = False
            async for batch in self._read():
                yield batch
            standing = await self._bus.snapshot(place.thread_id)
            self._answers = standing is not None
            if standing is None:
                break
            try:
                given = place.standing(standing)
            except OutOfStep:
                # A commit was made between the two reads, or its events are just being sent.
                await asyncio.sleep(_ASK_AGAIN)
                continue
            if given:
                yield given
            return
        place.lose()
        if given := await self._from_the_store():
            yield given

    async def _read(self) -> AsyncIterator[list[RunEvent]]:
        place, limit = self._place, PAGE
        while True:
            before = place.cursor
            page = await self._store.load_commits(place.thread_id, after=before, limit=limit)
            if given := [event for view in page for event in place.stored(view)]:
                yield given
            if len(page) < limit:
                return
            limit = PAGE if place.cursor > before else 2 * limit  # commits may have no events

    async def _from_the_store(self) -> list[RunEvent]:
        """What the store has of the open step, if no owner can be asked."""
        place = self._place
        thread = await self._store.load_thread(place.thread_id)
        given = place.unowned() if thread is None or thread.owner is None else []
        pieces = await self._store.load_stream_log(place.thread_id)
        turn = _open_answer(pieces)
        if turn is not None and thread is not None and thread.event_count == place.cursor:
            given += place.pieces(pieces[0].run_id, turn)
        return given

    # -- live ---------------------------------------------------------------------------------

    async def live(self) -> AsyncIterator[list[RunEvent]]:
        """What comes, until the store has to be read again."""
        place = self._place
        while True:
            try:
                async with asyncio.timeout(SILENCE if self._changed else None):
                    heard = await self._listening.heard()
            except TimeoutError:
                return  # the bus has not told what the store has
            if self._watching.done():
                self._watching.result()
            if heard.lost:
                place.lose()
                return
            given: list[RunEvent] = []
            is_in_step = True
            try:
                place.heard_all(heard.events, given)
            except OutOfStep:
                is_in_step = False
            if given:
                yield given
            if not is_in_step:
                return
            if heard.events:
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
