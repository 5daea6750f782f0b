"""Checking the arguments that an approver has edited, before the answer is stored."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from awaken.codec import Json
from awaken.core.schema import as_object, validate_against_schema
from awaken.core.store.store import Store
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import Decision, Ticket, TicketStatus, ToolCallResumeMode
from awaken.core.tool import ToolError
from awaken.core.tool_context import Tool
from awaken.errors import ArgumentsRefused, AwakenError
from awaken.plugin.resolved_agent import ResolvedAgent
from awaken.tool.execute import parse_arguments
from awaken.worker.worker import Worker

_EDITED = ToolCallResumeMode.PASS_DECISION_TO_TOOL


async def check_edits(runtime: Worker, thread_id: str, decisions: Sequence[Decision]) -> None:
    """Check the edited arguments among answers to tickets of a thread. An answer that fits no open
    ticket is not checked: the store refuses it.

    Raises:
        ArgumentsRefused: a tool refuses its arguments.
    """
    edited = [(target, answer) for target, answer in decisions if answer.mode is _EDITED]
    if not edited:
        return
    tickets = await _open_tickets(runtime.store, TicketQuery(thread_id=thread_id))
    for target, answer in edited:
        named = [ticket for ticket in tickets if ticket.answers_to(target)]
        if len(named) != 1 or answer.digest not in (None, named[0].digest):
            continue
        try:
            await check_edit(runtime, named[0], answer.result)
        except ToolError as error:
            raise ArgumentsRefused(named[0].key, str(error)) from error


async def check_edit(runtime: Worker, ticket: Ticket, arguments: Json) -> None:
    """Check edited arguments as the tool of a ticket's call does. If its agent is not known here,
    they are checked against the tool's schema, which the ticket keeps.

    Raises:
        ToolError: they do not fit; the text says why.
    """
    asked = ticket
    while asked.asker is not None:
        query = TicketQuery(run_id=asked.asker.run_id, key=asked.asker.ticket)
        found = await _open_tickets(runtime.store, query)
        if not found:
            return  # the delegate runs on a backend, which checks what its tools get
        asked = found[0]
    if asked.answer_mode is ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT:
        raise ToolError.invalid_arguments(
            f"{asked.tool_name}: the answer to this ticket is the call's result, so there are no "
            "arguments to edit: approve it with the result as value"
        )
    if asked.parameters is None:
        return
    tool = await _tool(runtime, asked)
    if tool is None:
        validate_against_schema(asked.parameters, as_object(arguments))
    else:
        parse_arguments(tool, arguments)


async def _tool(runtime: Worker, ticket: Ticket) -> Tool | None:
    """The tool of a ticket's call; `None` if the run's agent has another one here, or none."""
    run = await runtime.store.load_run(ticket.run_id)
    try:
        agent = runtime.registry.snapshot().resolve_execution(run.agent_id if run else "")
    except AwakenError:
        return None
    tool = agent.tools.get(ticket.tool_name) if isinstance(agent, ResolvedAgent) else None
    return tool if tool and tool.descriptor().parameters == ticket.parameters else None


async def _open_tickets(store: Store, query: TicketQuery) -> list[Ticket]:
    found: list[Ticket] = []
    query = msgspec.structs.replace(query, status=TicketStatus.OPEN)
    while True:
        page = await store.list_tickets(query)
        found += page
        if page.cursor is None:
            return found
        query = msgspec.structs.replace(query, cursor=page.cursor)
