"""Reads what an AG-UI client's request asks for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from awaken.codec import digest, dumps_text
from awaken.core.identity import Adapter
from awaken.core.message import Message, Role, Visibility
from awaken.core.suspension import Decision, Ticket, TicketStatus, ToolCallResume
from awaken.core.tool import ToolDescriptor
from awaken.server.protocols.ag_ui.interrupts import decision, is_frontend
from awaken.server.protocols.ag_ui.messages import tool_text, user_message
from awaken.server.protocols.ag_ui.wire import AgUiMessage, AgUiTool, ContextItem, RunAgentInput
from awaken.server.protocols.base import BadRequest, Intake, KnownThread

INTERRUPTS_PENDING = "interrupts_pending"
"""The code of a request that leaves interrupts of the thread unanswered."""
NOTHING_NEW = "nothing_new"
"""The code of a request that asks for nothing new."""
_CONTEXT = "Context from the application:"
_WROTE_INSTEAD = "the user sent a message instead"


class IngestResult(NamedTuple):
    """What a request asks for.

    `answered` are the calls that it answers by tool messages: the client has those messages.
    """

    intake: Intake
    answered: frozenset[str]


def ingest(request: RunAgentInput, known: KnownThread, agent_id: str | None) -> IngestResult:
    """What a client asks for. `known.tickets` are all tickets of the thread's latest run: tickets
    that this same request has answered before get the same answers again.

    Raises:
        BadRequest: the request has nothing new, cannot be read, or leaves interrupts open.
    """
    messages = request.parse_messages()
    answers = _resume_answers(request, known.tickets)
    by_message = _tool_answers(request, messages, known, answers)
    answers.update(by_message)
    _check_pending(known.tickets, answers)
    new = _new_messages(messages, known)
    if new:
        answers.update(_deny_unanswered(request, known.tickets, answers))
    rewind_to = None
    if not new and not answers:
        new = [_last_question(messages)]
        rewind_to = new[0].id
    intake = Intake(
        thread_id=request.thread_id,
        agent_id=agent_id,
        messages=(*_context(request.context or (), known.messages), *new),
        decisions=tuple(_decisions(answers)),
        rewind_to=rewind_to,
        frontend_tools=tuple(_descriptor(tool) for tool in request.tools or ()),
        state=request.state if isinstance(request.state, dict) else {},
        forwarded_props=request.forwarded_props or None,
        key=_key(request),
        adapter=Adapter.AG_UI,
        request_id=request.run_id,
    )
    calls = [ticket.call_id for ticket in known.tickets if ticket.key in by_message]
    return IngestResult(intake, frozenset(calls))


def _key(request: RunAgentInput) -> str:
    """The key of the request. A client may answer a run's interrupts under the `runId` of the
    request that started the run: each set of answers has a key of its own."""
    if not request.answers():
        return request.run_id
    return f"{request.run_id} {digest(request.answers())}"


Answers = dict[str, ToolCallResume]
"""Answers by the key of their ticket."""


def _decisions(answers: Answers) -> Iterable[Decision]:
    return answers.items()


# -- answers ----------------------------------------------------------------------------------


def _resume_answers(request: RunAgentInput, tickets: Sequence[Ticket]) -> Answers:
    by_key = {ticket.key: ticket for ticket in tickets}
    asking = [ticket for ticket in tickets if ticket.status is TicketStatus.OPEN]
    found: Answers = {}
    for entry in request.answers():
        ticket = by_key.get(entry.interrupt_id or "")
        if ticket is None and entry.interrupt_id is None and len(asking) == 1:
            ticket = asking[0]
        if ticket is None:
            raise BadRequest(
                f"no interrupt {entry.interrupt_id!r} waits in this thread",
                code="unknown_interrupt",
            )
        found[ticket.key] = decision(ticket, entry, request.run_id)
    return found


def _tool_answers(
    request: RunAgentInput, messages: Sequence[AgUiMessage], known: KnownThread, answers: Answers
) -> Answers:
    """The answers to front-end calls that come as tool messages."""
    logged = {message.id for message in known.messages}
    tickets = {t.call_id: t for t in known.tickets if is_frontend(t) and t.key not in answers}
    found: Answers = {}
    for message in messages:
        ticket = tickets.get(message.tool_call_id or "") if message.role == "tool" else None
        if ticket is None:
            continue
        earlier = ticket.decision
        is_again = earlier is not None and earlier.decision_id == request.run_id
        if is_again or (message.id not in logged and ticket.status is TicketStatus.OPEN):
            made = ToolCallResume.approve(tool_text(message), id=request.run_id)
            found[ticket.key] = msgspec.structs.replace(made, message_id=message.id)
    return found


def _check_pending(tickets: Iterable[Ticket], answers: Answers) -> None:
    pending = [
        ticket.key
        for ticket in tickets
        if ticket.status is TicketStatus.OPEN
        and ticket.key not in answers
        and not is_frontend(ticket)
    ]
    if pending:
        raise BadRequest(
            f"the thread waits for answers to {', '.join(pending)}: send them in `resume`",
            code=INTERRUPTS_PENDING,
        )


def _deny_unanswered(
    request: RunAgentInput, tickets: Iterable[Ticket], answers: Answers
) -> Answers:
    """A denial for each front-end call that the client leaves open while it sends a user's message:
    the run would wait for ever."""
    return {
        ticket.key: ToolCallResume.deny(_WROTE_INSTEAD, id=request.run_id)
        for ticket in tickets
        if ticket.status is TicketStatus.OPEN and ticket.key not in answers
    }


# -- messages ---------------------------------------------------------------------------------


def _new_messages(messages: Sequence[AgUiMessage], known: KnownThread) -> list[Message]:
    """The user's messages behind the last message that is in the log."""
    logged = {message.id for message in known.messages}
    last = max((i for i, message in enumerate(messages) if message.id in logged), default=-1)
    return [user_message(sent) for sent in messages[last + 1 :] if sent.role == "user"]


def _last_question(messages: Sequence[AgUiMessage]) -> Message:
    """The message to answer once more: the client's list ends with it.

    Raises:
        BadRequest: the list ends with another message.
    """
    if not messages or messages[-1].role != "user":
        raise BadRequest(
            "nothing new: send a user message, a tool message for an open call, or `resume`",
            code=NOTHING_NEW,
        )
    return user_message(messages[-1])


def _context(items: Iterable[ContextItem], logged: Iterable[Message]) -> list[Message]:
    """The message with what the application tells the agent, unless the log's last such message is
    the same."""
    lines = [f"- {item.description}: {_value(item)}" for item in items]
    if not lines:
        return []
    text = "\n".join((_CONTEXT, *lines))
    earlier = [message.text() for message in logged if _is_context(message)]
    return [] if earlier and earlier[-1] == text else [Message.internal_system(text)]


def _value(item: ContextItem) -> str:
    return item.value if isinstance(item.value, str) else dumps_text(item.value)


def _is_context(message: Message) -> bool:
    is_internal = message.role is Role.SYSTEM and message.visibility is Visibility.INTERNAL
    return is_internal and message.text().startswith(_CONTEXT)


def _descriptor(tool: AgUiTool) -> ToolDescriptor:
    described = ToolDescriptor(
        id=tool.name,
        name=tool.name,
        description=tool.description or "",
        metadata=tool.metadata or {},
    )
    if isinstance(tool.parameters, dict) and tool.parameters:
        return msgspec.structs.replace(described, parameters=tool.parameters)
    return described
