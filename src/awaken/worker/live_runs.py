"""The runs that are live in this process: at most one for each thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from awaken.core.aio.callbacks import Callbacks
from awaken.core.aio.cancel import CancellationToken
from awaken.core.bus import NO_TOPIC, Topic
from awaken.core.deps import RunDeps
from awaken.core.inbox import DecisionQueue, InboxSender, messages_payload
from awaken.core.run import NO_REQUESTER, AgentRunResult
from awaken.core.state.store import StateStore
from awaken.core.store.commands import CommandKind, ThreadCommand
from awaken.core.store.commits import Fence
from awaken.engine.run_setup import RunControls
from awaken.errors import ThreadAlreadyRunning

MAX_SEEN_IDS = 100
"""How many ids of commands a run keeps before it looks which of them were acknowledged."""

_NONE_SEEN: frozenset[int] = frozenset()


class ActiveRun:
    """The slot of a thread's live run, with its token, inbox and decision queue.

    The slot is reserved first; its fields are filled in as the run starts. It takes commands only
    while it has a `fence`: before that, another process may own the thread and handle them.
    `notified_before_start` says that a command came before the fence, so the store must be read
    again. `seen` are the ids of the commands it has taken: ids may become visible in any order, so
    the highest of them would not do. When they are more than `forget_at`, those that were
    acknowledged are forgotten. `reads` counts the reads of commands that are under way.
    `has_unread_commands` says that a message came after the run had closed its inbox,
    `has_queued_run` that another run was submitted to the thread, `is_fenced_off` that another
    process has the thread.
    """

    __slots__ = (
        "_ended",
        "_release",
        "controls",
        "decisions",
        "deps",
        "fence",
        "forget_at",
        "has_ended",
        "has_queued_run",
        "has_unread_commands",
        "inbox",
        "is_fenced_off",
        "left_on_close",
        "notified_before_start",
        "reads",
        "requester",
        "run_id",
        "seen",
        "state",
        "task",
        "thread_id",
        "token",
        "topic",
    )

    def __init__(self, thread_id: str, release: Callable[[ActiveRun], None]) -> None:
        self.thread_id = thread_id
        self.run_id: str | None = None
        self.requester = NO_REQUESTER
        self.token = CancellationToken()
        self.decisions: DecisionQueue | None = None
        self.deps: RunDeps | None = None
        self.inbox: InboxSender | None = None
        self.state: StateStore | None = None
        self.task: asyncio.Task[AgentRunResult] | None = None
        self.seen = _NONE_SEEN
        self.reads, self.forget_at = 0, MAX_SEEN_IDS
        self.left_on_close = False
        self.has_unread_commands = self.has_queued_run = self.is_fenced_off = False
        self.controls: RunControls | None = None
        self.fence: Fence | None = None
        self.notified_before_start = False
        self.topic: Topic = NO_TOPIC
        self._ended: asyncio.Event | None = None
        self.has_ended = False
        self._release = release

    def release(self) -> None:
        """Free the thread's slot, and wake the callers of `wait_ended`."""
        if self.decisions is not None:
            self.decisions.close()
        self.has_ended, self.fence = True, None
        self.topic.close()
        self._release(self)
        if self._ended is not None:
            self._ended.set()

    async def wait_ended(self, timeout: float | None) -> bool:
        """Wait until the slot is free. Returns false if that takes more than `timeout` seconds."""
        if self.has_ended:
            return True
        self._ended = self._ended or asyncio.Event()
        try:
            async with asyncio.timeout(timeout):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True

    def begin(self, fence: Fence, read: Iterable[ThreadCommand]) -> None:
        """Let commands reach the run: it owns the thread, and has read the commands `read`."""
        self.fence = fence
        self.has_unread_commands = self.has_queued_run = False
        for command in read:
            self.seen |= {command.id}
            if command.kind is CommandKind.RUN and command.run_id != self.run_id:
                self.has_queued_run = True

    def abandon(self) -> None:
        """Cancel the run's task without a commit: another process continues the run."""
        self.is_fenced_off = True
        if self.controls is not None:
            self.controls.is_lost = True
        if self.task is not None:
            self.task.cancel()

    def renew(self) -> None:
        """Prepare the slot for another run of the thread, or for the same one again."""
        self.fence = None
        self.topic.close()
        self.token = CancellationToken()

    def take(self, command: ThreadCommand) -> None:
        """Pass a command on to the run, once.

        A command that the run cannot take now stays in the store, for the thread's next run.
        """
        if command.kind is CommandKind.RUN:
            self.has_queued_run = True  # the thread's next run, when this one has ended
            return
        if command.id in self.seen or command.run_id not in (None, self.run_id):
            return
        self.seen |= {command.id}
        if command.kind is CommandKind.CANCEL:
            self.token.cancel()
        elif command.kind is CommandKind.MESSAGES and self.inbox is not None:
            # A run that is about to end has closed its inbox.
            self.has_unread_commands |= not self.inbox.send(
                messages_payload(command.messages, command.id)
            )
        elif command.kind is CommandKind.DECISIONS and self.decisions is not None:
            self.decisions.send(command.decisions, command.id)


class ActiveRuns:
    """Finds live runs by run id or by thread id.

    Subscribers of `changes` are called with a slot when it is given its run, and again when that
    has ended (`has_ended`).
    """

    def __init__(self) -> None:
        self.changes: Callbacks[ActiveRun] = Callbacks()
        self._by_thread: dict[str, ActiveRun] = {}
        self._by_run: dict[str, ActiveRun] = {}

    def reserve(self, thread_id: str) -> ActiveRun:
        """Take a thread's slot, before the thread is read.

        Raises:
            ThreadAlreadyRunning: another run of this process has it.
        """
        if thread_id in self._by_thread:
            raise ThreadAlreadyRunning(thread_id)
        run = self._by_thread[thread_id] = ActiveRun(thread_id, self._release)
        return run

    def name(self, run: ActiveRun, run_id: str) -> None:
        """Give a reserved slot its run.

        Raises:
            ThreadAlreadyRunning: that run is live in another thread.
        """
        other = self._by_run.get(run_id)
        if other is not None and other is not run:
            raise ThreadAlreadyRunning(other.thread_id)
        run.run_id = run_id
        self._by_run[run_id] = run
        self.changes.notify(run)

    def _release(self, run: ActiveRun) -> None:
        if self._by_thread.get(run.thread_id) is run:
            del self._by_thread[run.thread_id]
        if run.run_id is not None and self._by_run.get(run.run_id) is run:
            del self._by_run[run.run_id]
        self.changes.notify(run)

    def find(self, id: str) -> ActiveRun | None:
        """The run with that run or thread id. Returns `None` if there is none, or if two fit."""
        by_run, by_thread = self._by_run.get(id), self._by_thread.get(id)
        if by_run is not None and by_thread is not None and by_run is not by_thread:
            return None
        return by_run or by_thread

    def find_by_thread(self, thread_id: str) -> ActiveRun | None:
        return self._by_thread.get(thread_id)

    def find_by_run(self, run_id: str) -> ActiveRun | None:
        return self._by_run.get(run_id)

    def __bool__(self) -> bool:
        return bool(self._by_thread)

    def all(self) -> list[ActiveRun]:
        return list(self._by_thread.values())


def cancel(run: ActiveRun | None) -> bool:
    """Cancel a live run; false if there is none."""
    if run is None:
        return False
    run.token.cancel()
    return True
