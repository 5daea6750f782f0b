"""What a worker offers to the background tasks that run in its process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from awaken.core.account import Account
from awaken.core.deps import RunDeps
from awaken.core.registry import ExecutionResolver
from awaken.core.run import Requester, RunRecord
from awaken.core.store.commits import Fence, ThreadCommit
from awaken.core.task import (
    AMBIENT_MESSAGE_SINK,
    AMBIENT_TASK_JOURNAL,
    CURRENT_TASK,
    MakeTaskJournal,
    RecoverableTasks,
)
from awaken.core.tool_context import CURRENT_CALL
from awaken.tool.thread_pool import TOOL_THREADS
from awaken.worker.claims import ClaimUse
from awaken.worker.crash_loop import add_takeover
from awaken.worker.live_runs import ActiveRun

if TYPE_CHECKING:
    from awaken.worker.worker import Worker


class WorkerTaskHost:
    """The `TaskHost` of a worker.

    The journal is made when a run first needs it: a process without background tasks does not
    import it.
    """

    def __init__(self, worker: Worker, make_journal: MakeTaskJournal) -> None:
        self._worker = worker
        self._active, self._claims = worker.active, worker.claims
        self.make_journal = make_journal
        self._journal: RecoverableTasks | None = None
        self.store, self.clock = worker.store, worker.clock
        self.delegates = worker.delegates
        self.deliver = worker.deliver

    # -- for the worker -----------------------------------------------------------------------

    def get_journal(self) -> RecoverableTasks:
        """The journal of this process's tasks."""
        if self._journal is None:
            self._journal = self.make_journal(self)
        return self._journal

    def set_context_variables(self, *, is_root: bool) -> None:
        """Give a run the journal, message sink and tool threads of this process. A root run is
        detached from the task and the call that its caller may be in."""
        AMBIENT_TASK_JOURNAL.set(self.get_journal)
        AMBIENT_MESSAGE_SINK.set(self._worker.messages)
        TOOL_THREADS.set(self._worker.tool_threads)
        if is_root:
            for surrounding in (CURRENT_TASK, CURRENT_CALL):
                if surrounding.get() is not None:  # setting a context variable costs time
                    surrounding.set(None)

    async def recover(self, record: RunRecord) -> bool:
        """Resume a task that no process runs; see `RecoverableTasks.recover`."""
        TOOL_THREADS.set(self._worker.tool_threads)  # the task inherits it
        return await self.get_journal().recover(record, self._worker.registry.snapshot())

    async def send_outboxes(self) -> None:
        """Try once to send the unsent messages of threads without a running run.

        Raises:
            StoreUnavailable: the outboxes cannot be read or updated now.
        """
        threads = await self.store.list_outboxes()
        if threads:
            AMBIENT_MESSAGE_SINK.set(self._worker.messages)
            await self.get_journal().send_outboxes(threads, self._worker.registry.snapshot())

    async def release_idle(self) -> None:
        """Release tasks that no longer run here; see `RecoverableTasks.release_idle`."""
        if self._journal is not None:
            await self._journal.release_idle()

    async def close(self, *, leave: bool, grace: float) -> None:
        """Stop this process's tasks, or leave them open; see `RecoverableTasks.close`."""
        if self._journal is not None:
            await self._journal.close(leave=leave, grace=grace)

    # -- for the journal ----------------------------------------------------------------------

    def find_live(self, run_id: str | None) -> ActiveRun | None:
        return self._active.find_by_run(run_id) if run_id is not None else None

    def reserve(self, record: RunRecord) -> ActiveRun:
        slot = self._active.reserve(record.thread_id)
        try:
            self._active.name(slot, record.run_id)
        except BaseException:
            slot.release()
            raise
        slot.requester = Requester.of(record.request)
        return slot

    def subscribe(self) -> None:
        self._worker.commands.subscribe(self._worker.on_command)

    async def claim(self, thread_id: str) -> Fence:
        return await self._claims.claim(thread_id, ClaimUse.TASK)

    async def release(self, fence: Fence) -> None:
        await self._claims.release(fence)

    def drop(self, fence: Fence) -> None:
        self._claims.drop(fence)

    def add_pending(
        self, fence: Fence, commit: ThreadCommit, then: Callable[[], Awaitable[None]]
    ) -> None:
        self._worker.pending_commits.add(fence, [commit], then)

    def is_pending(self, thread_id: str) -> bool:
        return thread_id in self._worker.pending_commits

    async def count_takeover(self, record: RunRecord, delegates: Iterable[str]) -> RunRecord:
        return await add_takeover(self.store, record, delegates)

    async def share_budget(self, run_id: str | None) -> None:
        await self._worker.accounts.spread(run_id)

    async def load_resources(
        self, agent_id: str, run_id: str | None, resolver: ExecutionResolver
    ) -> tuple[Account | None, RunDeps | None]:
        account = await self._worker.accounts.of_run(run_id, resolver)
        return account, await self._worker.deps.find_for_task(agent_id, run_id)
