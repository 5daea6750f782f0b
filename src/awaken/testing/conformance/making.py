"""Helpers of the checks: small values, operations, and reading everything a store holds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any, Generic, TypeVar

import msgspec

from awaken.codec import Json, dumps
from awaken.core.event import AgentEvent, RunEvent, StepEnd
from awaken.core.lifecycle import RunStatus
from awaken.core.message import Message, ToolCall
from awaken.core.run import RunRecord
from awaken.core.store.commands import ThreadCommand
from awaken.core.store.commits import CallEntry, CallPhase, Committed, ThreadCommit, call_key
from awaken.core.store.store import Store
from awaken.core.store.threads import Page, RunQuery, ThreadQuery, TicketQuery
from awaken.core.thread import Thread
from awaken.core.ticket import Ticket, call_digest
from awaken.errors import StoreError

StoreCheck = Callable[[Store], Awaitable[None]]
OpenStore = Callable[[], Awaitable[Store]]
"""Opens another handle on the same data, like that of another process."""
SharedStoreCheck = Callable[[OpenStore], Awaitable[None]]

C = TypeVar("C")
T = TypeVar("T")
E = TypeVar("E", bound=StoreError)

PATIENCE = 10.0
"""Seconds to wait for something that should come at once, before the check fails."""
RUNNING, WAITING, DONE = RunStatus.RUNNING, RunStatus.WAITING, RunStatus.DONE


class Suite(Generic[C]):
    """Collects the checks it decorates."""

    def __init__(self) -> None:
        self.checks: list[C] = []

    def __call__(self, check: C) -> C:
        self.checks.append(check)
        return check


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
    async with aclosing(store.told()) as told:
        return await anext(told)


async def until_told(store: Store, *thread_ids: str) -> None:
    """Wait until the store has named each of these threads."""
    missing = set(thread_ids)
    async with aclosing(store.told()) as told:
        async for threads in told:
            missing -= threads
            if not missing:
                return


async def pending(store: Store, *thread_ids: str) -> list[ThreadCommand]:
    """The pending commands of some threads, in the order of their ids."""
    found = [command for name in thread_ids for command in await store.load_commands(name)]
    return sorted(found, key=lambda command: command.id)


async def write(store: Store, thread_id: str = "t", /, **delta: Any) -> Committed:
    """Commit to the end of a thread, however long it is."""
    thread = await store.load_thread(thread_id)
    length = thread.message_count if thread else 0
    fields: dict[str, Any] = {"thread_id": thread_id, "expected_length": length}
    return await store.commit(ThreadCommit(**(fields | delta)))


async def refused(error: type[E], operation: Awaitable[object]) -> E:
    """The error that an operation raises."""
    try:
        answer = await operation
    except error as refusal:
        return refusal
    raise AssertionError(f"{error.__name__} was expected, the answer was {answer!r}")


async def refused_without_change(store: Store, error: type[E], operation: Awaitable[object]) -> E:
    """The error that an operation raises, having changed nothing that can be read."""
    before = await everything(store)
    refusal = await refused(error, operation)
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
