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


def is_pause(event: RunEvent) -> bool:
    """Whether a run waits for an answer from this event on."""
    return isinstance(event.event, RunFinish) and isinstance(event.event.termination, Suspended)


def is_over(event: RunEvent) -> bool:
    """Whether a run ends with this event."""
    return is_terminal(event.event) and not is_pause(event) and not awaits_tasks(event.event)


class ThreadPrinter:
    """Prints one thread, run after run.

    The store keeps no pieces of text, so texts come from the messages of the thread: a step's
    answer is the message that its `step_start` names, and the user's messages are those before it.

    Args:
        numbered: print where steps end: a user can fork the thread there, or watch it from there.
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
        self._unprinted: list[Message] = []
        self._answer: str | None = None

    def _new_view(self, console: Console) -> TurnPrinter:
        view = TurnPrinter(console, None, self._children)
        view.summary.thread = self._thread
        return view

    def count(self, event: RunEvent) -> None:
        """Add an event to the summary without printing it."""
        self.view.summary.add(event)
        self.ending = self.view.summary.ending

    async def show(self, event: RunEvent) -> None:
        """Print an event. Events come in order, and include those of delegates and tasks."""
        if event.thread_id != self._thread:
            await self._show_child(event)
            return
        if self.view.is_finished:
            self.view = self._new_view(self.view.console)
        if self.view.summary.agent is None and not isinstance(event.event, RunStart):
            record = await self._runtime.find_run(event.run_id)
            self.view.summary.agent = record.agent_id if record is not None else "assistant"
        if isinstance(event.event, StepStart):
            self._answer = event.event.message_id
        if isinstance(event.event, ToolCallResumed):
            await self._add_decision(event, event.event.target_id)
        await self._print_texts()
        self.view.show(event)
        if self._numbered and isinstance(event.event, StepEnd):
            self.view.print_remark("·", f"step ended · seq {event.seq}")
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

    async def _add_decision(self, event: RunEvent, call_id: str) -> None:
        """Add the decision on the resumed call to the summary: the event does not contain it."""
        query = TicketQuery(thread_id=self._thread, run_id=event.run_id, limit=MOST_TICKETS)
        for ticket in (await self._runtime.list_tickets(query)).items:
            answer = ticket.decision if ticket.call_id == call_id else None
            if answer is not None and answer.updated_at <= event.at_ms:
                self.view.summary.add_decision(call_id, answer, ticket.asker)

    async def _print_texts(self) -> None:
        """Print the messages up to the answer of this step, once the store has that answer."""
        if self._answer is None:
            return
        index = await self._find_index(self._answer)
        if index is None:
            index = next(_indexes_of(self._unprinted, Role.ASSISTANT), len(self._unprinted))
            self._print_user_messages(self._unprinted[:index])
            del self._unprinted[:index]
            return
        answer, before = self._unprinted[index], self._unprinted[:index]
        del self._unprinted[: index + 1]
        self._answer = None
        self._print_user_messages(
            before[max((p + 1 for p in _indexes_of(before, Role.ASSISTANT)), default=0) :]
        )
        if text := answer.text():
            self.view.print_message(self.view.summary.agent or "assistant", text)

    def _print_user_messages(self, messages: list[Message]) -> None:
        for message in messages:
            if message.is_visible_user():
                self.view.print_message("you", message.text())

    async def _find_index(self, message_id: str) -> int | None:
        """The index of a message in `_unprinted`. Loads more messages until it is found; returns
        `None` if the store does not have it."""
        checked = 0
        while True:
            for index in range(checked, len(self._unprinted)):
                if self._unprinted[index].id == message_id:
                    return index
            checked = len(self._unprinted)
            more = await self._runtime.messages(self._thread, after=self._position, limit=_PAGE)
            if not more:
                return None
            self._position += len(more)
            self._unprinted += more


def _indexes_of(messages: list[Message], role: Role) -> Iterator[int]:
    return (index for index, message in enumerate(messages) if message.role is role)
