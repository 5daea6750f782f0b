"""One thread, turn by turn: events to a view, questions to a decider, Ctrl-C to the run."""

from __future__ import annotations

from dataclasses import dataclass

from awaken.cli.decide import Decider
from awaken.cli.exits import Exit, exit_of
from awaken.cli.interrupt import Interrupts
from awaken.cli.lines import Interrupted, Lines
from awaken.cli.view import View
from awaken.domain.event import RunEvent, RunFinish
from awaken.domain.lifecycle import Failed, Suspended
from awaken.domain.suspension import ToolCallResume
from awaken.errors import AgentLoopError
from awaken.front import Runtime


@dataclass(kw_only=True)
class Conversation:
    """A thread of a runtime, and the people around it.

    Args:
        agent: who is asked; if none, whoever spoke last in the thread.
    """

    runtime: Runtime
    thread: str
    agent: str | None
    decider: Decider
    interrupts: Interrupts
    lines: Lines

    async def turn(self, prompt: str, view: View) -> Exit:
        """Say something, show what comes of it, and return how it ended.

        Raises:
            RuntimeFault, ResolveError: the run could not start.
        """
        left = False
        with self.interrupts.calling(self._stop):
            try:
                async with self.runtime.stream(
                    self.agent, prompt, thread=self.thread, wait=True
                ) as events:
                    async for event in events:
                        view.show(event)
                        if self.interrupts.hit:
                            # Pressed before there was a run to cancel; doing it twice is harmless.
                            self.runtime.cancel(self.thread)
                        elif not left and _pauses(event):
                            left = not await self._settle(event.run_id, view)
            except AgentLoopError as error:
                view.tally.ending = view.tally.ending or Failed(value=str(error))
        view.finish()
        return exit_of(view.tally.ending)

    def _stop(self) -> None:
        self.runtime.cancel(self.thread)
        self.lines.interrupt()

    async def _settle(self, run_id: str, view: View) -> bool:
        """Have the waiting calls answered; false if the run is left as it waits."""
        record = await self.runtime.find_run(run_id)
        waiting = record.waiting if record is not None else None
        answers: dict[str, ToolCallResume] = {}
        left = False
        for ticket in waiting.tickets if waiting is not None else ():
            try:
                answer = await self.decider.decide(ticket)
            except Interrupted:
                return True  # the run was cancelled with the question
            if answer is None:
                left = True
                break
            view.decided(ticket, answer)
            answers[ticket.tool_call_id] = answer
        if answers and not self.interrupts.hit:
            self.runtime.decide(self.thread, answers)
        if left or not answers:
            self._leave()
        return not left

    def _leave(self) -> None:
        """No answer will come: let the run end as suspended instead of waiting for one."""
        run = self.runtime.engine.active.find_by_thread(self.thread)
        if run is not None and run.decisions is not None:
            run.decisions.close()


def _pauses(event: RunEvent) -> bool:
    return isinstance(event.event, RunFinish) and isinstance(event.event.termination, Suspended)
