"""Reaching runs that are live in this process, by run or thread id."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from awaken.clock import Clock
from awaken.contract.commands import CommandKind, ThreadCommand
from awaken.contract.store import Store
from awaken.domain.message import Message
from awaken.domain.suspension import Decision, ToolCallResume
from awaken.errors import DecisionRefused, NotFound
from awaken.runtime import active
from awaken.runtime.active import ActiveRuns
from awaken.runtime.closing import CANCEL_GRACE


class LiveControl:
    """Cancels live runs, answers them, and writes to them.

    `when_told` is given threads for which something waits, and in which nothing is live here.
    """

    def __init__(self, store: Store, clock: Clock, active: ActiveRuns) -> None:
        self.store = store
        self.clock = clock
        self.active = active
        self.when_told: Callable[[str], None] = lambda thread_id: None

    def cancel(self, id: str) -> bool:
        """Cancel a live run by its run or thread id; false if there is none."""
        return active.cancel(self.active.find(id))

    def cancel_by_thread(self, thread_id: str) -> bool:
        return active.cancel(self.active.find_by_thread(thread_id))

    def cancel_by_run_id(self, run_id: str) -> bool:
        return active.cancel(self.active.find_by_run(run_id))

    async def cancel_and_wait_by_thread(
        self, thread_id: str, timeout: float = CANCEL_GRACE
    ) -> bool:
        """Cancel a thread's run and wait for its slot; true only if it was freed in time."""
        run = self.active.find_by_thread(thread_id)
        if run is None:
            return False
        run.token.cancel()
        return await run.wait_ended(timeout)

    async def send_decision(self, id: str, target: str, decision: ToolCallResume) -> bool:
        """Answer a suspended call of a live run; false, and nothing changed, if it does not fit."""
        run = self.active.find(id)
        return run is not None and await self.send_decisions(run.thread_id, [(target, decision)])

    async def send_decisions(self, thread_id: str, decisions: Sequence[Decision]) -> bool:
        """Answer several calls of a live run at once: all of them, or none."""
        run = self.active.find_by_thread(thread_id)
        if run is None or run.decisions is None or not decisions:
            return False
        if run.store is None:
            # It runs elsewhere, and its questions are known there alone.
            return run.decisions.send(decisions)
        try:
            await self.store.decide(thread_id, decisions, at_ms=self.clock.now_ms())
        except DecisionRefused:
            return False
        await self.deliver(thread_id)
        return True

    async def send_messages(self, id: str, messages: Sequence[Message]) -> bool:
        """Write to a live run; the model reads it at its next step. False if nobody reads it."""
        run = self.active.find(id)
        if run is None or not messages or run.inbox is None or run.inbox.is_closed:
            return False
        try:
            await self.write_to(run.thread_id, messages)
        except NotFound:
            return False  # it has not begun
        return True

    async def write_to(self, thread_id: str, messages: Sequence[Message]) -> None:
        """Keep messages for whoever runs the thread, now or next.

        Raises:
            NotFound: there is no such thread.
        """
        command = ThreadCommand(
            thread_id=thread_id,
            kind=CommandKind.MESSAGES,
            messages=tuple(messages),
            at_ms=self.clock.now_ms(),
        )
        await self.store.send(command)
        await self.deliver(thread_id)

    async def hear(self, command: ThreadCommand) -> bool:
        """Let the run of a command's thread know of it; false if none is live here."""
        run = self.active.find_by_thread(command.thread_id)
        if run is not None and (run.fence is None or command.id > run.seen):
            await self.deliver(command.thread_id)
            run = self.active.find_by_thread(command.thread_id)
        return run is not None

    async def deliver(self, thread_id: str) -> None:
        """Pass on what waits for a thread to its run, if that is live here, else to whoever may
        go on with it."""
        while (run := self.active.find_by_thread(thread_id)) is not None:
            fence = run.fence
            if fence is None:
                run.told_early = True
                return
            commands = await self.store.load_commands(thread_id, after=run.seen)
            # What was read while another owner could acknowledge it is not passed on.
            if run.fence is fence:
                for command in commands:
                    run.take(command)
                return
        self.when_told(thread_id)
