"""`/v1` events: those of a thread or a run, in pages or as a stream of server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Literal

from starlette.responses import Response
from starlette.types import ASGIApp

from awaken.core.event import AgentEvent, RunEvent, RunFinish, is_terminal
from awaken.core.lifecycle import RunStatus, Suspended
from awaken.core.run import RunRecord
from awaken.core.thread import Thread
from awaken.errors import InvalidCursor
from awaken.runtime.live.follow import EventFollower, check_cursor
from awaken.runtime.runtime import Runtime
from awaken.server.call import ApiCall, JsonResponse
from awaken.server.event_frames import Cursor, EventFrames
from awaken.server.lookup import find_run, find_thread
from awaken.server.request_types import CursorText, PageSize, RequestPart
from awaken.server.response_types import ResponsePart
from awaken.server.route import KeyRole, Route
from awaken.server.run_events import can_resume, leave_callback, with_end
from awaken.server.sse import SseResponse, until_run_ends

_NEEDS = (KeyRole.INVOKE, KeyRole.READ)
PAGE = 500
_MAX_READ = 5_000
"""The most events of a thread that are read for one page of a run's events."""


class StreamAsked(RequestPart, frozen=True, kw_only=True):
    """How a client wants to follow.

    - `after` is the `id` of the last event that it has; the header `Last-Event-ID` beats it.
    - `tree`: also events of the threads of delegates and background tasks.
    - `deltas`: without them, only durable events are sent.
    - `until`: the stream ends when the run ends or pauses (`run`), or when nothing works for it any
      more (`rest`: a run that waits for its own background tasks is followed on).
    - `on_disconnect=cancel` cancels the run if the client leaves before the stream has ended.
    """

    after: CursorText | None = None
    tree: bool = False
    deltas: bool = True
    until: Literal["run", "rest"] | None = None
    on_disconnect: Literal["cancel", "none"] | None = None


class EventsAsked(StreamAsked, frozen=True, kw_only=True):
    """Which events: those behind the cursor `after`. A page has at most `limit`. A stream of a run
    ends with the run, and with `until=run` any stream ends when a run of the thread ends or
    pauses."""

    limit: PageSize = 100


class EventPage(ResponsePart, frozen=True, kw_only=True):
    """Durable events in their order; the next page is behind `cursor`."""

    items: tuple[RunEvent, ...]
    cursor: str
    has_more: bool


async def read_thread_events(call: ApiCall) -> ASGIApp:
    return await _answer(call, await find_thread(call, call.path("thread")), None)


async def read_run_events(call: ApiCall) -> ASGIApp:
    run, thread = await find_run(call, call.path("run"))
    return await _answer(call, thread, run.run_id)


async def _answer(call: ApiCall, thread: Thread, run_id: str | None) -> ASGIApp:
    asked: EventsAsked = call.query
    if not call.wants_stream:
        return JsonResponse(await _page(call, thread, run_id))
    if run_id is None:
        return await stream_events(call, thread.id, asked, run_id=thread.open_run_id)
    return await stream_events(call, thread.id, asked, run_id=run_id, only_run=True, until="end")


async def _page(call: ApiCall, thread: Thread, run_id: str | None) -> EventPage:
    asked: EventsAsked = call.query
    cursor = parse_cursor(call, asked)
    after = cursor.seq if cursor is not None else 0
    if after > thread.event_count:
        raise InvalidCursor(thread.id, after, thread.event_count)
    items: list[RunEvent] = []
    read, store = 0, call.runtime.store
    while len(items) < asked.limit and read < _MAX_READ:
        found = await store.load_events(thread.id, after=after, limit=asked.limit - len(items))
        if not found:
            break
        items += [event for event in found if run_id in (None, event.run_id)]
        after += len(found)
        read += len(found)
    return EventPage(
        items=tuple(map(call.ids.event, items)),
        cursor=str(after),
        has_more=after < thread.event_count,
    )


async def stream_events(
    call: ApiCall,
    thread_id: str,
    asked: StreamAsked,
    *,
    run_id: str | None = None,
    only_run: bool = False,
    after: int = 0,
    until: Literal["run", "rest", "end"] | None = None,
) -> ASGIApp:
    """Follow a thread, as the query and the headers of the request say.

    Args:
        thread_id: the id inside, with the scope. The caller has checked that the client may see it.
        run_id: the run whose end `until` means, and which `on_disconnect` cancels; `None` is the
            thread's next run to end.
        only_run: leave out events of other runs of the thread.
        after, until: the defaults if the client says nothing; `end` is the run's end, and no pause.

    Raises:
        HttpRefusal: 400, the cursor is invalid; 403, the client may not cancel the run; 410, the
            thread does not have that many events.
    """
    cursor = parse_cursor(call, asked) or Cursor(after)
    await check_cursor(call.runtime.store, thread_id, cursor.seq)
    until = asked.until or until  # the client's choice has priority
    is_last: Callable[[RunEvent], bool] = _never
    run = await call.runtime.find_run(run_id) if until is not None and run_id is not None else None
    if until is not None and run_id is not None:
        if run is not None and await _is_over(call.runtime, run, cursor.seq, until):
            return Response(status_code=204)  # the client need not reconnect: nothing follows
        if until == "run":
            is_last = until_run_ends(run_id)
        elif until == "end":
            is_last = _until_end(run_id)
    elif until is not None:
        is_last = _until_any_end(thread_id)
    events = call.runtime.follow(thread_id, after=cursor.seq, live=cursor.live, tree=asked.tree)
    if run is not None:
        events = with_end(call.runtime.store, run, events, after=cursor.seq)
    if until == "rest" and run_id is not None:
        events = EventFollower(_until_rest(call.runtime, events, thread_id, run_id))
    return SseResponse(
        events,
        EventFrames(
            thread_id,
            cursor.seq,
            call.ids,
            run_id=run_id if only_run else None,
            deltas=asked.deltas,
        ),
        is_last=is_last,
        frame=None,
        on_leave=await leave_callback(call, run_id or thread_id, thread_id),
    )


def parse_cursor(call: ApiCall, asked: StreamAsked) -> Cursor | None:
    """The cursor behind which the client wants to continue; `None` if it gives none.

    Raises:
        HttpRefusal: the cursor is invalid.
    """
    given = call.request.headers.get("last-event-id")
    if given is None:
        given = asked.after
    return None if given is None else Cursor.read(given)


def _until_end(run_id: str) -> Callable[[RunEvent], bool]:
    return lambda event: (
        event.run_id == run_id and is_terminal(event.event) and not _is_paused(event.event)
    )


def _is_paused(event: AgentEvent) -> bool:
    """Whether the run has paused: it resumes when its questions are answered."""
    return isinstance(event, RunFinish) and isinstance(event.termination, Suspended)


def _until_any_end(thread_id: str) -> Callable[[RunEvent], bool]:
    return lambda event: event.thread_id == thread_id and is_terminal(event.event)


def _never(event: RunEvent) -> bool:
    return False


async def _is_over(runtime: Runtime, run: RunRecord, after: int, until: str) -> bool:
    """Whether a run has no events behind `after`, and none to come."""
    if not await _is_at_rest(runtime, run.thread_id, run.run_id, until):
        return False
    while page := await runtime.store.load_events(run.thread_id, after=after, limit=PAGE):
        if any(is_terminal(event.event) and event.run_id == run.run_id for event in page):
            return False
        after += len(page)
    return True


async def _is_at_rest(runtime: Runtime, thread_id: str, run_id: str, until: str) -> bool:
    """Whether a run has ended, or waits and has nothing to resume with."""
    # In this order: the commit that drops a command changes the record, too.
    commands = await runtime.store.load_commands(thread_id)
    record = await runtime.find_run(run_id)
    if record is None or record.status is RunStatus.DONE:
        return True
    if until == "end" or record.status is not RunStatus.WAITING or can_resume(record, commands):
        return False
    return until == "run" or not record.is_background_task_waiting()


async def _until_rest(
    runtime: Runtime, events: EventFollower, thread_id: str, run_id: str
) -> AsyncGenerator[list[RunEvent], None]:
    """The events until the run has ended, or waits for an answer."""
    async with aclosing(events):
        async for batch in events.batches():
            yield batch
            has_paused = any(is_terminal(one.event) and one.run_id == run_id for one in batch)
            if has_paused and await _is_at_rest(runtime, thread_id, run_id, "rest"):
                return


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
        ("thread", "/v1/threads/{thread}/events", read_thread_events, {200: EventPage}),
        ("run", "/v1/runs/{run}/events", read_run_events, {200: EventPage, 204: None}),
    )
)
