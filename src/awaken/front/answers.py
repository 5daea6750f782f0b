"""Answers to tickets, as users give them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from awaken.domain.run import RunWaitingTicket
from awaken.domain.suspension import Decision, ToolCallResume
from awaken.errors import ConfigError

Answers = Mapping[str, bool | ToolCallResume]
"""Call or ticket ids, and whether the call may run (or the whole decision)."""

OnApproval = Callable[[RunWaitingTicket], Awaitable[bool | ToolCallResume] | bool | ToolCallResume]


def decisions_of(answers: Answers, by: str | None = None) -> tuple[Decision, ...]:
    return tuple((target, _resume(target, answer, by)) for target, answer in answers.items())


def _resume(target: str, answer: object, by: str | None = None) -> ToolCallResume:
    if isinstance(answer, ToolCallResume):
        return answer if by is None else msgspec.structs.replace(answer, by=by)
    if isinstance(answer, bool):
        return ToolCallResume.approve(by=by) if answer else ToolCallResume.deny(by=by)
    raise ConfigError(
        f"the answer to {target!r} is True, False or a ToolCallResume, not {answer!r}"
    )


async def ask(on_approval: OnApproval, ticket: RunWaitingTicket) -> Decision:
    answer = on_approval(ticket)
    if inspect.isawaitable(answer):
        answer = await answer
    decision = _resume(ticket.tool_call_id, answer)
    # It answers what was shown, and nothing else.
    return ticket.tool_call_id, msgspec.structs.replace(decision, digest=ticket.digest)
