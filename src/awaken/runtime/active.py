"""Runs that are live in this process: at most one a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from awaken.contract.commands import CommandKind, ThreadCommand
from awaken.contract.commits import Fence
from awaken.control.cancel import CancellationToken
from awaken.control.inbox import DecisionQueue, InboxSender
from awaken.domain.result import AgentRunResult
from awaken.errors import ThreadAlreadyRunning
from awaken.loop.inbox import messages_payload
from awaken.state.store import StateStore


class ActiveRun:
    """A live run's slot, and the ways to reach it. Parts are filled in as it starts.

    A slot takes commands only while it has a `fence`: before that, another process may own the
    thread, and the commands are that one's to read. `told_early` says that the store is to be
    looked at once more when the slot has its fence.
    """

    __slots__ = (
        "_ended",
        "_release",
        "_released",
        "decisions",
        "fence",
        "inbox",
        "left_on_close",
        "missed",
        "run_id",
        "seen",
        "store",
        "task",
        "thread_id",
        "token",
        "told_early",
    )

    def __init__(self, thread_id: str, release: Callable[[ActiveRun], None]) -> None:
        self.thread_id = thread_id
        self.run_id: str | None = None
        self.token = CancellationToken()
        self.decisions: DecisionQueue | None = None
        self.inbox: InboxSender | None = None
        self.store: StateStore | None = None
        self.task: asyncio.Task[AgentRunResult] | None = None
        self.seen = 0
        self.left_on_close = False
        self.missed = False
        self.fence: Fence | None = None
        self.told_early = False
        self._ended: asyncio.Event | None = None
        self._released = False
        self._release = release

    def release(self) -> None:
        if self.decisions is not None:
            self.decisions.close()
        self._release(self)
        self._released, self.fence = True, None
        if self._ended is not None:
            self._ended.set()

    async def wait_ended(self, timeout: float | None) -> bool:
        """Wait until the slot is free; false if that takes longer than `timeout` seconds."""
        if self._released:
            return True
        self._ended = self._ended or asyncio.Event()
        try:
            async with asyncio.timeout(timeout):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True

    def begin(self, fence: Fence, seen: int) -> None:
        """The run can be reached: it owns the thread, and has read the commands up to `seen`."""
        self.fence = fence
        self.seen = max(self.seen, seen)
        self.missed = False

    def renew(self) -> None:
        """Another run, or the same once more, will be put together in this slot."""
        self.fence = None
        self.token = CancellationToken()

    def take(self, command: ThreadCommand) -> None:
        """Pass a command on to the run, once. What it cannot take now stays for the next one."""
        if command.id <= self.seen or command.run_id not in (None, self.run_id):
            return
        self.seen = command.id
        if command.kind is CommandKind.CANCEL:
            self.token.cancel()
        elif command.kind is CommandKind.MESSAGES and self.inbox is not None:
            # One that comes to its end reads no more.
            self.missed |= not self.inbox.send(messages_payload(command.messages, command.id))
        elif command.kind is CommandKind.DECISIONS and self.decisions is not None:
            self.decisions.send(command.decisions, command.id)


class ActiveRuns:
    """Finds live runs by run id or by thread id; `when_empty` is called when the last one ended."""

    def __init__(self, when_empty: Callable[[], None]) -> None:
        self._when_empty = when_empty
        self._by_thread: dict[str, ActiveRun] = {}
        self._by_run: dict[str, ActiveRun] = {}

    def reserve(self, thread_id: str) -> ActiveRun:
        """Take a thread's slot, before anything of it is read.

        Raises:
            ThreadAlreadyRunning: it is taken.
        """
        if thread_id in self._by_thread:
            raise ThreadAlreadyRunning(thread_id)
        run = self._by_thread[thread_id] = ActiveRun(thread_id, self._release)
        return run

    def name(self, run: ActiveRun, run_id: str) -> None:
        """Give a reserved slot its run.

        Raises:
            ThreadAlreadyRunning: that run is live elsewhere.
        """
        other = self._by_run.get(run_id)
        if other is not None and other is not run:
            raise ThreadAlreadyRunning(other.thread_id)
        run.run_id = run_id
        self._by_run[run_id] = run

    def _release(self, run: ActiveRun) -> None:
        if self._by_thread.get(run.thread_id) is run:
            del self._by_thread[run.thread_id]
        if run.run_id is not None and self._by_run.get(run.run_id) is run:
            del self._by_run[run.run_id]
        if not self._by_thread:
            self._when_empty()

    def find(self, id: str) -> ActiveRun | None:
        """The run with that run or thread id; nothing if the id names two different runs."""
        by_run, by_thread = self._by_run.get(id), self._by_thread.get(id)
        if by_run is not None and by_thread is not None and by_run is not by_thread:
            return None
        return by_run or by_thread

    def find_by_thread(self, thread_id: str) -> ActiveRun | None:
        return self._by_thread.get(thread_id)

    def find_by_run(self, run_id: str) -> ActiveRun | None:
        return self._by_run.get(run_id)

    def all(self) -> list[ActiveRun]:
        return list(self._by_thread.values())


def cancel(run: ActiveRun | None) -> bool:
    if run is None:
        return False
    run.token.cancel()
    return True
