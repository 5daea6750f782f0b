"""Answers to tickets, as users give them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from awaken.domain.run import RunWaitingTicket
from awaken.domain.suspension import Decision, ToolCallResume
from awaken.domain.ticket import AskedCall, Ticket
from awaken.errors import ConfigError

TicketRef = str | AskedCall
"""A ticket, or its key. Ids of tickets and calls come again with other questions, and are taken
only with a `ToolCallResume` that has the digest of the question."""

Reply = bool | ToolCallResume

# A mapping's keys are invariant: one of tickets alone is no mapping of targets.
AnswersByTicket = (
    Mapping[TicketRef, Reply]
    | Mapping[str, Reply]
    | Mapping[Ticket, Reply]
    | Mapping[RunWaitingTicket, Reply]
)
"""Tickets, and whether the call may run (or the whole decision)."""

OnApproval = Callable[[RunWaitingTicket], Awaitable[Reply] | Reply]


def decisions_of(answers: AnswersByTicket, by: str | None = None) -> tuple[Decision, ...]:
    """
    Raises:
        ConfigError: a target is neither a ticket nor a text, or an answer is none.
    """
    return tuple(_decision(target, answer, by) for target, answer in answers.items())


def _decision(target: object, answer: object, by: str | None = None) -> Decision:
    if isinstance(target, str):
        return target, _resume(target, answer, by)
    if not isinstance(target, AskedCall):
        raise ConfigError(f"answers are given to a ticket or its key, not to {target!r}")
    decision = _resume(target.ticket_id, answer, by)
    if decision.digest is None:
        # It answers what was shown, and nothing else.
        decision = msgspec.structs.replace(decision, digest=target.digest)
    return target.answered_by, decision


def _resume(target: str, answer: object, by: str | None) -> ToolCallResume:
    if isinstance(answer, ToolCallResume):
        return answer if by is None else msgspec.structs.replace(answer, by=by)
    if isinstance(answer, bool):
        return ToolCallResume.approve(by=by) if answer else ToolCallResume.deny(by=by)
    raise ConfigError(
        f"the answer to {target!r} is True, False or a ToolCallResume, not {answer!r}"
    )


async def ask(on_approval: OnApproval, ticket: RunWaitingTicket) -> Decision:
    """The handler's answer to a ticket, bound to it."""
    answer = on_approval(ticket)
    if inspect.isawaitable(answer):
        answer = await answer
    return _decision(ticket, answer)
