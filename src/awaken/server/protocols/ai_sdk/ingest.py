"""Reads what a chat request asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Any

import msgspec

from awaken.codec import digest, dumps_text
from awaken.core.message import Message
from awaken.core.store.commands import SubmitMode
from awaken.core.suspension import Decision, Ticket, ToolCallResume, ToolCallResumeMode
from awaken.server.protocols.ai_sdk.request import ChatRequest, user_message
from awaken.server.protocols.base import BadRequest, Intake, KnownThread

_IS_ANSWER = ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT


def ingest(
    request: ChatRequest, known: KnownThread, *, thread_id: str, agent_id: str | None = None
) -> Intake:
    """The intake of a request: a new message, answers to open questions, an edited message, or a
    request for another answer to an old one.

    Of the messages, only users' are read: the log has its own record of agents' messages.

    Raises:
        BadRequest: it asks for nothing, or cannot be read.
    """
    if request.trigger == "regenerate-message" or _is_edited(request, known):
        intake = _ingest_again(request, known)
    else:
        intake = _ingest_new(request, known)
    return msgspec.structs.replace(
        intake,
        thread_id=thread_id,
        agent_id=agent_id or request.agent_id,
        frontend_tools=tuple(tool.descriptor() for tool in request.tools),
    )


# -- new messages and answers -------------------------------------------------------------------


def _ingest_new(request: ChatRequest, known: KnownThread) -> Intake:
    new = _new_messages(request, known)
    decisions = tuple(_decisions(request, known.tickets))
    if not new and not decisions:
        decisions = _repeat_answers(request, known.closed)
    if not new and not decisions:
        raise BadRequest("There is nothing to do: send a new message, or answer a question.")
    # A new message without answers abandons the open questions, and the run that asks them.
    abandons = bool(new and known.tickets and not decisions)
    return Intake(
        messages=_with_context(request, new),
        decisions=decisions,
        mode=SubmitMode.INTERRUPT if abandons else SubmitMode.QUEUE,
        key=_key(new, decisions),
    )


def _new_messages(request: ChatRequest, known: KnownThread) -> tuple[Message, ...]:
    """The users' messages behind the last one that is in the log. A request whose last message is a
    user's is always for that one: if it is in the log, the request was sent before."""
    if not request.messages:
        return ()
    ids = _page_ids(known)
    behind = 0
    for index, message in enumerate(request.messages):
        if message.id in ids:
            behind = index + 1
    new = [message for message in request.messages[behind:] if message.role == "user"]
    last = request.messages[-1]
    if not new and last.role == "user":
        new = [last]
    return tuple(user_message(message) for message in new)


def _page_ids(known: KnownThread) -> set[str | None]:
    """The ids that the page has for messages of the log: an agent's messages have one id for each
    run."""
    runs = {message.produced_by_run_id() for message in known.messages}
    return {message.id for message in known.messages} | runs - {None}


def _key(new: tuple[Message, ...], decisions: tuple[Decision, ...]) -> str | None:
    parts = [f"message:{new[-1].id}"] if new else []
    if decisions:
        values = [(target, one.action, one.result, one.reason) for target, one in decisions]
        parts.append(f"answers:{digest(values)}")
    return " ".join(parts) or None


def _with_context(request: ChatRequest, new: tuple[Message, ...]) -> tuple[Message, ...]:
    """The new messages, behind a message for the model with the page's state and context."""
    context = {"state": request.state, "context": request.context}
    given = {name: value for name, value in context.items() if value not in (None, {}, [], "")}
    if not new or not given:
        return new
    text = f"<frontend-context>{dumps_text(given)}</frontend-context>"
    return (Message.internal_system(text, id=_context_id(new[-1].id)), *new)


def _context_id(message_id: str | None) -> str:
    return f"{message_id}.context"


# -- answers ------------------------------------------------------------------------------------


def _decisions(request: ChatRequest, tickets: Iterable[Ticket]) -> Iterator[Decision]:
    """The answers to questions. A page repeats its whole history, so a question is answered only by
    its own part, in the message of the run that asks it."""
    for ticket in tickets:
        for part in _parts_of(request, ticket):
            answer = _answer(ticket, part, request)
            if answer is not None:
                yield ticket.key, answer


def _parts_of(request: ChatRequest, ticket: Ticket) -> list[dict[str, Any]]:
    """The part of the call that asks; the last one, since ids of calls may repeat."""
    messages = [message for message in request.messages if message.id == ticket.run_id]
    parts = [part for message in messages for part in message.parts]
    return [part for part in parts if part.get("toolCallId") == ticket.call_id][-1:]


def _answer(ticket: Ticket, part: dict[str, Any], request: ChatRequest) -> ToolCallResume | None:
    approval = part.get("approval")
    approval = approval if isinstance(approval, dict) else {}
    is_named = approval.get("id") == ticket.key
    takes_output = ticket.answer_mode is _IS_ANSWER
    match part.get("state"):
        case "approval-responded" if is_named:
            return _approval(approval, request, takes_output)
        case "output-denied" if is_named or takes_output:
            return ToolCallResume.deny(_text(approval.get("reason")))
        case "output-available" if takes_output and not part.get("preliminary"):
            return ToolCallResume.approve(part.get("output"))
        case "output-error" if takes_output:
            return ToolCallResume.approve({"error": _text(part.get("errorText")) or "it failed"})
    return None


def _approval(
    approval: dict[str, Any], request: ChatRequest, takes_output: bool = False
) -> ToolCallResume:
    """An approval, a denial, or other values: a denial with a value in `answers`.

    The page stores the yes or no and sends it with each later request, but sends the value with one
    request alone. If that request is lost or refused, a yes would approve the call as it was asked.

    Raises:
        BadRequest: a value stands beside a yes.
    """
    key, reason = str(approval.get("id")), _text(approval.get("reason"))
    is_approved, has_value = approval.get("approved") is True, key in request.answers
    if is_approved and has_value:
        raise BadRequest(
            f"The answer to {key} has a value in `answers` and approved: true: send the value with "
            "approved: false, so that nothing is approved if the value is lost."
        )
    if not has_value:
        if is_approved:
            return ToolCallResume.approve(reason=reason)
        return ToolCallResume.deny(reason)
    value = request.answers[key]
    if takes_output:
        return ToolCallResume.approve(value, reason=reason)
    return ToolCallResume.edit(value, reason=reason)


def _repeat_answers(request: ChatRequest, closed: Sequence[Ticket]) -> tuple[Decision, ...]:
    """The answers to questions that are not open any more. If this request was carried out before,
    the store finds it by its key; otherwise the store refuses the answers.

    The page still has its answers to earlier questions of the run. The answers of one request were
    stored at one time, so the request had the latest of them.
    """
    given = {ticket.key: _answer_time(ticket) for ticket in closed}
    answers = tuple(_decisions(request, closed))
    last = max((given[key] for key, _ in answers), default=0)
    return tuple((key, answer) for key, answer in answers if given[key] == last)


def _answer_time(ticket: Ticket) -> float:
    """The time of a question's answer; a question without an answer sorts behind all others."""
    return ticket.decision.updated_at if ticket.decision is not None else inf


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


# -- edited messages, and other answers ---------------------------------------------------------


def _is_edited(request: ChatRequest, known: KnownThread) -> bool:
    """Whether the last message is a user's that the log has, and the page has changed it."""
    if not request.messages or request.message_id is None:
        return False
    last = request.messages[-1]
    is_named = last.role == "user" and last.id == request.message_id
    return is_named and any(message.id == last.id for message in known.messages)


def _ingest_again(request: ChatRequest, known: KnownThread) -> Intake:
    """The intake that continues from the last user's message of the request: later messages of the
    log are dropped."""
    last = next((one for one in reversed(request.messages) if one.role == "user"), None)
    if last is None:
        raise BadRequest("There is no message to answer: send one first.")
    new = (user_message(last),)
    ids = {message.id for message in known.messages}
    rewind_to = next((id for id in (_context_id(last.id), last.id) if id in ids), None)
    latest = known.messages[-1].id if known.messages else ""
    return Intake(
        messages=_with_context(request, new),
        rewind_to=rewind_to,
        mode=SubmitMode.INTERRUPT if rewind_to is not None else SubmitMode.QUEUE,
        key=f"again:{last.id} {latest}" if rewind_to is not None else _key(new, ()),
    )
