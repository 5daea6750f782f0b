"""`/v1/tickets`: the questions that wait for an approver."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.types import ASGIApp, Receive, Scope, Send

from awaken.codec import dumps
from awaken.contract.threads import TicketQuery
from awaken.domain.ticket import Ticket, TicketStatus
from awaken.server.call import Call, JsonResponse
from awaken.server.finding import DECIDERS, find_run, find_ticket, may_see_in, visible_page
from awaken.server.given import Given, Id, Line, PageSize
from awaken.server.sse import HEADERS
from awaken.server.table import Role, Route
from awaken.server.views import PageView, TicketView

_NEEDS = (Role.INVOKE, Role.READ, Role.DECIDE)
LOOK_AROUND = 1.0
"""Seconds between two looks at the open tickets of a scope."""
_KEEP_ALIVE = 15
_MANY = 1_000


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
    items = tuple(TicketView.of_ticket(ticket, call.names) for ticket in page)
    return JsonResponse(PageView(items=items, cursor=page.cursor))


async def _agent_of(call: Call, ticket: Ticket) -> str | None:
    run = await call.runtime.find_run(ticket.run_id)
    return run.agent_id if run is not None else None


async def get(call: Call) -> ASGIApp:
    ticket = await find_ticket(call, call.path("ticket"))
    return JsonResponse(TicketView.of_ticket(ticket, call.names))


async def follow(call: Call) -> ASGIApp:
    return TicketStream(call)


class TicketStream:
    """An answer that tells of the scope's tickets: those that are open, then each that is opened,
    answered, expired or closed, as it is then."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._open: dict[str, Ticket] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        body, silent = b": open\nretry: 1000\n\n", 0.0
        while True:
            body += b"".join([self._frame(ticket) async for ticket in self._changes()])
            if not body and silent >= _KEEP_ALIVE:
                body = b": \n\n"
            if body:
                await send({"type": "http.response.body", "body": body, "more_body": True})
                body, silent = b"", 0.0
            if await _leaves(receive, LOOK_AROUND):
                return
            silent += LOOK_AROUND

    async def _changes(self) -> AsyncIterator[Ticket]:
        """The tickets that have changed since the last look."""
        before, self._open = self._open, await self._look()
        for key, ticket in self._open.items():
            if key not in before:
                yield ticket
        for key in before.keys() - self._open.keys():
            query = TicketQuery(scope=self._call.principal.scope, key=key)
            for ticket in await self._call.runtime.list_tickets(query):
                yield ticket

    async def _look(self) -> dict[str, Ticket]:
        query = TicketQuery(scope=self._call.principal.scope, status=TicketStatus.OPEN, limit=_MANY)
        found = await self._call.runtime.list_tickets(query)
        known = self._open.keys()
        return {
            ticket.key: ticket
            for ticket in found
            if ticket.key in known or await may_see_in(self._call, ticket.thread_id, DECIDERS)
        }

    def _frame(self, ticket: Ticket) -> bytes:
        return b"event: ticket\ndata: %b\n\n" % dumps(
            TicketView.of_ticket(ticket, self._call.names)
        )


async def _leaves(receive: Receive, seconds: float) -> bool:
    """Whether the client leaves within so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            while (await receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        return False
    return True


ROUTES = (
    Route(
        method="GET",
        path="/v1/tickets",
        handle=list_tickets,
        summary="List tickets",
        needs=_NEEDS,
        query=TicketsAsked,
        answers={200: PageView[TicketView]},
        errors=(404, 410),
    ),
    # Before the tickets themselves: no ticket has this key.
    Route(
        method="GET",
        path="/v1/tickets/events",
        handle=follow,
        summary="Follow the scope's tickets, as a stream",
        needs=_NEEDS,
        answers={},
        streams=True,
    ),
    Route(
        method="GET",
        path="/v1/tickets/{ticket}",
        handle=get,
        summary="Get one ticket",
        needs=_NEEDS,
        answers={200: TicketView},
        takes_tokens=True,
    ),
)
