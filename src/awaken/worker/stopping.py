"""Stopping a runtime: closing it, or draining it so that other processes go on with its runs."""

from __future__ import annotations

from awaken.clock import Clock
from awaken.core.aio.cancel import CancellationToken
from awaken.core.aio.owned_tasks import OwnedTasks
from awaken.core.defaults import CANCEL_GRACE
from awaken.core.store.store import Store
from awaken.tool.thread_pool import ToolThreads
from awaken.worker.claims import Claims
from awaken.worker.command_listener import CommandListener
from awaken.worker.live_control import LiveControl
from awaken.worker.live_runs import ActiveRuns
from awaken.worker.pending_commits import Unkept
from awaken.worker.request import RunRequest
from awaken.worker.shutdown import wait_or_tear_down
from awaken.worker.task_journal import Tasks


class Stopping(LiveControl):
    """Ends the live runs of a process, or leaves them open for another one.

    `closed` and `draining` say that no run is started any more.
    """

    commands: CommandListener
    owned: OwnedTasks
    tasks: Tasks
    tool_threads: ToolThreads
    unkept: Unkept

    def __init__(self, store: Store, clock: Clock, active: ActiveRuns) -> None:
        super().__init__(store, clock, active)
        self.claims = Claims(store, clock)
        self.closed = self.draining = False
        self._leaving = CancellationToken()
        self._leaving_taken_up = CancellationToken()

    @property
    def is_stopping(self) -> bool:
        """Whether no run is started any more."""
        return self.closed or self.draining

    def leave_of(self, request: RunRequest) -> CancellationToken:
        """The token that tells a run to stop and stay open for another process."""
        return self._leaving_taken_up if request.left_on_close else self._leaving

    async def leave_all(self, grace: float = CANCEL_GRACE) -> None:
        """Stop every live run at the end of its step and leave it open for another process.

        After `grace` seconds the remaining runs are cancelled; recovery continues them from their
        last commit.
        """
        self._tell_to_leave()
        await self._close(leave=True, grace=grace)

    async def drain(self, grace: float = CANCEL_GRACE) -> None:
        """Start no run any more, and leave every live run as `leave_all` does, without closing.

        From now on, `run` raises `RuntimeFault`; submissions are stored for other processes.
        """
        self.draining = True
        self._tell_to_leave()
        self._leaving_taken_up.cancel()
        await wait_or_tear_down(self.active.all(), grace)
        await self.tasks.close(leave=True, grace=grace)

    def _tell_to_leave(self) -> None:
        self._leaving.cancel()
        for run in self.active.all():
            if run.decisions is not None:
                run.decisions.close()

    async def cancel_all(self) -> None:
        """Cancel every live run and wait. A run that does not end in time has its task cancelled.

        Runs with `left_on_close`, such as recovered ones, stay open for another process instead.
        """
        for run in self.active.all():
            if not run.left_on_close:
                run.token.cancel()
        await self._close(leave=False, grace=CANCEL_GRACE)

    async def _close(self, *, leave: bool, grace: float) -> None:
        """Wait for the live runs and for the runtime's own tasks, each for a limited time."""
        self._leaving_taken_up.cancel()
        await wait_or_tear_down(self.active.all(), grace)
        await self.tasks.close(leave=leave, grace=grace)
        await self.unkept.close(CANCEL_GRACE)
        self.commands.unsubscribe(self.hear)
        await self.owned.close(CANCEL_GRACE)
        await self.claims.close(CANCEL_GRACE)
        self.tool_threads.close()
