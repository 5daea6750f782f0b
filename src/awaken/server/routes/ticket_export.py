"""`/v1/tickets/export`: how questions were answered, as a table for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime

from starlette.responses import Response
from starlette.types import ASGIApp

from awaken.codec import dumps_text
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import ResumeAction
from awaken.core.ticket import Ticket, TicketStatus
from awaken.server.call import Call
from awaken.server.client_ids import Names
from awaken.server.lookup import DECIDERS, may_see_in, visible_page
from awaken.server.route import Role, Route

COLUMNS = ("when", "who", "answer", "tool", "asked for", "given", "why", "thread", "run")
MOST = 10_000
"""How many rows a table has at most."""
_PAGE = 500
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


async def export(call: Call) -> ASGIApp:
    tickets = [ticket for status in _OVER for ticket in await _all(call, status)]
    tickets.sort(key=_time, reverse=True)
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow(COLUMNS)
    writer.writerows(map(_cell, _row(ticket, call.names)) for ticket in tickets[:MOST])
    name = {"content-disposition": 'attachment; filename="answers.csv"'}
    return Response(text.getvalue(), headers=name, media_type=ROUTES[0].media_type)


_OVER = (TicketStatus.ANSWERED, TicketStatus.EXPIRED, TicketStatus.CLOSED)


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
        path="/v1/tickets/export",
        handle=export,
        name="export_tickets",
        summary="How questions were answered, newest first, as CSV",
        needs=(Role.READ, Role.DECIDE),
        answers={200: str},
        media_type="text/csv",
        is_audited=True,
    ),
)
