"""Reading everything a store has of a thread and its child threads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Self

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import Json
from awaken.core.event import RunEvent
from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message
from awaken.core.run import PersistedState, RunRecord
from awaken.core.store.commands import CommandKind
from awaken.core.store.commits import CallEntry, CallPhase
from awaken.core.store.store import Store
from awaken.core.store.threads import RunQuery, ThreadQuery, TicketQuery
from awaken.core.suspension import Ticket
from awaken.core.thread import Thread
from awaken.core.thread_ids import task_key
from awaken.core.value import Value

_MAX_RESULTS = 500


class ThreadDump(Value, frozen=True, kw_only=True):
    """Everything that a store has of a thread.

    `unread` are the ids of messages that were sent to it and are not in its log yet; `interrupted`
    are its runs that should be resumed; `has_cancel` says whether a cancel waits to be carried out.
    `children` are the threads that its runs have started, sorted by id; an id begins with that of
    the message with the call.
    """

    thread_id: str = ""
    messages: tuple[Message, ...] = ()
    events: tuple[RunEvent, ...] = ()
    calls: tuple[CallEntry, ...] = ()
    runs: tuple[RunRecord, ...] = ()
    tickets: tuple[Ticket, ...] = ()
    state: PersistedState | None = None
    owner: str | None = None
    unread: tuple[str, ...] = ()
    interrupted: tuple[str, ...] = ()
    has_cancel: bool = False
    children: tuple[ThreadDump, ...] = ()

    def threads(self) -> Iterator[ThreadDump]:
        """This dump and, depth first, those of all child threads."""
        yield self
        for child in self.children:
            yield from child.threads()

    @property
    def agent_id(self) -> str:
        """The agent of the thread's first run."""
        return self.runs[-1].agent_id if self.runs else ""

    def phase_of(self, key: str) -> CallPhase | None:
        return next((call.phase for call in self.calls if call.key == key), None)

    def open_calls(self) -> set[str]:
        """The keys of calls, in all threads, that may have started and have no outcome, and of
        those that have started a task that cannot be resumed."""
        return {
            call.key
            for thread in self.threads()
            for call in thread.calls
            if call.phase is CallPhase.INTENT
        } | {
            task_key(run.run_id)
            for thread in self.threads()
            for run in thread.runs
            if run.status is not RunStatus.DONE and _is_unresumable(run)
        }


def task_of(run: RunRecord) -> Json:
    """The task record of a run that is a background task; else `None`."""
    extras = run.request.request_extras if run.request is not None else None
    return extras if isinstance(extras, dict) and "task" in extras else None


def _is_unresumable(run: RunRecord) -> bool:
    task = task_of(run)
    return task is not None and task.get("resume") is None


async def dump_thread(store: Store, thread_id: str, *, clock: Clock = SYSTEM_CLOCK) -> ThreadDump:
    """Read a whole thread and its child threads. Meant for the small threads of tests."""
    return await (await _StoreReader.load(store, clock)).read_thread(thread_id)


async def dump_store(store: Store, thread_id: str, *, clock: Clock = SYSTEM_CLOCK) -> ThreadDump:
    """The same, with every other root thread of the store added as a child."""
    reader = await _StoreReader.load(store, clock)
    own = await reader.read_thread(thread_id)
    others = [
        await reader.read_thread(name) for name in reader.list_children(None) if name != thread_id
    ]
    return msgspec.structs.replace(own, children=(*own.children, *others))


class _StoreReader:
    """Reads threads of a store. It reads the lists of threads and of interrupted runs once."""

    def __init__(
        self, store: Store, threads: Iterable[Thread], interrupted: Iterable[RunRecord]
    ) -> None:
        self._store = store
        self._threads = {thread.id: thread for thread in threads}
        self._interrupted = list(interrupted)

    @classmethod
    async def load(cls, store: Store, clock: Clock) -> Self:
        threads = await store.list_threads(ThreadQuery(limit=_MAX_RESULTS))
        return cls(store, threads, await store.list_interrupted(now_ms=clock.now_ms()))

    def list_children(self, thread_id: str | None) -> list[str]:
        """The ids of a parent's child threads; for `None`, those of the root threads."""
        known = self._threads.values()
        return sorted(thread.id for thread in known if thread.parent_thread_id == thread_id)

    async def read_thread(self, thread_id: str) -> ThreadDump:
        store, thread = self._store, self._threads.get(thread_id)
        if thread is None:
            return ThreadDump(thread_id=thread_id)
        children = [await self.read_thread(child) for child in self.list_children(thread_id)]
        runs = (await store.list_runs(RunQuery(thread_id=thread_id, limit=_MAX_RESULTS))).items
        calls: list[CallEntry] = []
        for run in reversed(runs):
            calls.extend(await store.load_calls(run.run_id))
        tickets = await store.list_tickets(TicketQuery(thread_id=thread_id, limit=_MAX_RESULTS))
        commands = await store.load_commands(thread_id)
        return ThreadDump(
            thread_id=thread_id,
            messages=tuple(await store.load_messages(thread_id)),
            events=tuple(await store.load_events(thread_id)),
            calls=tuple(calls),
            runs=runs,
            tickets=tickets.items,
            state=await store.load_thread_state(thread_id),
            owner=thread.owner,
            unread=tuple(
                message.id
                for command in commands
                for message in command.messages
                if message.id is not None
            ),
            interrupted=tuple(
                run.run_id for run in self._interrupted if run.thread_id == thread_id
            ),
            has_cancel=any(command.kind is CommandKind.CANCEL for command in commands),
            children=tuple(children),
        )
