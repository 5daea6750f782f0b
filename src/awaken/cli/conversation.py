"""A conversation on one thread: shows events, asks for approvals, and cancels on Ctrl-C."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from awaken.cli.asyncio_main import Interrupts, unwrap_single_error
from awaken.cli.decider import Decider
from awaken.cli.exit_codes import ExitCode, exit_code_for
from awaken.cli.live_tasks import LiveTasks, find_waiting_run, tickets_of, wait_for_report
from awaken.cli.stdin_lines import InputInterrupted, StdinLines
from awaken.cli.store_address import WayBack
from awaken.cli.thread_printer import MOST_TICKETS, is_pause
from awaken.cli.view import TurnView
from awaken.core.aio.owned_tasks import start_task
from awaken.core.event import (
    InferenceComplete,
    RunEvent,
    StepStart,
    TextDelta,
    is_terminal,
)
from awaken.core.lifecycle import CANCELLED, Failed
from awaken.core.run import RunRecord, RunWaitingTicket
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import TicketStatus, ToolCallResume
from awaken.errors import AgentLoopError, InvalidResume, ThreadAlreadyRunning
from awaken.runtime import RunStream, Runtime
from awaken.runtime.resume import stream_resumed

_RECENT = 100


@dataclass(kw_only=True)
class TerminalConversation:
    """A conversation with agents on one thread of a runtime.

    Args:
        agent: the agent to ask; by default the one that spoke last in the thread.
        when_busy: what to do if the thread is running in another process.
        back: how to return to the thread.
        includes_tasks: whether a turn lasts until the agent's background tasks have ended and the
            agent has read their results. If not, `resume_after_report` continues the run later.
    """

    runtime: Runtime
    thread: str
    agent: str | None
    decider: Decider
    interrupts: Interrupts
    lines: StdinLines
    when_busy: Literal["refuse", "queue"] = "refuse"
    back: WayBack | None = None
    includes_tasks: bool = True
    _seq: int = field(default=0, init=False)
    _tasks: LiveTasks | None = field(default=None, init=False)
    _shown_names: str = field(default="", init=False)
    _asked_keys: set[str] = field(default_factory=set, init=False)

    async def run_turn(self, prompt: str, view: TurnView) -> ExitCode:
        """Send a prompt and show the run's events. Returns how the run ended.

        Raises:
            RuntimeFault, ResolveError: the run could not start.
        """
        stream = self.runtime.stream(
            self.agent, prompt, thread=self.thread, wait=True, when_busy=self.when_busy
        )
        await self._show_stream(stream, view)
        return await self._finish_turn(view)

    async def resume_run(self, run: RunRecord, view: TurnView) -> ExitCode:
        """Resume a run without an owner from its last commit, with decisions made meanwhile, and
        show its events. Returns how it ended.

        Raises:
            RuntimeFault, ResolveError: the run is live in another process, or its agent is missing
                here.
        """
        await self._stream_resumed(run, view)
        return await self._finish_turn(view)

    async def _stream_resumed(self, run: RunRecord, view: TurnView) -> None:
        store = self.runtime.store
        tickets = await store.list_tickets(TicketQuery(run_id=run.run_id, limit=MOST_TICKETS))
        view.summary.add_earlier_calls(await store.load_calls(run.run_id), tickets.items)
        await self._show_stream(stream_resumed(self.runtime, run), view)

    async def _show_stream(self, stream: RunStream, view: TurnView) -> None:
        with self.interrupts.call_on_interrupt(self._cancel), unwrap_single_error():
            async with asyncio.TaskGroup() as group:
                try:
                    async with stream as events:
                        await self._read(events, view, group)
                except AgentLoopError as error:
                    view.summary.ending = view.summary.ending or Failed(value=str(error))

    async def _finish_turn(self, view: TurnView) -> ExitCode:
        """Wait for background tasks if `includes_tasks` is set, and finish the view. Returns how
        the turn ended."""
        while self.includes_tasks and view.summary.awaits_tasks:
            await self._wait_and_resume(view)
        view.finish()
        return (
            ExitCode.SUSPENDED if view.summary.awaits_tasks else exit_code_for(view.summary.ending)
        )

    # -- background tasks ---------------------------------------------------------------------

    async def wait_for_tasks(self, view: TurnView) -> ExitCode:
        """Wait until a run no longer waits for its background tasks. Returns how it ended."""
        head = await self.runtime.store.load_thread(self.thread)
        self._seq = head.event_count if head is not None else 0
        view.summary.thread = self.thread
        self.includes_tasks = view.summary.awaits_tasks = True
        return await self._finish_turn(view)

    async def resume_after_report(self, view: TurnView) -> ExitCode:
        """Resume a run to which tasks have reported, and show it. Returns how it ended."""
        await self._show_resumed_run(view)
        return await self._finish_turn(view)

    async def wait_for_report(self, view: TurnView | None = None) -> RunRecord | None:
        """Wait until a task has reported to the run. If an agent in a background task needs an
        answer first, returns the run of that agent."""
        if (tasks := await self.tasks()) is None:
            return None
        return await wait_for_report(tasks, self._asked_keys, None if view is None else view.show)

    async def tasks(self) -> LiveTasks | None:
        """The tasks that the thread's run waits for; `None` if it does not wait for tasks."""
        run = await find_waiting_run(self.runtime, self.thread)
        if run is None:
            return None
        if self._tasks is None or self._tasks.run.run_id != run.run_id:
            self._tasks = LiveTasks(self.runtime, run)
        return self._tasks

    async def ask_for_answers(self, asking: RunRecord, view: TurnView) -> bool:
        """Ask for answers to the questions of an agent in a background task. Returns
        `False` if the person at the terminal left them open."""
        view.note(f"{asking.agent_id}, in the background, needs an answer")
        answers: dict[RunWaitingTicket, ToolCallResume] = {}
        for ticket in tickets_of(asking):
            self._asked_keys.add(ticket.key or "")
            answer = await self.decider.decide(ticket)
            if answer is None:
                if self.back is not None:
                    view.note(f"to answer: {self.back.decide(asking.thread_id, ticket)}")
                    view.note(f"to go on: {self.back.resume(self.thread)}")
                return False
            answers[ticket] = answer
        try:
            await self.runtime.decide(asking.run_id, answers, by=self.decider.by)
        except InvalidResume as error:
            view.note(str(error))  # another approver has answered
        return True

    async def _wait_and_resume(self, view: TurnView) -> None:
        """Wait until a task has reported, and resume the run; Ctrl-C cancels the tasks and the
        run."""
        tasks = await self.tasks()
        names = await tasks.names() if tasks is not None else ""
        if names and names != self._shown_names:
            self._shown_names = names
            view.note(f"waits for background tasks: {names}")
        asking = await self._wait_for_report_or_interrupt(view)
        if self.interrupts.was_pressed:
            await self.runtime.cancel(self.thread)
            if await self.tasks() is not None:
                # Tasks that cannot be stopped are not waited for.
                view.summary.ending, view.summary.awaits_tasks = CANCELLED, False
                return
        elif asking is not None:
            with (
                self.interrupts.call_on_interrupt(self.lines.interrupt),
                suppress(InputInterrupted),
            ):
                self.includes_tasks = await self.ask_for_answers(asking, view)
            return
        await self._show_resumed_run(view)

    async def _wait_for_report_or_interrupt(self, view: TurnView) -> RunRecord | None:
        report = start_task(self.wait_for_report(view))
        with self.interrupts.call_on_interrupt(report.cancel):
            await asyncio.wait([report])
        return None if report.cancelled() else report.result()

    async def _show_resumed_run(self, view: TurnView) -> None:
        """Show the events of a run that waited for tasks, even if the runtime resumes it by
        itself."""
        run = await find_waiting_run(self.runtime, self.thread)
        if run is not None:
            try:
                await self._stream_resumed(run, view)
                return
            except ThreadAlreadyRunning:
                pass  # the runtime has already resumed it by itself
        answer = None
        async for run_event in self.runtime.events(self.thread, after=self._seq):
            if isinstance(run_event.event, StepStart):
                answer = run_event.event.message_id
            if isinstance(run_event.event, InferenceComplete) and answer is not None:
                said = TextDelta(delta=await self._load_text(answer))
                view.show(msgspec.structs.replace(run_event, event=said, seq=None))
            self._show(run_event, view)
            if is_terminal(run_event.event):
                return

    async def _load_text(self, message_id: str) -> str:
        """The text of a stored message."""
        context = await self.runtime.store.load_context(self.thread, tail=_RECENT)
        messages = context.messages if context is not None else ()
        return next((message.text() for message in messages if message.id == message_id), "")

    # -- events -------------------------------------------------------------------------------

    def _show(self, event: RunEvent, view: TurnView) -> None:
        if event.thread_id == self.thread and event.seq is not None:
            self._seq = event.seq
        view.show(event)

    async def _read(self, events: RunStream, view: TurnView, group: asyncio.TaskGroup) -> None:
        """Show every event. While the run waits, ask here for an answer, which another approver may
        give first."""
        question: LocalQuestion | None = None
        leaves_waiting = False
        async for event in events:
            if question is not None:
                leaves_waiting, question = await question.withdraw(view), None
            self._show(event, view)
            if self.interrupts.was_pressed:
                # Ctrl-C came before there was a run to cancel; cancelling twice is harmless.
                self.runtime.engine.cancel(self.thread)
            elif event.thread_id == self.thread and is_pause(event):
                view.summary.questions = await self._list_tickets(event.run_id)
                if not leaves_waiting:
                    question = LocalQuestion(self, view.summary.questions)
                    question.start(group, view)
        if question is not None:
            await question.withdraw(view)

    def _cancel(self) -> None:
        self.runtime.engine.cancel(self.thread)
        self.lines.interrupt()

    async def _list_tickets(self, run_id: str) -> Sequence[RunWaitingTicket]:
        record = await self.runtime.find_run(run_id)
        return tickets_of(record) if record is not None else ()

    def stop_waiting(self) -> None:
        """Stop waiting for an answer: the run ends its activation as suspended."""
        run = self.runtime.engine.active.find_by_thread(self.thread)
        if run is not None and run.decisions is not None:
            run.decisions.close()


class LocalQuestion:
    """Asks the person at this terminal for decisions, while another approver may decide first."""

    def __init__(
        self, conversation: TerminalConversation, tickets: Sequence[RunWaitingTicket]
    ) -> None:
        self._conversation = conversation
        self._tickets = tickets
        self._leaves_waiting = False
        self._sending = False
        self._task: asyncio.Task[None] | None = None

    def start(self, group: asyncio.TaskGroup, view: TurnView) -> None:
        self._task = group.create_task(self._ask(view))

    async def withdraw(self, view: TurnView) -> bool:
        """Withdraw the question if it is still open, because the run has continued.

        Returns whether the person at the terminal left the run waiting.
        """
        assert self._task is not None, "it has begun"
        if not self._task.done():
            if not self._sending:
                self._task.cancel()
            await asyncio.wait([self._task])
        if self._task.cancelled():
            await self._show_other_decisions(view)
        return self._leaves_waiting

    async def _ask(self, view: TurnView) -> None:
        """Get decisions for the waiting calls and send them, or leave the run waiting."""
        conversation = self._conversation
        answers: dict[RunWaitingTicket, ToolCallResume] = {}
        for ticket in self._tickets:
            try:
                answer = await conversation.decider.decide(ticket)
            except InputInterrupted:
                return  # the run was cancelled with the question
            if answer is None:
                self._leaves_waiting = True
                break
            view.on_decision(ticket, answer)
            answers[ticket] = answer
        if answers and not conversation.interrupts.was_pressed:
            await self._send(answers, view)
        if self._leaves_waiting or not answers:
            self._leaves_waiting = True
            conversation.stop_waiting()

    async def _send(self, answers: dict[RunWaitingTicket, ToolCallResume], view: TurnView) -> None:
        conversation, self._sending = self._conversation, True
        try:
            await conversation.runtime.decide(
                conversation.thread, answers, by=conversation.decider.by
            )
        except InvalidResume as error:
            view.note(str(error))
            await self._show_other_decisions(view)

    async def _show_other_decisions(self, view: TurnView) -> None:
        """Show the decisions of other approvers on these tickets."""
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
                    view.on_decision(asked, answer)
                    view.note(
                        f"{asked.tool_name} was answered by {answer.by or 'an unnamed approver'}"
                    )
