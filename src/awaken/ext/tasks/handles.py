"""What all runs of a plugin share: live tasks, the runs that own them, and recently ended tasks."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import Json
from awaken.core.aio.cancel import CancellationToken
from awaken.core.aio.owned_tasks import start_logged
from awaken.core.inbox import InboxSender
from awaken.core.task import PersistedTaskMeta
from awaken.ext.tasks.limits import BackgroundLimits, Recent, Slots
from awaken.ext.tasks.record_rules import next_number, shorten_record
from awaken.ext.tasks.task import ALIVE, TaskHandle
from awaken.ids import UUID7, Ids

if TYPE_CHECKING:
    from awaken.ext.tasks.manager import BackgroundTaskManager

log = logging.getLogger("awaken.background")

REMEMBERED = 10_000
"""How many cancelled runs, threads and delivered messages are remembered."""

ENDED_REMEMBERED = 1_000
"""How many ended tasks are remembered: a run that broke off may not have recorded their ends."""


class EndedTask(msgspec.Struct, frozen=True):
    """A task that ended; `is_reported` says whether its owner was sent the end, `journaled`
    whether a journal has the result."""

    record: PersistedTaskMeta
    is_reported: bool
    journaled: bool = False

    @property
    def state_record(self) -> PersistedTaskMeta:
        """The record of the task for its owner's state."""
        return shorten_record(self.record) if self.journaled else self.record


class ThreadOwner:
    """The live run of a thread, which owns the thread's tasks. When its token is cancelled, its
    tasks are cancelled."""

    __slots__ = ("_listener", "_token", "manager", "run_id", "thread_id")

    def __init__(
        self,
        thread_id: str,
        run_id: str,
        manager: BackgroundTaskManager,
        token: CancellationToken | None,
    ) -> None:
        self.thread_id, self.run_id, self.manager = thread_id, run_id, manager
        self._token = token
        self._listener = token.on_cancel(self._cancel_tasks) if token is not None else 0

    def _cancel_tasks(self) -> None:
        self.manager.cancel_descendants_for_run(self.run_id)

    def drop_guard(self) -> None:
        """Stop listening to the token: cancelling it no longer stops the tasks."""
        if self._token is not None:
            self._token.forget(self._listener)


class TaskHandles:
    """The tasks of this process and the runs that own them, one run of a thread after another.

    A task reports to the manager of the run that is live in its thread; without a live run, its
    end is remembered for the next run. `commit_failures` counts, by
    operation, the records that a state refused.
    """

    def __init__(
        self,
        limits: BackgroundLimits | None = None,
        *,
        clock: Clock = SYSTEM_CLOCK,
        ids: Ids = UUID7,
    ) -> None:
        self.limits = limits or BackgroundLimits()
        self.clock, self.ids = clock, ids
        self.slots = Slots(self.limits)
        self.live: dict[str, TaskHandle] = {}
        self.ended: Recent[str, EndedTask] = Recent(ENDED_REMEMBERED)
        self.cancelled_runs: Recent[str, None] = Recent(REMEMBERED)
        self.delivered: Recent[str, None] = Recent(REMEMBERED)
        self.retries: dict[str, asyncio.Future[None]] = {}
        self.sending: set[str] = set()
        self.commit_failures: Counter[str] = Counter()
        self._numbers: Recent[str, int] = Recent(REMEMBERED)
        self._owners: dict[str, ThreadOwner] = {}
        self._owned: set[asyncio.Future[Any]] = set()

    # -- owners -------------------------------------------------------------------------------

    def attach(self, owner: ThreadOwner) -> None:
        """Make a run the owner of its thread's tasks."""
        before = self._owners.get(owner.thread_id)
        if before is not None:
            before.drop_guard()
        self._owners[owner.thread_id] = owner

    def detach(self, thread_id: str, run_id: str) -> None:
        """Remove the owner of a thread's tasks when its run is over, unless another run is live in
        it by now."""
        owner = self._owners.get(thread_id)
        if owner is not None and owner.run_id == run_id:
            owner.drop_guard()
            del self._owners[thread_id]

    def find_manager(self, thread_id: str) -> BackgroundTaskManager | None:
        """The manager of the run that is live in a thread, or `None`."""
        found = self._owners.get(thread_id)
        return found.manager if found is not None else None

    def inbox_of(self, handle: TaskHandle) -> InboxSender | None:
        """The inbox of the owner's live run, else that of the run that started the task."""
        manager = self.find_manager(handle.thread_id)
        if manager is not None and manager.inbox is not None:
            return manager.inbox
        return handle.owner_inbox

    def report(self, handle: TaskHandle, event: Json) -> bool:
        """Send an event to a task's owner. Returns `False` if no run will read it."""
        inbox = self.inbox_of(handle)
        if inbox is None:
            return False
        return inbox.send(event) or (inbox.is_closed and inbox.hands_over)

    # -- tasks --------------------------------------------------------------------------------

    def reserve(self, thread_id: str, taken: Iterable[str]) -> str:
        """A task id that no task of the thread has or had."""
        number = max(self._numbers.get(thread_id) or 0, next_number(taken))
        self._numbers.put(thread_id, number + 1)
        return f"bg_{number}"

    def has_reserved(self, thread_id: str) -> bool:
        """Whether this process knows which ids the thread's tasks have."""
        return self._numbers.get(thread_id) is not None

    def skip(self, thread_id: str, taken: Iterable[str]) -> None:
        """Do not reserve these ids, nor lower ones."""
        number = max(self._numbers.get(thread_id) or 0, next_number(taken))
        self._numbers.put(thread_id, number)

    def add(self, handle: TaskHandle) -> None:
        self.live[handle.record.uid] = handle
        ALIVE[handle.record.uid] = handle

    def drop(self, handle: TaskHandle) -> None:
        """Remove the handle of a task that no longer runs here."""
        self.live.pop(handle.record.uid, None)
        ALIVE.pop(handle.record.uid, None)
        if handle.inbox_receiver is not None:
            handle.inbox_receiver.close()
        handle.done.set()

    def find(self, task: PersistedTaskMeta) -> TaskHandle | None:
        """The handle of a task that runs in this process, even if another plugin started it; else
        `None`."""
        return self.live.get(task.uid) or ALIVE.get(task.uid)

    def adopt(self, task: PersistedTaskMeta, manager: BackgroundTaskManager) -> TaskHandle | None:
        """The same; a task that another plugin started is taken over by this one."""
        handle = self.find(task)
        if handle is not None and task.uid not in self.live:
            handle.handles.live.pop(task.uid, None)
            handle.manager = manager
            self.live[task.uid] = handle
        return handle

    def of_thread(self, thread_id: str) -> list[TaskHandle]:
        return [handle for handle in self.live.values() if handle.thread_id == thread_id]

    def signal(self, tasks: Iterable[PersistedTaskMeta]) -> int:
        """Tell tasks to stop. Returns how many of them run here."""
        found = [
            handle
            for task in tasks
            if (handle := self.find(task)) is not None and not handle.record.is_terminal
        ]
        for handle in found:
            handle.token.cancel()
        return len(found)

    # -- work ---------------------------------------------------------------------------------

    def own(self, work: Coroutine[Any, Any, None], failed: str) -> asyncio.Future[None]:
        """Start work and hold it until it is done. `failed` is logged if it raises."""
        task = start_logged(work, failed, log)
        self._owned.add(task)
        task.add_done_callback(self._owned.discard)
        return task

    async def close(self, *, leave: bool = False) -> None:
        """End all tasks and deliveries, and wait for them.

        With `leave`, tasks that a journal keeps are not ended but left to the process that resumes
        them.
        """
        for handle in tuple(self.live.values()):
            if leave and handle.begun and handle.runner is not None:
                handle.runner.cancel()
            else:
                handle.token.cancel()
        for retry in self.retries.values():
            retry.cancel()
        self.retries.clear()
        while self._owned:
            await asyncio.wait(tuple(self._owned))
