"""`/v1` events: of a thread or a run, in pages or as a stream."""

from __future__ import annotations

from starlette.types import ASGIApp

from awaken.core.event import RunEvent
from awaken.core.thread import Thread
from awaken.errors import InvalidCursor
from awaken.server.call import Call, JsonResponse
from awaken.server.lookup import find_run, find_thread
from awaken.server.request_types import PageSize
from awaken.server.response_types import View
from awaken.server.route import Role, Route
from awaken.server.routes.streams import StreamAsked, asked_cursor, stream_events

_MOST_READ = 5_000
"""How many events of a thread are looked through for one page of a run's."""


class EventsAsked(StreamAsked, frozen=True, kw_only=True):
    """Which events: those behind the cursor `after`. A page has at most `limit`. A stream of a run
    ends with the run, and with `until=run` any stream ends when a run of the thread ends or
    pauses."""

    limit: PageSize = 100


class EventPage(View, frozen=True, kw_only=True):
    """Durable events in their order; the next page is behind `cursor`."""

    items: tuple[RunEvent, ...]
    cursor: str
    has_more: bool


async def of_thread(call: Call) -> ASGIApp:
    return await _answer(call, await find_thread(call, call.path("thread")), None)


async def of_run(call: Call) -> ASGIApp:
    run, thread = await find_run(call, call.path("run"))
    return await _answer(call, thread, run.run_id)


async def _answer(call: Call, thread: Thread, run_id: str | None) -> ASGIApp:
    asked: EventsAsked = call.query
    if not call.wants_stream:
        return JsonResponse(await _page(call, thread, run_id))
    if run_id is None:
        return await stream_events(call, thread.id, asked, run_id=thread.open_run_id)
    return await stream_events(call, thread.id, asked, run_id=run_id, only_run=True, until="end")


async def _page(call: Call, thread: Thread, run_id: str | None) -> EventPage:
    asked: EventsAsked = call.query
    cursor = asked_cursor(call, asked)
    after = cursor.seq if cursor is not None else 0
    if after > thread.event_count:
        raise InvalidCursor(thread.id, after, thread.event_count)
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


_NEEDS = (Role.INVOKE, Role.READ)
ROUTES = tuple(
    Route(
        method="GET",
        path=path,
        handle=handle,
        name=f"read_{what}_events",
        summary=f"Read or follow the events of a {what}",
        needs=_NEEDS,
        query=EventsAsked,
        answers=answers,
        errors=(410,),
        streams=True,
        takes_tokens=True,
    )
    for what, path, handle, answers in (
        ("thread", "/v1/threads/{thread}/events", of_thread, {200: EventPage}),
        ("run", "/v1/runs/{run}/events", of_run, {200: EventPage, 204: None}),
    )
)
