"""A thread as a transcript, read from what is kept of it: durable events, and the log."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from awaken.cli.children import Children, name_of
from awaken.cli.run_summary import awaits_tasks
from awaken.cli.transcript import TurnPrinter
from awaken.core.event import (
    RunEvent,
    RunFinish,
    RunStart,
    StepEnd,
    StepStart,
    ToolCallResumed,
    is_terminal,
)
from awaken.core.lifecycle import Suspended, TerminationReason
from awaken.core.message import Message, Role
from awaken.core.store.threads import TicketQuery
from awaken.runtime import Runtime

MOST_TICKETS = 1_000
_PAGE = 200


def pauses(event: RunEvent) -> bool:
    """Whether a run waits for somebody from here on."""
    return isinstance(event.event, RunFinish) and isinstance(event.event.termination, Suspended)


def is_over(event: RunEvent) -> bool:
    """Whether a run comes to its end here."""
    return is_terminal(event.event) and not pauses(event) and not awaits_tasks(event.event)


class ThreadPrinter:
    """Prints one thread, run after run.

    Pieces of text are not kept, so what was said comes from the log: a step's answer is the message
    that its `step_start` names, and a user's words are those that stand before it.

    Args:
        numbered: mark where steps end, for those who want to fork or go on from there.
    """

    def __init__(
        self,
        runtime: Runtime,
        thread: str,
        console: Console,
        *,
        numbered: bool = False,
    ) -> None:
        self._runtime, self._thread = runtime, thread
        self._children = Children()
        self.view = self._new_view(console)
        self.ending: TerminationReason | None = None
        self._position = 0
        self._numbered = numbered
        self._ahead: list[Message] = []
        self._answer: str | None = None

    def _new_view(self, console: Console) -> TurnPrinter:
        view = TurnPrinter(console, None, self._children)
        view.summary.thread = self._thread
        return view

    def count(self, event: RunEvent) -> None:
        """Take an event into account, and print nothing."""
        self.view.summary.add(event)
        self.ending = self.view.summary.ending

    async def show(self, event: RunEvent) -> None:
        """Print what an event tells; events come in order, those of runs beneath among them."""
        if event.thread_id != self._thread:
            await self._show_child(event)
            return
        if self.view.over:
            self.view = self._new_view(self.view.console)
        if self.view.summary.agent is None and not isinstance(event.event, RunStart):
            record = await self._runtime.find_run(event.run_id)
            self.view.summary.agent = record.agent_id if record is not None else "assistant"
        if isinstance(event.event, StepStart):
            self._answer = event.event.message_id
        if isinstance(event.event, ToolCallResumed):
            await self._learn(event, event.event.target_id)
        await self._say()
        self.view.show(event)
        if self._numbered and isinstance(event.event, StepEnd):
            self.view.remark("·", f"step ended · seq {event.seq}")
        self.ending = self.view.summary.ending
        if is_over(event):
            self.view.finish()

    async def _show_child(self, event: RunEvent) -> None:
        if event.run_id not in self._children:
            record = await self._runtime.find_run(event.run_id)
            if record is not None:
                self._children.add(
                    event.run_id, name_of(record), event.parent_run_id, is_task=record.is_task
                )
        self.view.show(event)

    async def _learn(self, event: RunEvent, call_id: str) -> None:
        """How the call that goes on was answered, which its event does not tell."""
        query = TicketQuery(thread_id=self._thread, run_id=event.run_id, limit=MOST_TICKETS)
        for ticket in (await self._runtime.list_tickets(query)).items:
            answer = ticket.decision if ticket.call_id == call_id else None
            if answer is not None and answer.updated_at <= event.at_ms:
                self.view.summary.add_decision(call_id, answer, ticket.asker)

    async def _say(self) -> None:
        """Print what was said up to the answer of this step, once it is there."""
        if self._answer is None:
            return
        place = await self._place_of(self._answer)
        if place is None:
            place = next(_places(self._ahead, Role.ASSISTANT), len(self._ahead))
            self._ask(self._ahead[:place])
            del self._ahead[:place]
            return
        answer, before = self._ahead[place], self._ahead[:place]
        del self._ahead[: place + 1]
        self._answer = None
        self._ask(before[max((p + 1 for p in _places(before, Role.ASSISTANT)), default=0) :])
        if text := answer.text():
            self.view.said(self.view.summary.agent or "assistant", text)

    def _ask(self, messages: list[Message]) -> None:
        for message in messages:
            if message.is_visible_user():
                self.view.said("you", message.text())

    async def _place_of(self, message_id: str) -> int | None:
        """Where in what lies ahead a message is; reads on until it is found."""
        looked = 0
        while True:
            for place in range(looked, len(self._ahead)):
                if self._ahead[place].id == message_id:
                    return place
            looked = len(self._ahead)
            more = await self._runtime.messages(self._thread, after=self._position, limit=_PAGE)
            if not more:
                return None
            self._position += len(more)
            self._ahead += more


def _places(messages: list[Message], role: Role) -> Iterator[int]:
    return (place for place, message in enumerate(messages) if message.role is role)
