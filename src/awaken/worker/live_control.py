"""Control of the runs that are live in this process, by run or thread id.

`operations` controls runs wherever they are, through the store.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from awaken.clock import Clock
from awaken.core.aio.callbacks import Callbacks
from awaken.core.defaults import CANCEL_GRACE
from awaken.core.message import Message
from awaken.core.store.commands import CommandKind, Submission, Submitted, ThreadCommand
from awaken.core.store.store import Store
from awaken.core.suspension import Decision, ToolCallResume
from awaken.errors import DecisionRefused, InvalidResume, NotFound
from awaken.worker import live_runs as active
from awaken.worker.live_runs import MAX_SEEN_IDS, ActiveRun, ActiveRuns


class LiveControl:
    """Cancels live runs, answers their questions, sends them messages, and stores submissions.

    Subscribers of `unattended` are called with the id of a thread that has no live run in this
    process but may have a command waiting, for example from a background task. Those of `taken` are
    called with each command that a live run takes.
    """

    def __init__(self, store: Store, clock: Clock, active: ActiveRuns) -> None:
        self.store = store
        self.clock = clock
        self.active = active
        self.unattended: Callbacks[str] = Callbacks()
        self.taken: Callbacks[ThreadCommand] = Callbacks()

    def cancel(self, id: str) -> bool:
        """Cancel a live run by its run or thread id; false if there is none."""
        return active.cancel(self.active.find(id))

    def cancel_by_thread(self, thread_id: str) -> bool:
        """Cancel the live run of a thread; false if there is none."""
        return active.cancel(self.active.find_by_thread(thread_id))

    def cancel_by_run_id(self, run_id: str) -> bool:
        """Cancel a live run; false if it is not live here."""
        return active.cancel(self.active.find_by_run(run_id))

    async def cancel_and_wait_by_thread(
        self, thread_id: str, timeout: float = CANCEL_GRACE
    ) -> bool:
        """Cancel a thread's live run; true if it has ended within `timeout` seconds."""
        run = self.active.find_by_thread(thread_id)
        if run is None:
            return False
        run.token.cancel()
        return await run.wait_ended(timeout)

    async def send_decision(self, id: str, target: str, decision: ToolCallResume) -> bool:
        """Answer a suspended call of a live run; false if the answer fits no open question."""
        run = self.active.find(id)
        return run is not None and await self.send_decisions(run.thread_id, [(target, decision)])

    async def send_decisions(self, thread_id: str, decisions: Sequence[Decision]) -> bool:
        """Answer several suspended calls of a live run, all or none. Returns false if none."""
        run = self.active.find_by_thread(thread_id)
        if run is None or run.decisions is None or not decisions:
            return False
        if run.state is None:
            # A backend runs it, and only the backend knows the open questions.
            return run.decisions.send(decisions)
        try:
            await self.store.decide(thread_id, decisions, at_ms=self.clock.now_ms())
        except DecisionRefused:
            return False
        await self.deliver(thread_id)
        return True

    async def send_messages(self, id: str, messages: Sequence[Message]) -> bool:
        """Send messages to a live run, whose model reads them at its next step. Returns false if
        the run does not read messages, or no longer does."""
        run = self.active.find(id)
        if run is None or not messages or run.inbox is None or run.inbox.is_closed:
            return False
        try:
            await self.write_to(run.thread_id, messages)
        except NotFound:
            return False  # the run has not made its first commit
        return True

    async def write_to(self, thread_id: str, messages: Sequence[Message]) -> None:
        """Store messages for the thread's live run, in any process, or else for its next run.

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

    async def submit(self, submission: Submission) -> Submitted:
        """Store a submission, and tell this process's own recovery of it.

        Raises:
            KeyReused, ThreadDeleted, ThreadBusy, AlreadyExists: see `Commands.submit`.
            InvalidResume: an answer in it fits no open ticket.
        """
        try:
            submitted = await self.store.submit(submission)
        except DecisionRefused as error:
            raise InvalidResume(error) from error
        await self.deliver(submission.thread_id)
        return submitted

    async def on_command(self, thread_id: str) -> bool:
        """Deliver the commands of a thread to its run; false if none is live here."""
        if self.active.find_by_thread(thread_id) is None:
            return False
        await self.deliver(thread_id)
        return self.active.find_by_thread(thread_id) is not None

    async def deliver(self, thread_id: str) -> None:
        """Pass the commands that wait for a thread on to its run. If no run is live here, call the
        subscribers of `unattended`."""
        while (run := self.active.find_by_thread(thread_id)) is not None:
            fence = run.fence
            if fence is None:
                run.notified_before_start = True
                return
            commands = await self._read(run, run.seen)
            # If the fence changed during the read, another owner may have handled these commands.
            if run.fence is fence:
                for command in commands:
                    run.take(command)
                    self.taken.notify(command)
                if len(run.seen) > run.forget_at:
                    await self._forget_acknowledged(run)
                return
        self.unattended.notify(thread_id)

    async def _read(self, run: ActiveRun, skip: Collection[int] = ()) -> Sequence[ThreadCommand]:
        run.reads += 1
        try:
            return await self.store.load_commands(run.thread_id, skip=skip)
        finally:
            run.reads -= 1

    async def _forget_acknowledged(self, run: ActiveRun) -> None:
        """Forget the ids of commands that the store no longer has. A read that is under way may
        still have found one of them: then a later call forgets them.

        It reads every pending command, so the next call comes when there are twice as many.
        """
        before = frozenset(run.seen)
        pending = {command.id for command in await self._read(run)}
        if run.reads == 0:
            run.seen -= before - pending
        run.forget_at = max(MAX_SEEN_IDS, 2 * len(run.seen))


class RunAccess:
    """The calls that a run may make to its worker. It names the run's thread and has no slot,
    which holds the run's controls: the collector does not see those."""

    __slots__ = ("_runtime", "_thread_id")

    def __init__(self, runtime: LiveControl, thread_id: str) -> None:
        self._runtime, self._thread_id = runtime, thread_id

    async def deliver(self) -> None:
        """Read the commands that wait in the store, and deliver them to the run."""
        await self._runtime.deliver(self._thread_id)

    def abandon(self) -> None:
        """Leave the run without a commit."""
        run = self._runtime.active.find_by_thread(self._thread_id)
        if run is not None:
            run.abandon()
