"""Stopping a runtime: closing it, or draining it so that other processes continue its runs.

Live runs end, and plugins are closed, within a limited time. `OneLoop` binds a runtime to the
event loop that it belongs to.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterable

from awaken.clock import Clock
from awaken.core.aio.cancel import CancellationToken, is_cancellation
from awaken.core.aio.owned_tasks import OwnedTasks
from awaken.core.defaults import CANCEL_GRACE
from awaken.core.run import AgentRunResult
from awaken.core.store.store import Store
from awaken.errors import ConfigError, HookFailed
from awaken.plugin.hook import SupportsClose
from awaken.tool.thread_pool import ToolThreads
from awaken.worker.claims import ThreadClaims
from awaken.worker.command_listener import CommandListener
from awaken.worker.live_control import LiveControl
from awaken.worker.live_runs import ActiveRun, ActiveRuns
from awaken.worker.pending_commits import PendingCommits
from awaken.worker.request import RunRequest
from awaken.worker.task_host import WorkerTaskHost

log = logging.getLogger("awaken.runtime")


class Stopping(LiveControl):
    """Ends the live runs of a process, or leaves them open for another one.

    `closed` and `draining` say that no run is started any more.
    """

    commands: CommandListener
    owned: OwnedTasks
    tasks: WorkerTaskHost
    tool_threads: ToolThreads
    pending_commits: PendingCommits

    def __init__(self, store: Store, clock: Clock, active: ActiveRuns) -> None:
        super().__init__(store, clock, active)
        self.claims = ThreadClaims(store, clock)
        self.closed = self.draining = False
        self._leaving = CancellationToken()
        self._leaving_abandonable = CancellationToken()

    @property
    def is_stopping(self) -> bool:
        """Whether no run is started any more."""
        return self.closed or self.draining

    def leave_of(self, request: RunRequest) -> CancellationToken:
        """The token that tells a run to stop and stay open for another process."""
        return self._leaving_abandonable if request.left_on_close else self._leaving

    async def leave_all(self, grace: float = CANCEL_GRACE) -> None:
        """Stop every live run at the end of its step and leave it open for another process.

        After `grace` seconds the remaining runs are cancelled; recovery continues them from their
        last commit.
        """
        self._request_leave()
        await self._close(leave=True, grace=grace)

    async def drain(self, grace: float = CANCEL_GRACE) -> None:
        """Start no run any more, and leave every live run as `leave_all` does, without closing.

        From now on, `run` raises `RuntimeFault`; submissions are stored for other processes.
        """
        self.draining = True
        self._request_leave()
        self._leaving_abandonable.cancel()
        await wait_or_cancel(self.active.all(), grace)
        await self.tasks.close(leave=True, grace=grace)

    def _request_leave(self) -> None:
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
        self._leaving_abandonable.cancel()
        await wait_or_cancel(self.active.all(), grace)
        await self.tasks.close(leave=leave, grace=grace)
        await self.pending_commits.close(CANCEL_GRACE)
        self.commands.unsubscribe(self.on_command)
        await self.owned.close(CANCEL_GRACE)
        await self.claims.close(CANCEL_GRACE)
        self.tool_threads.close()


async def cancel_and_wait(run: asyncio.Task[AgentRunResult], slot: ActiveRun) -> None:
    """Cancel a run whose caller was cancelled, and wait for its end.

    If its cancellation token does not end it in time, its asyncio task is cancelled.
    """
    slot.token.cancel()
    try:
        await asyncio.wait([run], timeout=CANCEL_GRACE)
    finally:
        run.cancel()
    await asyncio.wait([run], timeout=CANCEL_GRACE)


async def wait_or_cancel(runs: Iterable[ActiveRun], grace: float) -> None:
    """Wait for runs that were told to end. After `grace` seconds, cancel the asyncio tasks of the
    remaining ones, and later cancel them again, which also interrupts their cleanup."""
    tasks = [run.task for run in runs if run.task is not None]
    if not tasks:
        return
    _, stuck = await asyncio.wait(tasks, timeout=grace)
    for _ in range(2):
        for task in stuck:
            task.cancel()
        if stuck:
            _, stuck = await asyncio.wait(stuck, timeout=CANCEL_GRACE)


async def close_plugins(plugins: Iterable[SupportsClose], *, leave: bool) -> HookFailed | None:
    """Close every plugin, also after one has failed. Returns the first failure, else `None`."""
    first: HookFailed | None = None
    for plugin in plugins:
        name = getattr(plugin, "id", type(plugin).__name__)
        try:
            await plugin.close(leave=leave)
        except BaseException as error:
            if is_cancellation(error):
                raise
            log.exception("plugin %r could not be closed", name)
            if first is None:
                first = HookFailed(name, "close", error)
                first.__cause__ = error
    return first


class OneLoop:
    """Binds a runtime to the first event loop that uses it, until that loop is closed.

    The locks, events and tasks of a runtime belong to one event loop: a run in a second loop would
    wait for ever, or fail after its work was done.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def bind(self) -> None:
        """Bind the runtime to the running event loop.

        Raises:
            ConfigError: it is bound to another event loop that is still open.
        """
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        with self._lock:
            if self.find() is not None:
                raise ConfigError(
                    "the runtime belongs to another event loop, which is still open: use one "
                    "Runtime for each event loop, or call run_sync, which works from any thread"
                )
            self._loop = loop

    def find(self) -> asyncio.AbstractEventLoop | None:
        """The loop the runtime is bound to. Returns `None` if there is none or it was closed."""
        loop = self._loop
        return None if loop is None or loop.is_closed() else loop
