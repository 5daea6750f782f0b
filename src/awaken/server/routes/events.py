"""`/v1` events: of a thread or a run, in pages or as a stream."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Literal

from starlette.types import ASGIApp

from awaken.codec import Json
from awaken.domain.event import DURABLE, RunEvent, RunFinish, is_terminal
from awaken.domain.lifecycle import Suspended
from awaken.domain.thread import Thread
from awaken.errors import InvalidCursor
from awaken.server.call import Call, JsonResponse
from awaken.server.errors import Refused
from awaken.server.finding import find_run, find_thread
from awaken.server.given import CURSOR, Cursor, Given, PageSize
from awaken.server.sse import EventStream
from awaken.server.table import Role, Route
from awaken.server.views import View

_MOST_READ = 5_000
"""How many events of a thread are looked through for one page of a run's."""


class EventsAsked(Given, frozen=True, kw_only=True):
    """Which events: those behind the cursor `after`. The others are for streams: with `tree` those
    of delegates and tasks, too; without `deltas` only durable ones. A stream of a run ends with the
    run, and with `until=run` any stream ends when a run of the thread ends or pauses."""

    after: Cursor = "0"
    limit: PageSize = 100
    tree: bool = False
    deltas: bool = True
    until: Literal["run"] | None = None


class EventPage(View, frozen=True, kw_only=True):
    """Durable events in their order; the next page is behind `cursor`."""

    items: tuple[RunEvent, ...]
    cursor: str
    has_more: bool


class PlainEncoder:
    """The events themselves."""

    def start(self) -> list[Json]:
        return []

    def encode(self, event: RunEvent) -> list[Json]:
        return [event]

    def finish(self) -> list[Json]:
        return []


async def of_thread(call: Call) -> ASGIApp:
    return await _answer(call, await find_thread(call, call.path("thread")), None)


async def of_run(call: Call) -> ASGIApp:
    run, thread = await find_run(call, call.path("run"))
    return await _answer(call, thread, run.run_id)


async def _answer(call: Call, thread: Thread, run_id: str | None) -> ASGIApp:
    asked: EventsAsked = call.query
    after = _seq(call, asked)
    if after > thread.event_count:
        raise InvalidCursor(thread.id, after, thread.event_count)
    if call.wants_stream:
        return _stream(call, thread, run_id, after)
    return JsonResponse(await _page(call, thread, run_id, after))


def _seq(call: Call, asked: EventsAsked) -> int:
    """The number of the last durable event that the client has; `Last-Event-ID` beats `after`."""
    given = call.request.headers.get("last-event-id", asked.after)
    if not re.fullmatch(CURSOR, given):
        raise Refused(400, "bad_cursor", "Last-Event-ID is the id of an event of this stream")
    return int(given.partition(".")[0])


async def _page(call: Call, thread: Thread, run_id: str | None, after: int) -> EventPage:
    asked: EventsAsked = call.query
    items: list[RunEvent] = []
    read, store = 0, call.runtime.store
    while len(items) < asked.limit and read < _MOST_READ:
        found = await store.load_events(thread.id, after=after, limit=asked.limit - len(items))
        if not found:
            break
        items += [event for event in found if run_id in (None, event.run_id)]
        after += len(found)
        read += len(found)
    return EventPage(
        items=tuple(map(call.names.event, items)),
        cursor=str(after),
        has_more=after < thread.event_count,
    )


def _stream(call: Call, thread: Thread, run_id: str | None, after: int) -> EventStream:
    asked: EventsAsked = call.query
    events = call.follow(thread.id, after=after, tree=asked.tree)
    own, outside = call.names.outside(thread.id), call.names.outside_if(run_id)
    if outside is not None:
        events = _of_run(events, own, outside)
    if not asked.deltas:
        events = _durable(events)
    ends = asked.until == "run"

    def is_last(told: RunEvent) -> bool:
        if told.thread_id != own or not is_terminal(told.event):
            return False
        return ends or (outside is not None and not _is_paused(told))

    return EventStream(events, PlainEncoder(), is_last=is_last)


def _is_paused(told: RunEvent) -> bool:
    """Whether the run goes on when its questions are answered."""
    return isinstance(told.event, RunFinish) and isinstance(told.event.termination, Suspended)


async def _of_run(
    events: AsyncGenerator[RunEvent, None], thread_id: str, run_id: str
) -> AsyncGenerator[RunEvent, None]:
    """The events of one run of a thread, and those of threads beneath it."""
    async with aclosing(events):
        async for event in events:
            if event.run_id == run_id or event.thread_id != thread_id:
                yield event


async def _durable(events: AsyncGenerator[RunEvent, None]) -> AsyncGenerator[RunEvent, None]:
    async with aclosing(events):
        async for event in events:
            if isinstance(event.event, DURABLE):
                yield event


_NEEDS = (Role.INVOKE, Role.READ)
ROUTES = tuple(
    Route(
        method="GET",
        path=path,
        handle=handle,
        summary=f"Read or follow the events of a {what}",
        needs=_NEEDS,
        query=EventsAsked,
        answers={200: EventPage},
        errors=(410,),
        streams=True,
        takes_tokens=True,
    )
    for what, path, handle in (
        ("thread", "/v1/threads/{thread}/events", of_thread),
        ("run", "/v1/runs/{run}/events", of_run),
    )
)
