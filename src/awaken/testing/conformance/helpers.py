"""Helpers of the checks: small values, operations, and reading everything a store holds.

An `Author` makes commits that continue a thread as a run would, with times and ids that count up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Generic, TypeVar

import msgspec

from awaken.codec import Json, dumps
from awaken.core.event import AgentEvent, RunEvent, StepEnd
from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message, ToolCall
from awaken.core.run import MessageSeqRange, RunMessageOutput, RunRecord
from awaken.core.store.commands import ThreadCommand
from awaken.core.store.commits import CallEntry, CallPhase, Committed, ThreadCommit, call_key
from awaken.core.store.store import Store
from awaken.core.store.threads import Page, RunQuery, ThreadQuery, TicketQuery
from awaken.core.suspension import Ticket, TicketStatus, call_digest
from awaken.core.thread import Thread
from awaken.errors import StoreError

StoreCheck = Callable[[Store], Awaitable[None]]
OpenStore = Callable[[], Awaitable[Store]]
"""Opens another handle on the same data, like that of another process."""
SharedStoreCheck = Callable[[OpenStore], Awaitable[None]]
C = TypeVar("C")
T = TypeVar("T")
E = TypeVar("E", bound=StoreError)


class Suite(Generic[C]):
    """Collects the checks it decorates."""

    def __init__(self) -> None:
        self.checks: list[C] = []

    def __call__(self, check: C) -> C:
        self.checks.append(check)
        return check


MAX_WAIT_SECONDS = 10.0
"""Seconds to wait for something that should come at once, before the check fails."""
RUNNING, WAITING, DONE = RunStatus.RUNNING, RunStatus.WAITING, RunStatus.DONE


# -- values -----------------------------------------------------------------------------------


def says(*words: str) -> tuple[Message, ...]:
    return tuple(Message.user(word, id=f"m-{word}") for word in words)


def asks(message_id: str, *call_ids: str) -> Message:
    """An assistant message with tool calls."""
    calls = [ToolCall(id=call_id, name="tool", arguments={}) for call_id in call_ids]
    return Message.assistant_with_tool_calls("", calls, id=message_id)


def record(run_id: str, thread_id: str = "t", **changes: Any) -> RunRecord:
    fields: dict[str, Any] = {
        "run_id": run_id,
        "thread_id": thread_id,
        "agent_id": "agent",
        "status": RUNNING,
        "created_at": 1,
        "updated_at": 1,
    }
    return RunRecord(**(fields | changes))


def event(kind: AgentEvent | None = None, *, run_id: str = "r", thread_id: str = "t") -> RunEvent:
    return RunEvent(thread_id=thread_id, run_id=run_id, at_ms=1, event=kind or StepEnd())


def raw(**values: Json) -> dict[str, msgspec.Raw]:
    return {name: msgspec.Raw(dumps(value)) for name, value in values.items()}


def line(
    message_id: str, index: int, phase: CallPhase, arguments: Json = None, **changes: Any
) -> CallEntry:
    """An entry of the call ledger; of run `r` by default."""
    fields: dict[str, Any] = {"run_id": "r", "call_id": f"c{index}", "tool_name": "tool"}
    return CallEntry(
        key=call_key(message_id, index), phase=phase, arguments=arguments, **(fields | changes)
    )


def ticket(key: str = "m:0", **changes: Any) -> Ticket:
    """An open ticket of run `r` in thread `t`; its other ids are made from its key."""
    fields: dict[str, Any] = {
        "key": key,
        "thread_id": "t",
        "run_id": "r",
        "ticket_id": f"ticket-{key}",
        "call_id": f"call-{key}",
        "tool_name": "tool",
        "digest": call_digest("r", "tool", key),
        "asked_at": 100,
    }
    return Ticket(**(fields | changes))


# -- operations -------------------------------------------------------------------------------


async def waiting_threads(store: Store) -> set[str]:
    """The threads in which commands wait now."""
    async with aclosing(store.watch_commands()) as ready:
        return await anext(ready)


async def wait_until_named(store: Store, *thread_ids: str) -> None:
    """Wait until the store has named each of these threads."""
    missing = set(thread_ids)
    async with aclosing(store.watch_commands()) as ready:
        async for threads in ready:
            missing -= threads
            if not missing:
                return


async def pending(store: Store, *thread_ids: str) -> list[ThreadCommand]:
    """The pending commands of some threads, in the order of their ids."""
    found = [command for name in thread_ids for command in await store.load_commands(name)]
    return sorted(found, key=lambda command: command.id)


async def write(store: Store, thread_id: str = "t", /, **delta: Any) -> Committed:
    """Commit to the end of a thread of any length."""
    thread = await store.load_thread(thread_id)
    length = thread.message_count if thread else 0
    fields: dict[str, Any] = {"thread_id": thread_id, "expected_length": length}
    return await store.commit(ThreadCommit(**(fields | delta)))


async def expect_error(error: type[E], operation: Awaitable[object]) -> E:
    """Run an operation that must raise this error. Returns the error."""
    try:
        answer = await operation
    except error as refusal:
        return refusal
    raise AssertionError(f"{error.__name__} was expected, the answer was {answer!r}")


async def expect_error_without_change(
    store: Store, error: type[E], operation: Awaitable[object]
) -> E:
    """Run an operation that must raise this error and change nothing that can be read. Returns the
    error."""
    before = await everything(store)
    refusal = await expect_error(error, operation)
    after = await everything(store)
    assert after == before
    return refusal


# -- reading ----------------------------------------------------------------------------------


async def texts(store: Store, thread_id: str = "t", **page: Any) -> list[str]:
    return [message.text() for message in await store.load_messages(thread_id, **page)]


async def walk(pages: Callable[[str | None], Awaitable[Page[T]]]) -> list[T]:
    """All items of a list, page by page."""
    page = await pages(None)
    items = list(page.items)
    while page.cursor is not None:
        page = await pages(page.cursor)
        assert page.items, "a cursor led to an empty page"
        items.extend(page.items)
    return items


def names(items: Iterable[Thread | RunRecord | Ticket]) -> list[str]:
    """The ids of threads and runs, the keys of tickets."""
    return [_name(item) for item in items]


def _name(item: Thread | RunRecord | Ticket) -> str:
    if isinstance(item, Thread):
        return item.id
    return item.run_id if isinstance(item, RunRecord) else item.key


async def all_threads(store: Store, **query: Any) -> list[str]:
    found = await walk(lambda cursor: store.list_threads(ThreadQuery(cursor=cursor, **query)))
    return names(found)


async def all_runs(store: Store, **query: Any) -> list[str]:
    found = await walk(lambda cursor: store.list_runs(RunQuery(cursor=cursor, **query)))
    return names(found)


async def all_tickets(store: Store, **query: Any) -> list[Ticket]:
    return await walk(lambda cursor: store.list_tickets(TicketQuery(cursor=cursor, **query)))


async def everything(store: Store) -> dict[str, Any]:
    """Everything that can be read from a store, by name."""
    found: dict[str, Any] = {"threads": await all_threads(store), "runs": await all_runs(store)}
    found["interrupted"] = names(await store.list_interrupted(now_ms=0))
    found["tickets"] = await all_tickets(store)
    for name in found["threads"]:
        found[f"thread {name}"] = await thread_as_read(store, name)
    for name in found["runs"]:
        found[f"run {name}"] = (
            await store.load_run(name),
            await store.load_run_state(name),
            list(await store.load_calls(name)),
        )
    return found


async def thread_as_read(store: Store, thread_id: str) -> dict[str, Any]:
    """Everything that can be read of one thread."""
    context = await store.load_context(thread_id, tail=2)
    return {
        "head": await store.load_thread(thread_id),
        "messages": list(await store.load_messages(thread_id)),
        "log": list(await store.load_messages(thread_id, hidden=True)),
        "commits": list(await store.load_commits(thread_id)),
        "records": list(await store.load_records(thread_id)),
        "events": list(await store.load_events(thread_id)),
        "state": await store.load_thread_state(thread_id),
        "latest run": await store.latest_run(thread_id),
        "commands": list(await store.load_commands(thread_id)),
        "context": context
        and {
            "head": context.thread,
            "messages": list(context.messages),
            "skipped": context.skipped,
            "hidden": context.hidden,
            "open run": context.open_run,
            "thread state": context.thread_state,
            "run state": context.run_state,
            "calls": sorted(context.calls, key=lambda entry: entry.key),
            "commands": list(context.commands),
        },
    }


# -- commits ----------------------------------------------------------------------------------

RUNS = ("1", "2")
KEYS = ("k0", "k1", "k2")
LATE = "k2"
"""The ticket with a time limit; those that are not `k1` share a call id."""


class Author:
    """Remembers what is needed to write the next commit of each thread."""

    def __init__(self) -> None:
        self.now = 0
        self.lengths: dict[str, int] = {}
        self.events: dict[str, int] = {}
        self.asked: dict[tuple[str, str], int] = {}
        self._born: dict[str, int] = {}
        self._turns: dict[str, tuple[Message, str]] = {}

    def tick(self) -> int:
        self.now += 1
        return self.now

    # -- making -------------------------------------------------------------------------------

    def commit(
        self,
        thread_id: str,
        *,
        words: int = 0,
        calls: int = 0,
        events: int = 0,
        run: tuple[str, RunStatus] | None = None,
        phases: Sequence[CallPhase] = (),
        run_state: Mapping[str, Any] | None = None,
        thread_state: Mapping[str, Any] | None = None,
        tickets: Mapping[str, TicketStatus] | None = None,
        **more: Any,
    ) -> ThreadCommit:
        """The next commit of a thread. Without a run it has no calls, ledger or run state."""
        now = self.tick()
        length = self.lengths.get(thread_id, 0)
        made = self._run(thread_id, length, *run) if run else None
        messages = says(*(f"{now}.{number}" for number in range(words)))
        turn = self._turns.get(thread_id)
        if made is not None and calls:
            asking = asks(f"turn {now}", *(f"c{index}" for index in range(calls)))
            turn = asking.mark_produced_by(made.run_id), made.run_id
            messages = (*messages, turn[0])
        told = event(thread_id=thread_id, run_id=made.run_id if made else "")
        return ThreadCommit(
            thread_id=thread_id,
            expected_length=length,
            messages=messages,
            run=made,
            run_state=raw(**(run_state or {})) if made else {},
            thread_state=raw(**(thread_state or {})),
            events=(told,) * events,
            calls=self._lines(*turn, phases) if turn and made and turn[1] == made.run_id else (),
            tickets=tuple(
                self._ticket(thread_id, made, *asked) for asked in (tickets or {}).items()
            ),
            at_ms=now,
            **more,
        )

    def _run(self, thread_id: str, length: int, name: str, status: RunStatus) -> RunRecord:
        run_id = f"{thread_id} {name}"
        return record(
            run_id,
            thread_id,
            agent_id=name,
            parent_run_id=f"{thread_id} {RUNS[0]}" if name != RUNS[0] else None,
            status=status,
            output=RunMessageOutput(thread_id=thread_id, range=MessageSeqRange.new(1, length)),
            created_at=self._born.get(run_id, self.now),
            updated_at=self.now,
            revision=self.now,
        )

    def _lines(
        self, turn: Message, run_id: str, phases: Sequence[CallPhase]
    ) -> tuple[CallEntry, ...]:
        """Ledger entries for calls of the run's last message with calls, or of this commit's."""
        return tuple(
            CallEntry(
                key=call_key(turn.id or "", index),
                run_id=run_id,
                call_id=call.id,
                tool_name=call.name,
                phase=phase,
                arguments={"at": self.now} if phase is CallPhase.INTENT else None,
            )
            for index, (call, phase) in enumerate(zip(turn.tool_calls or (), phases, strict=False))
        )

    def _ticket(
        self, thread_id: str, run: RunRecord | None, key: str, status: TicketStatus
    ) -> Ticket:
        return ticket(
            key,
            thread_id=thread_id,
            run_id=run.run_id if run else f"{thread_id} {RUNS[0]}",
            call_id=f"call-{key}" if key == "k1" else "same",
            asked_at=self.asked.get((thread_id, key), self.now * 10 + KEYS.index(key)),
            expires_at=self.now + 5 if key == LATE else None,
            status=status,
        )

    # -- remembering --------------------------------------------------------------------------

    def note(self, commit: ThreadCommit, committed: Committed) -> None:
        """Remember that a commit was written."""
        thread_id = commit.thread_id
        self.lengths[thread_id] = committed.length
        self.events[thread_id] = committed.first_event_seq - 1 + len(commit.events)
        if commit.run is not None:
            self._born.setdefault(commit.run.run_id, commit.run.created_at)
            for message in commit.messages:
                if message.tool_calls:
                    self._turns[thread_id] = message, commit.run.run_id
        for asked in commit.tickets:
            self.asked.setdefault((thread_id, asked.key), asked.asked_at)

    def note_fork(self, thread_id: str, length: int, events: int) -> None:
        self.lengths[thread_id], self.events[thread_id] = length, events

    def forget(self, thread_ids: Iterable[str]) -> None:
        """Forget deleted threads."""
        for thread_id in thread_ids:
            del self.lengths[thread_id], self.events[thread_id]
            self._turns.pop(thread_id, None)
            for name in RUNS:
                self._born.pop(f"{thread_id} {name}", None)
            for key in KEYS:
                self.asked.pop((thread_id, key), None)
