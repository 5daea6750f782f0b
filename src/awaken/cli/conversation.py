"""One thread, turn by turn: events to a view, questions to a decider, Ctrl-C to the run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

import msgspec

from awaken.cli.aio import lone_error
from awaken.cli.decider import Decider
from awaken.cli.exits import Exit, exit_of
from awaken.cli.follow import MOST_TICKETS, pauses
from awaken.cli.interrupt import Interrupts
from awaken.cli.lines import Interrupted, Lines
from awaken.cli.view import View
from awaken.contract.events import EventSink
from awaken.contract.threads import TicketQuery
from awaken.domain.identity import RequestOrigin
from awaken.domain.lifecycle import Failed
from awaken.domain.run import RunRecord, RunWaitingTicket
from awaken.domain.suspension import ToolCallResume
from awaken.domain.ticket import TicketStatus
from awaken.errors import AgentLoopError, InvalidResume
from awaken.front import RunResult, RunStream, Runtime
from awaken.runtime import RunRequest, WhenBusy


@dataclass(kw_only=True)
class Conversation:
    """A thread of a runtime, and the people around it.

    Args:
        agent: who is asked; if none, whoever spoke last in the thread.
        when_busy: what to do while the thread is running elsewhere.
    """

    runtime: Runtime
    thread: str
    agent: str | None
    decider: Decider
    interrupts: Interrupts
    lines: Lines
    when_busy: WhenBusy = WhenBusy.REFUSE

    async def turn(self, prompt: str, view: View) -> Exit:
        """Say something, show what comes of it, and return how it ended.

        Raises:
            RuntimeFault, ResolveError: the run could not start.
        """
        stream = self.runtime.stream(
            self.agent, prompt, thread=self.thread, wait=True, when_busy=self.when_busy
        )
        return await self._play(stream, view)

    async def take_up(self, run: RunRecord, view: View) -> Exit:
        """Go on with a run that a process has left, from its last commit, with what was decided
        meanwhile; show what comes of it, and return how it ended.

        Raises:
            RuntimeFault, ResolveError: it is alive elsewhere, or its agent is not here.
        """
        engine, store = self.runtime.engine, self.runtime.store
        tickets = await store.list_tickets(TicketQuery(run_id=run.run_id, limit=MOST_TICKETS))
        view.tally.know(await store.load_calls(run.run_id), tickets.items)
        request = _going_on(run)

        async def start(sink: EventSink) -> RunResult:
            return RunResult.of(run.thread_id, await engine.run(request, sink))

        return await self._play(RunStream(start, _spawn, engine.cancel_by_run_id), view)

    async def _play(self, stream: RunStream, view: View) -> Exit:
        with self.interrupts.calling(self._stop), lone_error():
            async with asyncio.TaskGroup() as group:
                try:
                    async with stream as events:
                        await self._read(events, view, group)
                except AgentLoopError as error:
                    view.tally.ending = view.tally.ending or Failed(value=str(error))
        view.finish()
        return exit_of(view.tally.ending)

    async def _read(self, events: RunStream, view: View, group: asyncio.TaskGroup) -> None:
        """Show every event; while a run waits, somebody is asked, and may answer elsewhere."""
        asking: Asking | None = None
        left = False
        async for event in events:
            if asking is not None:
                left, asking = await asking.over(view), None
            view.show(event)
            if self.interrupts.hit:
                # Pressed before there was a run to cancel; doing it twice is harmless.
                self.runtime.engine.cancel(self.thread)
            elif not left and event.thread_id == self.thread and pauses(event):
                asking = Asking(self, await self._tickets(event.run_id))
                asking.begin(group, view)
        if asking is not None:
            await asking.over(view)

    def _stop(self) -> None:
        self.runtime.engine.cancel(self.thread)
        self.lines.interrupt()

    async def _tickets(self, run_id: str) -> Sequence[RunWaitingTicket]:
        record = await self.runtime.find_run(run_id)
        return record.waiting.tickets if record is not None and record.waiting is not None else ()

    def leave(self) -> None:
        """No answer will come: let the run end as suspended instead of waiting for one."""
        run = self.runtime.engine.active.find_by_thread(self.thread)
        if run is not None and run.decisions is not None:
            run.decisions.close()


def _going_on(run: RunRecord) -> RunRequest:
    """The request for a run as it was first asked for, to be carried on while somebody is here."""
    return RunRequest(
        thread_id=run.thread_id,
        continue_run_id=run.run_id,
        wait_for_decisions=True,
        parent_run_id=run.parent_run_id,
        dispatch_id=run.dispatch_id,
        session_id=run.session_id,
        transport_request_id=run.transport_request_id,
        origin=run.request.origin if run.request is not None else RequestOrigin.USER,
    )


def _spawn(work: Awaitable[RunResult]) -> asyncio.Task[RunResult]:
    """The task of a stream, which waits for it or cancels it when it is left."""
    task = asyncio.ensure_future(work)
    assert isinstance(task, asyncio.Task), "runs are coroutines"
    return task


class Asking:
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
        answers: dict[str, ToolCallResume] = {}
        for ticket in self._tickets:
            try:
                answer = await conversation.decider.decide(ticket)
            except Interrupted:
                return  # the run was cancelled with the question
            if answer is None:
                self._left = True
                break
            view.decided(ticket, answer)
            answers[ticket.tool_call_id] = msgspec.structs.replace(answer, digest=ticket.digest)
        if answers and not conversation.interrupts.hit:
            await self._send(answers, view)
        if self._left or not answers:
            self._left = True
            conversation.leave()

    async def _send(self, answers: dict[str, ToolCallResume], view: View) -> None:
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
                    view.note(f"{asked.tool_name} was answered by {answer.by or 'somebody'}")
