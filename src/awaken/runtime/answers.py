"""Answers to tickets, as users give them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from awaken.core.run import RunWaitingTicket
from awaken.core.storable import parse_argument
from awaken.core.suspension import Decision, ToolCallResume
from awaken.core.ticket import AskedCall, Ticket
from awaken.errors import ConfigError
from awaken.runtime.agent_arguments import check_function
from awaken.runtime.run_arguments import parse_id

TicketRef = str | AskedCall
"""A ticket, or its key. The id of a ticket or call is accepted only with a `ToolCallResume` that
has the digest of the question, because an id may come again with another question."""

Reply = bool | ToolCallResume

# Mapping is invariant in its keys: Mapping[AskedCall, Reply] is no Mapping[TicketRef, Reply].
AnswersByTicket = (
    Mapping[TicketRef, Reply]
    | Mapping[str, Reply]
    | Mapping[Ticket, Reply]
    | Mapping[RunWaitingTicket, Reply]
)
"""An answer for each ticket: whether the call may run, or a whole decision."""

OnApproval = Callable[[RunWaitingTicket], Awaitable[Reply] | Reply]


def decisions_of(answers: AnswersByTicket, by: str | None = None) -> tuple[Decision, ...]:
    """
    Raises:
        ConfigError: they are no mapping, a key is neither a ticket nor a text, or a value is not an
            answer.
        InvalidId: a key has a zero character, which not every store can keep.
    """
    given: object = answers
    if not isinstance(given, Mapping):
        raise ConfigError(f"answers are given by ticket, such as {{ticket: True}}, not {given!r}")
    parse_argument("by", by, str | None)
    return tuple(_decision(target, answer, by) for target, answer in answers.items())


def _decision(target: object, answer: object, by: str | None = None) -> Decision:
    if isinstance(target, str):
        parse_id("a key of answers", target)
        return target, _resume(target, answer, by)
    if not isinstance(target, AskedCall):
        raise ConfigError(f"answers are given to a ticket or its key, not to {target!r}")
    decision = _resume(target.ticket_id, answer, by)
    if decision.digest is None:
        # The digest binds the answer to the question that the approver was shown.
        decision = msgspec.structs.replace(decision, digest=target.digest)
    return target.answered_by, decision


def _resume(target: str, answer: object, by: str | None) -> ToolCallResume:
    if isinstance(answer, ToolCallResume):
        parsed: ToolCallResume = parse_argument(f"answers[{target!r}]", answer, ToolCallResume)
        return parsed if by is None else msgspec.structs.replace(parsed, by=by)
    if isinstance(answer, bool):
        return ToolCallResume.approve(by=by) if answer else ToolCallResume.deny(by=by)
    raise ConfigError(
        f"the answer to {target!r} is True, False or a ToolCallResume, not {answer!r}"
    )


def check_handler(on_approval: OnApproval | None) -> None:
    """
    Raises:
        ConfigError: it is no function of a ticket.
    """
    if on_approval is not None:
        check_function(on_approval, "on_approval", takes="the ticket")


async def ask(on_approval: OnApproval, ticket: RunWaitingTicket) -> Decision:
    """Ask the handler about a ticket. Returns its answer, bound to that ticket."""
    answer = on_approval(ticket)
    if inspect.isawaitable(answer):
        answer = await answer
    return _decision(ticket, answer)
