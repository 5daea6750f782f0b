"""A question to somebody here, while somebody elsewhere may answer it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from awaken.cli.follow import MOST_TICKETS
from awaken.cli.lines import Interrupted
from awaken.cli.view import View
from awaken.contract.threads import TicketQuery
from awaken.domain.run import RunWaitingTicket
from awaken.domain.suspension import ToolCallResume
from awaken.domain.ticket import TicketStatus
from awaken.errors import InvalidResume

if TYPE_CHECKING:
    from awaken.cli.conversation import Conversation


class LocalQuestion:
    """A question that is put to somebody here, while somebody elsewhere may answer it."""

    def __init__(self, conversation: Conversation, tickets: Sequence[RunWaitingTicket]) -> None:
        self._conversation = conversation
        self._tickets = tickets
        self._left = False
        self._sending = False
        self._task: asyncio.Task[None] | None = None

    def begin(self, group: asyncio.TaskGroup, view: View) -> None:
        self._task = group.create_task(self._ask(view))

    async def over(self, view: View) -> bool:
        """The run goes on: take the question back if it still stands.

        Returns whether the run was left to wait.
        """
        assert self._task is not None, "it has begun"
        if not self._task.done():
            if not self._sending:
                self._task.cancel()
            await asyncio.wait([self._task])
        if self._task.cancelled():
            await self._tell(view)
        return self._left

    async def _ask(self, view: View) -> None:
        """Have the waiting calls answered, or leave the run as it waits."""
        conversation = self._conversation
        answers: dict[RunWaitingTicket, ToolCallResume] = {}
        for ticket in self._tickets:
            try:
                answer = await conversation.decider.decide(ticket)
            except Interrupted:
                return  # the run was cancelled with the question
            if answer is None:
                self._left = True
                break
            view.decided(ticket, answer)
            answers[ticket] = answer
        if answers and not conversation.interrupts.hit:
            await self._send(answers, view)
        if self._left or not answers:
            self._left = True
            conversation.leave()

    async def _send(self, answers: dict[RunWaitingTicket, ToolCallResume], view: View) -> None:
        conversation, self._sending = self._conversation, True
        try:
            await conversation.runtime.decide(
                conversation.thread, answers, by=conversation.decider.by
            )
        except InvalidResume as error:
            view.note(str(error))
            await self._tell(view)

    async def _tell(self, view: View) -> None:
        """Say who has answered meanwhile."""
        conversation = self._conversation
        query = TicketQuery(thread_id=conversation.thread, limit=MOST_TICKETS)
        known = (await conversation.runtime.list_tickets(query)).items
        for asked in self._tickets:
            for ticket in known:
                answer = ticket.decision
                if ticket.call_id != asked.tool_call_id or ticket.digest != asked.digest:
                    continue
                if ticket.status is TicketStatus.EXPIRED:
                    view.note(f"{asked.tool_name} was not answered in time")
                elif answer is not None:
                    view.decided(asked, answer)
                    view.note(
                        f"{asked.tool_name} was answered by {answer.by or 'an unnamed approver'}"
                    )
