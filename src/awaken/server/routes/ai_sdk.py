"""The routes of the AI SDK, as `useChat` of the versions 6 and 7 calls them.

A chat is a thread, and one run of it is one message of the agent. The edge answers errors of these
routes with plain text, because the client shows the text of such an answer to people.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import ASGIApp

from awaken.core.event import RunEvent, is_terminal
from awaken.core.run import RunRecord
from awaken.core.store.threads import RunQuery, TicketQuery
from awaken.core.suspension import Ticket, TicketStatus
from awaken.runtime.live.tree import follow_tree
from awaken.server.call import ApiCall, JsonResponse
from awaken.server.errors import not_found_error
from awaken.server.lookup import READERS
from awaken.server.protocols.ai_sdk.encode import AiSdkEncoder
from awaken.server.protocols.ai_sdk.history import History, frontend_of
from awaken.server.protocols.ai_sdk.ingest import ingest
from awaken.server.protocols.ai_sdk.request import ChatRequest, major_version, read_request
from awaken.server.protocols.base import KnownThread
from awaken.server.route import CHAT_LIMIT, KeyRole, Route
from awaken.server.run_events import (
    event_before,
    find_open_run,
    follow_run,
    leave_callback,
    with_media,
)
from awaken.server.sse import SseResponse
from awaken.server.submit import carry_out, load_known, load_visible_thread

DOCS = "https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol"
VERSION_HEADER = "x-ai-sdk-version"
HEADERS = [(b"x-vercel-ai-ui-message-stream", b"v1")]
DONE = b"data: [DONE]\n\n"
_PAGE = 200
_MAX_RESULTS = 1_000


async def send(call: ApiCall) -> ASGIApp:
    """Submit a message or an answer, and stream the run."""
    request = read_request(call.body)
    thread = call.ids.new(request.id)
    agent = call.request.path_params.get("agent")
    asked = ingest(
        request, await _load_known(call, thread, request), thread_id=thread, agent_id=agent
    )
    taken = await carry_out(call, asked)
    run = await call.runtime.find_run(taken.run_id)
    if run is None:
        raise not_found_error("chat")
    version = call.request.headers.get(VERSION_HEADER) or request.ai_sdk_version
    after = taken.cursor
    if asked.messages and asked.decisions:
        # Behind a user's message the client begins the message of the run once more.
        after = await _before_run(call, run)
    return await _stream(call, run, after=after, ends_behind=taken.cursor, version=version)


async def _load_known(call: ApiCall, thread: str, request: ChatRequest) -> KnownThread:
    """The messages and tickets that the store has of a chat. A request that ends with an agent's
    message answers that run, perhaps for the second time."""
    stored = await load_known(call, thread)
    run_id = request.messages[-1].id if request.messages else None
    runs = {message.produced_by_run_id() for message in stored.messages}
    if run_id is None or run_id not in runs:
        return stored
    asked = await _tickets(call, TicketQuery(thread_id=thread, run_id=run_id, limit=_MAX_RESULTS))
    named = {ticket.key for ticket in stored.tickets}
    still_open = [one for one in asked if one.status is TicketStatus.OPEN and one.key not in named]
    closed = [one for one in asked if one.status is not TicketStatus.OPEN]
    tickets = (*stored.tickets, *still_open)
    return msgspec.structs.replace(stored, tickets=tickets, closed=tuple(closed))


async def _tickets(call: ApiCall, query: TicketQuery) -> list[Ticket]:
    found: list[Ticket] = []
    while True:
        page = await call.runtime.list_tickets(query)
        found += page
        if page.cursor is None:
            return found
        query = msgspec.structs.replace(query, cursor=page.cursor)


async def _before_run(call: ApiCall, run: RunRecord) -> int:
    """The number of the event before the run's first one."""
    thread = await call.runtime.store.load_thread(run.thread_id)
    if thread is None:
        raise not_found_error("chat")
    return await event_before(call.runtime.store, thread, run)


async def resume(call: ApiCall) -> ASGIApp:
    """Stream the open run once more from its beginning; 204 if there is none."""
    thread = call.ids.new(call.path("chat"))
    await load_visible_thread(call, thread)
    found = await find_open_run(call.runtime.store, thread)
    if found is None:
        return Response(status_code=204)
    version = call.request.headers.get(VERSION_HEADER)
    return await _stream(
        call, found.run, after=found.before, ends_behind=found.event_count, version=version
    )


async def _stream(
    call: ApiCall, run: RunRecord, *, after: int, ends_behind: int, version: int | str | None
) -> SseResponse[RunEvent]:
    """Follow a run from event `after`, until it ends or pauses behind event `ends_behind`."""
    encoder = AiSdkEncoder(
        thread_id=call.ids.outside(run.thread_id),
        run_id=run.run_id,
        agent_id=run.agent_id,
        frontend=frontend_of(run),
        version=major_version(version),
    )

    def is_last(event: RunEvent) -> bool:
        is_new = event.seq is None or event.seq > ends_behind
        return event.run_id == run.run_id and is_new and is_terminal(event.event)

    return SseResponse(
        follow_run(call, run, after=after),
        encoder,
        is_last=is_last,
        headers=HEADERS,
        end=DONE,
        cut_when_closed=True,
        on_leave=await leave_callback(call, run.run_id, run.thread_id),
    )


async def cancel(call: ApiCall) -> ASGIApp:
    """Cancel the open run, with all runs that it has started."""
    # A key that may only invoke cancels its own runs.
    thread = await _existing(call, (KeyRole.DECIDE,))
    receipt = await call.runtime.cancel(thread, principal=call.principal)
    return JsonResponse({"cancelled": bool(receipt)})


async def messages(call: ApiCall) -> ASGIApp:
    """The messages of a chat, for a page that is loaded. The message of an open run is left out:
    resuming its stream brings it whole. The messages that the run is to answer are included."""
    store, thread = call.runtime.store, await _existing(call)
    working = await find_open_run(store, thread)
    left_out = working.run.run_id if working is not None else None
    runs = [run for run in await _runs(call, thread) if run.run_id != left_out]
    history = History(call.ids.outside(thread), runs)
    async with aclosing(follow_tree(store, call.runtime.engine.bus, thread, live=False)) as events:
        async for event in events:
            history.read(call.ids.event(event))
    log = await call.runtime.messages(thread)
    shown = working.list_visible(log) if working is not None else log
    return JsonResponse(history.messages(await with_media(call, shown)))


async def _runs(call: ApiCall, thread: str) -> list[RunRecord]:
    found: list[RunRecord] = []
    query = RunQuery(thread_id=thread, limit=_PAGE)
    while True:
        page = await call.runtime.list_runs(query)
        found += page
        if page.cursor is None:
            return found
        query = RunQuery(thread_id=thread, limit=_PAGE, cursor=page.cursor)


async def _existing(call: ApiCall, see_all: tuple[KeyRole, ...] = READERS) -> str:
    """The id inside of the chat that the path names, if there is one."""
    thread = call.ids.inside(call.path("chat"))
    if await load_visible_thread(call, thread, see_all) is None:
        raise not_found_error("chat")
    return thread


# -- the table ------------------------------------------------------------------------------------


def _routes(api: str, chat: str) -> tuple[Route, ...]:
    asks = (KeyRole.INVOKE,)
    return (
        Route(
            method="POST",
            path=api,
            handle=send,
            name=f"send_{chat}",
            summary="Send a message or an answer to a chat (AI SDK)",
            protocol=DOCS,
            needs=asks,
            body=bytes,
            body_limit=CHAT_LIMIT,
            answers={200: None},
            streams=True,
            submits=True,
            takes_tokens=True,
        ),
        Route(
            method="GET",
            path=f"{api}/{{chat}}/stream",
            handle=resume,
            name=f"resume_{chat}",
            summary="Resume the stream of a chat's open run (AI SDK)",
            protocol=DOCS,
            needs=asks,
            answers={200: None, 204: None},
            streams=True,
            takes_tokens=True,
        ),
        Route(
            method="GET",
            path=f"{api}/{{chat}}/messages",
            handle=messages,
            name=f"list_{chat}_messages",
            summary="The messages of a chat, for a page that is loaded (AI SDK)",
            protocol=DOCS,
            needs=asks,
            answers={200: list[dict[str, Any]]},
            takes_tokens=True,
        ),
        Route(
            method="POST",
            path=f"{api}/{{chat}}/cancel",
            handle=cancel,
            name=f"cancel_{chat}",
            summary="Cancel a chat's open run (AI SDK)",
            protocol=DOCS,
            needs=asks,
            answers={200: dict[str, bool]},
            takes_tokens=True,
        ),
    )


ROUTES = (
    *_routes("/v1/ai-sdk/agents/{agent}/chat", "agent_chat"),
    *_routes("/v1/ai-sdk/chat", "chat"),
)
