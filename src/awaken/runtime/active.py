"""Runs that are live in this process: at most one a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from awaken.contract.control import CancellationToken, DecisionQueue, InboxSender
from awaken.domain.message import Message
from awaken.domain.suspension import Decision
from awaken.errors import InvalidResume, StateError, ThreadAlreadyRunning
from awaken.loop.inbox import messages_payload
from awaken.loop.resume import decision_batch
from awaken.state.store import StateStore


class ActiveRun:
    """A live run's slot, and the ways to reach it. Parts are filled in as it starts."""

    __slots__ = (
        "_ended",
        "_release",
        "_released",
        "_sent",
        "decisions",
        "inbox",
        "run_id",
        "store",
        "task",
        "thread_id",
        "token",
    )

    def __init__(self, thread_id: str, release: Callable[[ActiveRun], None]) -> None:
        self.thread_id = thread_id
        self.run_id: str | None = None
        self.token = CancellationToken()
        self.decisions: DecisionQueue | None = None
        self.inbox: InboxSender | None = None
        self.store: StateStore | None = None
        self.task: asyncio.Future[None] | None = None
        self._ended: asyncio.Event | None = None
        self._released = False
        self._release = release
        self._sent: list[Decision] = []

    def release(self) -> None:
        if self.decisions is not None:
            self.decisions.close()
        self._release(self)
        self._released = True
        if self._ended is not None:
            self._ended.set()

    async def wait_ended(self, timeout: float) -> bool:
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

    def decide(self, decisions: Sequence[Decision]) -> None:
        """Pass answers on, if each of them fits a call that waits.

        Raises:
            UnknownKey: a target is neither a call nor a suspension.
            InvalidResume: a call no longer waits, or the run takes no decisions.
        """
        if self.decisions is None or self.store is None:
            raise InvalidResume(f"run '{self.run_id}' takes no decisions while it runs")
        if not len(self.decisions):
            self._sent.clear()
        # What is on its way counts too: a second answer must not make the run refuse the first.
        decision_batch(self.store, [*self._sent, *decisions])
        if not self.decisions.send(decisions):
            raise InvalidResume(f"run '{self.run_id}' has ended")
        self._sent.extend(decisions)


class ActiveRuns:
    """Finds live runs by run id or by thread id."""

    def __init__(self) -> None:
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
        if run_id in self._by_run:
            raise ThreadAlreadyRunning(self._by_run[run_id].thread_id)
        run.run_id = run_id
        self._by_run[run_id] = run

    def _release(self, run: ActiveRun) -> None:
        if self._by_thread.get(run.thread_id) is run:
            del self._by_thread[run.thread_id]
        if run.run_id is not None and self._by_run.get(run.run_id) is run:
            del self._by_run[run.run_id]

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


def send_decisions(run: ActiveRun | None, decisions: Sequence[Decision]) -> bool:
    if run is None or not decisions:
        return False
    try:
        run.decide(decisions)
    except (StateError, InvalidResume):
        return False
    return True


def send_messages(run: ActiveRun | None, messages: Sequence[Message]) -> bool:
    if run is None or run.inbox is None or not messages:
        return False
    return run.inbox.send(messages_payload(messages))
