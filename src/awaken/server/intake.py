"""Carrying out what a protocol's request asks for."""

from __future__ import annotations

from typing import Any

from awaken.contract.submissions import Submitted
from awaken.contract.threads import TicketQuery
from awaken.domain.thread import Thread
from awaken.domain.ticket import TicketStatus
from awaken.protocol.intake import LOOKED_AT, Intake, Known
from awaken.server.call import Call


async def existing(call: Call, thread_id: str) -> Thread | None:
    """The thread with this id inside, or `None` if there is none yet."""
    return await call.runtime.store.load_thread(thread_id)


async def known(call: Call, thread_id: str) -> Known:
    """What the store has of a thread, by its id inside."""
    thread = await existing(call, thread_id)
    if thread is None:
        return Known()
    after = max(0, thread.message_count - LOOKED_AT)
    messages = await call.runtime.messages(thread_id, after=after)
    query = TicketQuery(thread_id=thread_id, status=TicketStatus.OPEN)
    tickets = await call.runtime.list_tickets(query)
    return Known(messages=tuple(messages), tickets=tuple(tickets.items))


async def carry_out(call: Call, intake: Intake) -> Submitted:
    """Submit what was asked for; returns when that is stored."""
    return await call.runtime.submit(
        intake.agent_id,
        intake.messages,
        thread=intake.thread_id,
        answers=dict(intake.decisions) or None,
        overrides=intake.overrides,
        frontend_tools=intake.frontend_tools,
        mode=intake.mode,
        key=intake.key,
        principal=call.principal,
        **_rewinding(intake),
    )


def _rewinding(intake: Intake) -> dict[str, Any]:
    return {} if intake.rewind_to is None else {"rewind_to": intake.rewind_to}
