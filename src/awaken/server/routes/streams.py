"""`/v1` streams: the events of a thread or run, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Literal

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp

from awaken.domain.event import RunEvent, is_terminal
from awaken.domain.lifecycle import RunStatus
from awaken.domain.run import RunRecord
from awaken.front.runtime import Runtime
from awaken.live.follow import Following, check_cursor
from awaken.server.bodies import read_query
from awaken.server.call import Call
from awaken.server.cursor import Cursor
from awaken.server.errors import Refused
from awaken.server.event_frames import EventFrames, as_it_is
from awaken.server.sse import EventStream, until_run_ends
from awaken.server.table import Role, Route

PAGE = 500


class StreamAsked(msgspec.Struct, frozen=True, kw_only=True):
    """How a client wants to follow.

    - `after` is the `id` of the last event that it has; the header `Last-Event-ID` beats it.
    - `tree`: also events of the threads of delegates and background tasks.
    - `deltas`: without them, only durable events are sent.
    - `until`: the stream ends when the run ends or pauses (`run`), or when nothing works for it any
      more (`rest`: a run that waits for its own background tasks is followed on).
    - `on_disconnect=cancel` cancels the run if the client leaves before the stream has ended.
    """

    after: str | None = None
    tree: bool = False
    deltas: bool = True
    until: Literal["run", "rest"] | None = None
    on_disconnect: Literal["cancel", "none"] | None = None


def wants_stream(call: Call) -> bool:
    """Whether the client asks for server-sent events."""
    return "text/event-stream" in call.request.headers.get("accept", "")


async def stream_events(
    call: Call,
    thread_id: str,
    *,
    run_id: str | None = None,
    after: int | None = None,
    until: Literal["run", "rest"] | None = None,
) -> ASGIApp:
    """Follow a thread, as the query and the headers of the request say.

    Args:
        thread_id: the id inside, with the scope. The caller has checked that the client may see it.
        run_id: the run whose end `until` means.
        after, until: what holds if the client says nothing.

    Raises:
        Refused: 400, the cursor is none; 410, the thread does not have that many events.
    """
    asked: StreamAsked = read_query(call.request, StreamAsked)
    given = call.request.headers.get("last-event-id") or asked.after
    cursor = Cursor(after or 0) if given is None else Cursor.read(given)
    await check_cursor(call.runtime.store, thread_id, cursor.seq)
    until = asked.until or until
    if run_id is None or until is None:
        until = None
    elif await _is_over(call.runtime, thread_id, run_id, cursor.seq, until):
        return Response(status_code=204)  # the client need not come back: nothing follows
    events = call.runtime.follow(thread_id, after=cursor.seq, live=cursor.live, tree=asked.tree)
    if until == "rest" and run_id is not None:
        events = Following(_until_rest(call.runtime, events, run_id))
    return EventStream(
        events,
        EventFrames(thread_id, cursor.seq, call.names, deltas=asked.deltas),
        is_last=until_run_ends(run_id) if until == "run" and run_id is not None else _never,
        frame=as_it_is,
        on_leave=_on_leave(call, asked, run_id or thread_id),
    )


def _never(event: RunEvent) -> bool:
    return False


def _on_leave(call: Call, asked: StreamAsked, id: str) -> Callable[[], Awaitable[object]] | None:
    wanted = call.request.headers.get("x-awaken-on-disconnect") or asked.on_disconnect
    if wanted != "cancel":
        return None
    return lambda: call.runtime.cancel(id, deadline=0, principal=call.principal)


async def _is_over(runtime: Runtime, thread_id: str, run_id: str, after: int, until: str) -> bool:
    """Whether a run tells nothing more behind `after`."""
    record = await runtime.find_run(run_id)
    if record is None or not _is_at_rest(record, until):
        return False
    while page := await runtime.store.load_events(thread_id, after=after, limit=PAGE):
        if any(is_terminal(event.event) and event.run_id == run_id for event in page):
            return False
        after += len(page)
    return True


def _is_at_rest(record: RunRecord, until: str) -> bool:
    if record.status is RunStatus.WAITING:
        return until == "run" or not record.is_background_task_waiting()
    return record.status is RunStatus.DONE


async def _until_rest(
    runtime: Runtime, events: Following, run_id: str
) -> AsyncGenerator[list[RunEvent], None]:
    """The events until the run has ended, or waits for an answer."""
    async with aclosing(events):
        async for batch in events.batches():
            yield batch
            if any(is_terminal(event.event) and event.run_id == run_id for event in batch):
                record = await runtime.find_run(run_id)
                if record is None or _is_at_rest(record, "rest"):
                    return


# -- routes -------------------------------------------------------------------------------------


async def thread_events(call: Call) -> ASGIApp:
    thread_id = call.names.inside(call.path("thread"))
    thread = await call.runtime.store.load_thread(thread_id)
    if thread is None:
        raise Refused(404, "not_found", "there is no such thread")
    return await stream_events(call, thread_id, run_id=thread.open_run_id)


async def run_events(call: Call) -> ASGIApp:
    record = await call.runtime.find_run(call.path("run"))
    if record is None:
        raise Refused(404, "not_found", "there is no such run")
    return await stream_events(call, record.thread_id, run_id=record.run_id, until="run")


ROUTES = (
    Route(
        method="GET",
        path="/v1/threads/{thread}/events",
        handle=thread_events,
        summary="Follow a thread",
        needs=(Role.READ, Role.INVOKE),
        query=StreamAsked,
        answers={200: bytes},
        streams=True,
    ),
    Route(
        method="GET",
        path="/v1/runs/{run}/events",
        handle=run_events,
        summary="Follow a run",
        needs=(Role.READ, Role.INVOKE),
        query=StreamAsked,
        answers={200: bytes, 204: None},
        streams=True,
    ),
)
