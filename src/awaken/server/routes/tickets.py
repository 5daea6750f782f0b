"""`/v1/tickets`: the questions that wait for an approver, and how they were answered.

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
from awaken.server.call import Call, JsonResponse
from awaken.server.client_ids import Names
from awaken.server.event_frames import RETRY
from awaken.server.lookup import (
    DECIDERS,
    find_run,
    find_ticket,
    may_see_in,
    page_view,
    visible_page,
)
from awaken.server.request_types import Given, Id, Line, PageSize
from awaken.server.response_types import PageView, TicketView
from awaken.server.route import KeyRole, Route
from awaken.server.sse import EventStream
from awaken.server.ticket_updates import TicketNews

_NEEDS = (KeyRole.INVOKE, KeyRole.READ, KeyRole.DECIDE)
_MANY = 1_000
COLUMNS = ("when", "who", "answer", "tool", "asked for", "given", "why", "thread", "run")
MOST = 10_000
"""How many rows a table has at most."""
_PAGE = 500
_CSV = "text/csv"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_OVER = (TicketStatus.ANSWERED, TicketStatus.EXPIRED, TicketStatus.CLOSED)


class TicketsAsked(Given, frozen=True, kw_only=True):
    """Which tickets to list, oldest first; `agent` is the agent of the run that asks."""

    status: TicketStatus | None = None
    agent: Id | None = None
    run_id: Id | None = None
    limit: PageSize = 50
    cursor: Line | None = None


async def list_tickets(call: Call) -> ASGIApp:
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
    views = (TicketView.of_ticket(ticket, call.names) for ticket in page)
    return JsonResponse(page_view(call, page, views))


async def get(call: Call) -> ASGIApp:
    ticket = await find_ticket(call, call.path("ticket"))
    return JsonResponse(TicketView.of_ticket(ticket, call.names))


async def follow(call: Call) -> ASGIApp:
    return EventStream(
        _changes(call), TicketFrames(call.names), is_last=lambda ticket: False, frame=None
    )


async def export(call: Call) -> ASGIApp:
    tickets = [ticket for status in _OVER for ticket in await _all(call, status)]
    tickets.sort(key=_time, reverse=True)
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow(COLUMNS)
    writer.writerows(map(_cell, _row(ticket, call.names)) for ticket in tickets[:MOST])
    name = {"content-disposition": 'attachment; filename="answers.csv"'}
    return Response(text.getvalue(), headers=name, media_type=_CSV)


async def _agent_of(call: Call, ticket: Ticket) -> str | None:
    run = await call.runtime.find_run(ticket.run_id)
    return run.agent_id if run is not None else None


async def _changes(call: Call) -> AsyncGenerator[Ticket, None]:
    """The scope's tickets that are open, then each that is opened, answered, expired or closed, as
    it is then."""
    news: TicketNews = call.request.app.state.ticket_news
    known: dict[str, Ticket] = {}
    with news.listener() as listener:
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


async def _open_tickets(call: Call, known: Mapping[str, Ticket]) -> dict[str, Ticket]:
    """The open tickets that the client may see, by key; it may see those that are known."""
    query = TicketQuery(scope=call.principal.scope, status=TicketStatus.OPEN, limit=_MANY)
    return {
        ticket.key: ticket
        for ticket in await call.runtime.list_tickets(query)
        if ticket.key in known or await may_see_in(call, ticket.thread_id, DECIDERS)
    }


class TicketFrames:
    """The encoder of a stream of tickets."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def start(self) -> list[bytes]:
        return [RETRY]

    def encode(self, ticket: Ticket) -> list[bytes]:
        data = dumps(TicketView.of_ticket(ticket, self._names))
        return [b"event: ticket\ndata: %b\n\n" % data]

    def finish(self) -> list[bytes]:
        return []


async def _all(call: Call, status: TicketStatus) -> list[Ticket]:
    async def is_visible(ticket: Ticket) -> bool:
        return await may_see_in(call, ticket.thread_id, DECIDERS)

    found: list[Ticket] = []
    cursor = None
    while len(found) < MOST:
        query = TicketQuery(scope=call.principal.scope, status=status, limit=_PAGE, cursor=cursor)
        page = await visible_page(call.runtime.list_tickets, query, is_visible)
        found += page
        cursor = page.cursor
        if cursor is None:
            break
    return found


def _time(ticket: Ticket) -> int:
    return ticket.decision.updated_at if ticket.decision is not None else ticket.asked_at


def _row(ticket: Ticket, names: Names) -> Iterator[str]:
    given = ticket.decision
    yield datetime.fromtimestamp(_time(ticket) / 1000, UTC).isoformat(timespec="milliseconds")
    yield (given.by if given is not None else None) or ""
    yield _answer(ticket)
    yield ticket.tool_name
    yield dumps_text(ticket.arguments)
    yield "" if given is None or given.result is None else dumps_text(given.result)
    yield (given.reason if given is not None else None) or ""
    yield names.outside(ticket.thread_id)
    yield names.outside(ticket.run_id)


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
