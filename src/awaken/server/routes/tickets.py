"""`/v1/tickets`: the questions to approvers, and their answers.

`/v1/tickets/export` has the answers as a table for spreadsheets.
"""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncGenerator, Iterator, Mapping
from datetime import UTC, datetime

from starlette.responses import Response
from starlette.types import ASGIApp

from awaken.codec import dumps, dumps_text
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import ResumeAction, Ticket, TicketStatus
from awaken.server.call import ApiCall, JsonResponse
from awaken.server.client_ids import ClientIds
from awaken.server.event_frames import RETRY
from awaken.server.lookup import (
    DECIDERS,
    find_run,
    find_ticket,
    may_see_in,
    page_view,
    visible_page,
)
from awaken.server.request_types import Id, Line, PageSize, RequestPart
from awaken.server.response_types import PageView, TicketView
from awaken.server.route import KeyRole, Route
from awaken.server.sse import SseResponse
from awaken.server.ticket_updates import TicketUpdates

_NEEDS = (KeyRole.INVOKE, KeyRole.READ, KeyRole.DECIDE)
_MAX_RESULTS = 1_000
COLUMNS = ("when", "who", "answer", "tool", "asked for", "given", "why", "thread", "run")
MAX_ROWS = 10_000
"""The most rows of a table."""
_PAGE = 500
_CSV = "text/csv"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_OVER = (TicketStatus.ANSWERED, TicketStatus.EXPIRED, TicketStatus.CLOSED)


class TicketsAsked(RequestPart, frozen=True, kw_only=True):
    """Which tickets to list, oldest first; `agent` is the agent of the run that asks."""

    status: TicketStatus | None = None
    agent: Id | None = None
    run_id: Id | None = None
    limit: PageSize = 50
    cursor: Line | None = None


async def list_tickets(call: ApiCall) -> ASGIApp:
    asked: TicketsAsked = call.query
    run_id = asked.run_id
    query = TicketQuery(
        scope=call.principal.scope,
        run_id=(await find_run(call, run_id, DECIDERS))[0].run_id if run_id is not None else None,
        status=asked.status,
        limit=asked.limit,
        cursor=asked.cursor,
    )

    async def is_visible(ticket: Ticket) -> bool:
        return await may_see_in(call, ticket.thread_id, DECIDERS) and (
            asked.agent is None or await _agent_of(call, ticket) == asked.agent
        )

    page = await visible_page(call.runtime.list_tickets, query, is_visible)
    views = (TicketView.of_ticket(ticket, call.ids) for ticket in page)
    return JsonResponse(page_view(call, page, views))


async def get(call: ApiCall) -> ASGIApp:
    ticket = await find_ticket(call, call.path("ticket"))
    return JsonResponse(TicketView.of_ticket(ticket, call.ids))


async def follow(call: ApiCall) -> ASGIApp:
    return SseResponse(
        _changes(call), TicketFrames(call.ids), is_last=lambda ticket: False, frame=None
    )


async def export(call: ApiCall) -> ASGIApp:
    tickets = [ticket for status in _OVER for ticket in await _all(call, status)]
    tickets.sort(key=_time, reverse=True)
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow(COLUMNS)
    writer.writerows(map(_cell, _row(ticket, call.ids)) for ticket in tickets[:MAX_ROWS])
    name = {"content-disposition": 'attachment; filename="answers.csv"'}
    return Response(text.getvalue(), headers=name, media_type=_CSV)


async def _agent_of(call: ApiCall, ticket: Ticket) -> str | None:
    run = await call.runtime.find_run(ticket.run_id)
    return run.agent_id if run is not None else None


async def _changes(call: ApiCall) -> AsyncGenerator[Ticket, None]:
    """The scope's tickets that are open, then each that is opened, answered, expired or closed, as
    it is then."""
    updates: TicketUpdates = call.request.app.state.ticket_updates
    known: dict[str, Ticket] = {}
    with updates.listener() as listener:
        while True:
            now = await _open_tickets(call, known)
            for key, ticket in now.items():
                if key not in known:
                    yield ticket
            for ticket in [known[key] for key in known.keys() - now.keys()]:
                query = TicketQuery(run_id=ticket.run_id, key=ticket.key)
                for changed in await call.runtime.list_tickets(query):
                    yield changed
            known = now
            await listener.wait()


async def _open_tickets(call: ApiCall, known: Mapping[str, Ticket]) -> dict[str, Ticket]:
    """The open tickets that the client may see, by key. It may see those in `known`."""
    query = TicketQuery(scope=call.principal.scope, status=TicketStatus.OPEN, limit=_MAX_RESULTS)
    return {
        ticket.key: ticket
        for ticket in await call.runtime.list_tickets(query)
        if ticket.key in known or await may_see_in(call, ticket.thread_id, DECIDERS)
    }


class TicketFrames:
    """The encoder of a stream of tickets."""

    def __init__(self, ids: ClientIds) -> None:
        self._ids = ids

    def start(self) -> list[bytes]:
        return [RETRY]

    def encode(self, ticket: Ticket) -> list[bytes]:
        data = dumps(TicketView.of_ticket(ticket, self._ids))
        return [b"event: ticket\ndata: %b\n\n" % data]

    def finish(self) -> list[bytes]:
        return []


async def _all(call: ApiCall, status: TicketStatus) -> list[Ticket]:
    async def is_visible(ticket: Ticket) -> bool:
        return await may_see_in(call, ticket.thread_id, DECIDERS)

    found: list[Ticket] = []
    cursor = None
    while len(found) < MAX_ROWS:
        query = TicketQuery(scope=call.principal.scope, status=status, limit=_PAGE, cursor=cursor)
        page = await visible_page(call.runtime.list_tickets, query, is_visible)
        found += page
        cursor = page.cursor
        if cursor is None:
            break
    return found


def _time(ticket: Ticket) -> int:
    return ticket.decision.updated_at if ticket.decision is not None else ticket.asked_at


def _row(ticket: Ticket, ids: ClientIds) -> Iterator[str]:
    given = ticket.decision
    yield datetime.fromtimestamp(_time(ticket) / 1000, UTC).isoformat(timespec="milliseconds")
    yield (given.by if given is not None else None) or ""
    yield _answer(ticket)
    yield ticket.tool_name
    yield dumps_text(ticket.arguments)
    yield "" if given is None or given.result is None else dumps_text(given.result)
    yield (given.reason if given is not None else None) or ""
    yield ids.outside(ticket.thread_id)
    yield ids.outside(ticket.run_id)


def _answer(ticket: Ticket) -> str:
    given = ticket.decision
    if given is None or ticket.status is TicketStatus.EXPIRED:
        return ticket.status.value
    if given.action is ResumeAction.CANCEL:
        return "no"
    return "yes" if given.result is None else "yes, with another value"


def _cell(text: str) -> str:
    """A cell that a spreadsheet takes as text: one that begins like a formula is not."""
    return f"'{text}" if text.startswith(_FORMULA) else text


ROUTES = (
    Route(
        method="GET",
        path="/v1/tickets",
        handle=list_tickets,
        name="list_tickets",
        summary="List tickets",
        needs=_NEEDS,
        query=TicketsAsked,
        answers={200: PageView[TicketView]},
        errors=(404, 410),
    ),
    # Before the tickets themselves: no ticket has one of these two keys.
    Route(
        method="GET",
        path="/v1/tickets/export",
        handle=export,
        name="export_tickets",
        summary="How questions were answered, newest first, as CSV",
        needs=(KeyRole.READ, KeyRole.DECIDE),
        answers={200: str},
        media_type=_CSV,
        is_audited=True,
    ),
    Route(
        method="GET",
        path="/v1/tickets/events",
        handle=follow,
        name="follow_tickets",
        summary="Follow the scope's tickets, as a stream",
        needs=_NEEDS,
        answers={},
        streams=True,
    ),
    Route(
        method="GET",
        path="/v1/tickets/{ticket}",
        handle=get,
        name="get_ticket",
        summary="Get one ticket",
        needs=_NEEDS,
        answers={200: TicketView},
        takes_tokens=True,
    ),
)
