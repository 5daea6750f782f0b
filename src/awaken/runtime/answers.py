"""Answers to runs elsewhere: their questions are tickets here, and messages there.

Whether such a run may use up more is decided here; its backend never hears of it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from awaken.budget.account import Account
from awaken.contract.store import Store
from awaken.contract.threads import TicketQuery
from awaken.domain.budget import BUDGET_LIMIT
from awaken.domain.lifecycle import RunStatus
from awaken.domain.message import Message
from awaken.domain.run import RunRecord
from awaken.domain.suspension import Decision, ResumeAction, ToolCallResume
from awaken.domain.ticket import Ticket, TicketStatus
from awaken.loop.spending import granted
from awaken.runtime.delegates import answer_text
from awaken.runtime.request import RunRequest
from awaken.state.call_keys import ToolCallState

log = logging.getLogger("awaken.runtime")


class Answers(msgspec.Struct, kw_only=True):
    """What a run elsewhere that waits is answered.

    `question` is the last one it has put, `told` what its agent is to hear, `verdict` what was
    decided on its budget, and `others` are answers to what its backend alone knows. `closed` are
    the questions nobody has to answer any more.
    """

    question: Ticket | None = None
    told: tuple[Message, ...] = ()
    verdict: ToolCallResume | None = None
    others: tuple[Decision, ...] = ()
    closed: Sequence[Ticket] = ()

    @property
    def is_about_budget(self) -> bool:
        return self.question is not None and self.question.reason == BUDGET_LIMIT

    def take(self, target: str, decision: ToolCallResume) -> None:
        """Take an answer to one of the run's questions; only the last one is still put."""
        if self.question is None or target != self.question.key:
            log.warning("an answer to %s was refused: its run asks something else", target)
        elif self.is_about_budget:
            self.verdict = decision
        else:
            self.told = (Message.user(answer_text(decision), id=f"{target}>answer"),)


async def answers_to(
    store: Store, previous: RunRecord | None, decisions: Sequence[Decision]
) -> Answers:
    """What a run is answered, from the tickets it has put."""
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
    """The questions of a run that waits, the last one at the end."""
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
    """Whether nobody else puts the questions of a run elsewhere: the run it works for does so, a
    task does not."""
    if request.parent_tool_call_id is None or request.parent_run_id is None:
        return True
    parent = await store.load_run(request.parent_run_id)
    return parent is None or parent.is_task


def grant(account: Account | None, run_id: str, answers: Answers) -> str | None:
    """Let a run use up more, if somebody said so; returns why not, if somebody said no."""
    question, verdict = answers.question, answers.verdict
    if question is None or verdict is None:
        return None
    if verdict.action is not ResumeAction.RESUME:
        return verdict.reason or "nobody allowed more"
    if account is not None:
        asked = ToolCallState(
            call_id=question.call_id, tool_name=question.tool_name, arguments=question.arguments
        )
        account.grant(run_id, granted(account, asked, verdict), question.arguments["level"])
    return None
