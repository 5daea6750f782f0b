"""A conversation on one thread: shows events, asks for approvals, and cancels on Ctrl-C."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from awaken.cli.asyncio_main import Interrupts, lone_error
from awaken.cli.decider import Decider
from awaken.cli.exit_codes import ExitCode, exit_code_for
from awaken.cli.live_tasks import LiveTasks, next_news, tickets_of, waiting_run
from awaken.cli.stdin_lines import InputInterrupted, StdinLines
from awaken.cli.store_address import WayBack
from awaken.cli.thread_printer import MOST_TICKETS, pauses
from awaken.cli.view import View
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
class Conversation:
    """A conversation with agents on one thread of a runtime.

    Args:
        agent: the agent to ask; by default the one that spoke last in the thread.
        when_busy: what to do if the thread is running in another process.
        back: how to return to the thread.
        stays: whether a turn lasts until the agent's background tasks have ended and it has read
            their results; if not, `hear` continues the run later.
    """

    runtime: Runtime
    thread: str
    agent: str | None
    decider: Decider
    interrupts: Interrupts
    lines: StdinLines
    when_busy: Literal["refuse", "queue"] = "refuse"
    back: WayBack | None = None
    stays: bool = True
    _seq: int = field(default=0, init=False)
    _tasks: LiveTasks | None = field(default=None, init=False)
    _noted: str = field(default="", init=False)
    _asked: set[str] = field(default_factory=set, init=False)

    async def turn(self, prompt: str, view: View) -> ExitCode:
        """Send a prompt and show the run's events. Returns how the run ended.

        Raises:
            RuntimeFault, ResolveError: the run could not start.
        """
        stream = self.runtime.stream(
            self.agent, prompt, thread=self.thread, wait=True, when_busy=self.when_busy
        )
        await self._play(stream, view)
        return await self._end(view)

    async def take_up(self, run: RunRecord, view: View) -> ExitCode:
        """Resume a run without an owner from its last commit, with decisions made meanwhile, and
        show its events. Returns how it ended.

        Raises:
            RuntimeFault, ResolveError: the run is live in another process, or its agent is missing
                here.
        """
        await self._carry_on(run, view)
        return await self._end(view)

    async def _carry_on(self, run: RunRecord, view: View) -> None:
        store = self.runtime.store
        tickets = await store.list_tickets(TicketQuery(run_id=run.run_id, limit=MOST_TICKETS))
        view.summary.add_earlier_calls(await store.load_calls(run.run_id), tickets.items)
        await self._play(stream_resumed(self.runtime, run), view)

    async def _play(self, stream: RunStream, view: View) -> None:
        with self.interrupts.calling(self._stop), lone_error():
            async with asyncio.TaskGroup() as group:
                try:
                    async with stream as events:
                        await self._read(events, view, group)
                except AgentLoopError as error:
                    view.summary.ending = view.summary.ending or Failed(value=str(error))

    async def _end(self, view: View) -> ExitCode:
        """Wait for background tasks if `stays` is set. Returns how the turn ended."""
        while self.stays and view.summary.awaits_tasks:
            await self._stay(view)
        view.finish()
        return (
            ExitCode.SUSPENDED if view.summary.awaits_tasks else exit_code_for(view.summary.ending)
        )

    # -- background tasks ---------------------------------------------------------------------

    async def stay(self, view: View) -> ExitCode:
        """Wait until a run no longer waits for its background tasks. Returns how it ended."""
        head = await self.runtime.store.load_thread(self.thread)
        self._seq = head.event_count if head is not None else 0
        view.summary.thread = self.thread
        self.stays = view.summary.awaits_tasks = True
        return await self._end(view)

    async def hear(self, view: View) -> ExitCode:
        """Resume a run to which tasks have reported. Returns how it ended."""
        await self._go_on(view)
        return await self._end(view)

    async def news(self, view: View | None = None) -> RunRecord | None:
        """Wait until a task has reported. If an agent in a background task asks something first,
        returns its run."""
        if (tasks := await self.tasks()) is None:
            return None
        return await next_news(tasks, self._asked, None if view is None else view.show)

    async def tasks(self) -> LiveTasks | None:
        """The tasks that the thread's run waits for; `None` if it does not wait for tasks."""
        run = await waiting_run(self.runtime, self.thread)
        if run is None:
            return None
        if self._tasks is None or self._tasks.run.run_id != run.run_id:
            self._tasks = LiveTasks(self.runtime, run)
        return self._tasks

    async def answer(self, asking: RunRecord, view: View) -> bool:
        """Ask for answers to the questions of an agent in a background task. Returns whether they
        were given."""
        view.note(f"{asking.agent_id}, in the background, needs an answer")
        answers: dict[RunWaitingTicket, ToolCallResume] = {}
        for ticket in tickets_of(asking):
            self._asked.add(ticket.key or "")
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

    async def _stay(self, view: View) -> None:
        """Wait until a task has reported, and resume the run; Ctrl-C cancels the tasks and the
        run."""
        tasks = await self.tasks()
        names = await tasks.names() if tasks is not None else ""
        if names and names != self._noted:
            self._noted = names
            view.note(f"waits for background tasks: {names}")
        asking = await self._listen(view)
        if self.interrupts.hit:
            await self.runtime.cancel(self.thread)
            if await self.tasks() is not None:
                # Tasks that cannot be stopped are not waited for.
                view.summary.ending, view.summary.awaits_tasks = CANCELLED, False
                return
        elif asking is not None:
            with self.interrupts.calling(self.lines.interrupt), suppress(InputInterrupted):
                self.stays = await self.answer(asking, view)
            return
        await self._go_on(view)

    async def _listen(self, view: View) -> RunRecord | None:
        news = start_task(self.news(view))
        with self.interrupts.calling(news.cancel):
            await asyncio.wait([news])
        return None if news.cancelled() else news.result()

    async def _go_on(self, view: View) -> None:
        """Show the events of a run that waited for tasks, even if the runtime resumes it by
        itself."""
        run = await waiting_run(self.runtime, self.thread)
        if run is not None:
            try:
                await self._carry_on(run, view)
                return
            except ThreadAlreadyRunning:
                pass  # the runtime has already resumed it by itself
        answer = None
        async for told in self.runtime.events(self.thread, after=self._seq):
            if isinstance(told.event, StepStart):
                answer = told.event.message_id
            if isinstance(told.event, InferenceComplete) and answer is not None:
                said = TextDelta(delta=await self._text_of(answer))
                view.show(msgspec.structs.replace(told, event=said, seq=None))
            self._show(told, view)
            if is_terminal(told.event):
                return

    async def _text_of(self, message_id: str) -> str:
        """The text of a stored message."""
        context = await self.runtime.store.load_context(self.thread, tail=_RECENT)
        messages = context.messages if context is not None else ()
        return next((message.text() for message in messages if message.id == message_id), "")

    # -- events -------------------------------------------------------------------------------

    def _show(self, event: RunEvent, view: View) -> None:
        if event.thread_id == self.thread and event.seq is not None:
            self._seq = event.seq
        view.show(event)

    async def _read(self, events: RunStream, view: View, group: asyncio.TaskGroup) -> None:
        """Show every event. While the run waits, ask here for an answer, which another approver may
        give first."""
        asking: LocalQuestion | None = None
        left = False
        async for event in events:
            if asking is not None:
                left, asking = await asking.over(view), None
            self._show(event, view)
            if self.interrupts.hit:
                # Ctrl-C came before there was a run to cancel; cancelling twice is harmless.
                self.runtime.engine.cancel(self.thread)
            elif event.thread_id == self.thread and pauses(event):
                view.summary.questions = await self._tickets(event.run_id)
                if not left:
                    asking = LocalQuestion(self, view.summary.questions)
                    asking.begin(group, view)
        if asking is not None:
            await asking.over(view)

    def _stop(self) -> None:
        self.runtime.engine.cancel(self.thread)
        self.lines.interrupt()

    async def _tickets(self, run_id: str) -> Sequence[RunWaitingTicket]:
        record = await self.runtime.find_run(run_id)
        return tickets_of(record) if record is not None else ()

    def leave(self) -> None:
        """Give up waiting for an answer: the run ends as suspended."""
        run = self.runtime.engine.active.find_by_thread(self.thread)
        if run is not None and run.decisions is not None:
            run.decisions.close()


class LocalQuestion:
    """Asks the person at this terminal for decisions, while another approver may decide first."""

    def __init__(self, conversation: Conversation, tickets: Sequence[RunWaitingTicket]) -> None:
        self._conversation = conversation
        self._tickets = tickets
        self._left = False
        self._sending = False
        self._task: asyncio.Task[None] | None = None

    def begin(self, group: asyncio.TaskGroup, view: View) -> None:
        self._task = group.create_task(self._ask(view))

    async def over(self, view: View) -> bool:
        """Withdraw the question if it is not answered yet, because the run goes on.

        Returns whether the person here left the run waiting.
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
        """Get decisions for the waiting calls and send them, or leave the run waiting."""
        conversation = self._conversation
        answers: dict[RunWaitingTicket, ToolCallResume] = {}
        for ticket in self._tickets:
            try:
                answer = await conversation.decider.decide(ticket)
            except InputInterrupted:
                return  # the run was cancelled with the question
            if answer is None:
                self._left = True
                break
            view.on_decision(ticket, answer)
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
        """Show how other approvers have decided meanwhile."""
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
