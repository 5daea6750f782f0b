"""Answers to runs on backends: the answer to a ticket is sent to the backend as a user message.

Decisions about the run's budget are applied here and are not sent to the backend.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from awaken.core.account import Account
from awaken.core.budget import BUDGET_LIMIT
from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message
from awaken.core.run import RunRecord
from awaken.core.state.call_keys import ToolCallState
from awaken.core.store.store import Store
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import Decision, ResumeAction, Ticket, TicketStatus, ToolCallResume
from awaken.engine.spending import parse_grant
from awaken.worker.delegates import answer_text
from awaken.worker.request import RunRequest

log = logging.getLogger("awaken.runtime")


class Answers(msgspec.Struct, kw_only=True):
    """The answers to a waiting run on a backend.

    - `question` is the run's last ticket.
    - `messages` are for its agent.
    - `verdict` is the decision about its budget.
    - `others` are decisions for questions that only the backend knows.
    - `closed` are the tickets that this closes.
    """

    question: Ticket | None = None
    messages: tuple[Message, ...] = ()
    verdict: ToolCallResume | None = None
    others: tuple[Decision, ...] = ()
    closed: Sequence[Ticket] = ()

    @property
    def is_about_budget(self) -> bool:
        return self.question is not None and self.question.reason == BUDGET_LIMIT

    def take(self, target: str, decision: ToolCallResume) -> None:
        """Take a decision about one of the run's tickets. One for any but the last is logged and
        ignored."""
        if self.question is None or target != self.question.key:
            log.warning("an answer to %s was refused: its run asks something else", target)
        elif self.is_about_budget:
            self.verdict = decision
        else:
            self.messages = (Message.user(answer_text(decision), id=f"{target}>answer"),)


async def load_answers(
    store: Store, previous: RunRecord | None, decisions: Sequence[Decision]
) -> Answers:
    """Match decisions with the tickets of the run that is continued."""
    asked = await _questions(store, previous)
    known = {ticket.key for ticket in asked}
    answers = Answers(
        question=asked[-1] if asked else None,
        others=tuple((target, one) for target, one in decisions if target not in known),
        closed=[
            msgspec.structs.replace(ticket, status=TicketStatus.CLOSED)
            for ticket in asked
            if ticket.status is TicketStatus.OPEN
        ],
    )
    for target, decision in decisions:
        if target in known:
            answers.take(target, decision)
    return answers


async def _questions(store: Store, previous: RunRecord | None) -> list[Ticket]:
    """The tickets of a waiting run, the last one at the end; empty if the run does not wait."""
    found: list[Ticket] = []
    if previous is None or previous.status is not RunStatus.WAITING:
        return found
    query = TicketQuery(run_id=previous.run_id)
    while True:
        page = await store.list_tickets(query)
        found.extend(page)
        if page.cursor is None:
            return found
        query = msgspec.structs.replace(query, cursor=page.cursor)


async def asks_itself(store: Store, request: RunRequest) -> bool:
    """Whether a run on a backend opens its own tickets. A parent run asks a delegate's questions
    itself; a task does not."""
    if request.parent_tool_call_id is None or request.parent_run_id is None:
        return True
    parent = await store.load_run(request.parent_run_id)
    return parent is None or parent.is_task


def grant(account: Account | None, run_id: str, answers: Answers) -> str | None:
    """Raise the run's budget if the approver allowed it. Returns the reason if the approver
    refused, else `None`."""
    question, verdict = answers.question, answers.verdict
    if question is None or verdict is None:
        return None
    if verdict.action is not ResumeAction.RESUME:
        return verdict.reason or "no approver allowed more"
    if account is not None:
        asked = ToolCallState(
            call_id=question.call_id, tool_name=question.tool_name, arguments=question.arguments
        )
        account.grant(run_id, parse_grant(account, asked, verdict), question.arguments["level"])
    return None
