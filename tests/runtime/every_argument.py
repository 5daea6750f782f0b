"""Every argument of every public method of a runtime, with every wrong value, on a store.

After each call the store must be readable: no value was kept that a reader cannot decode, whether
or not the store decodes what it keeps. And each error must be one of ours that says what is wrong,
never a damaged database or a bare TypeError.

As a program, it tries all values on the memory store, SQLite and Postgres:

    python tests/runtime/every_argument.py
"""

from __future__ import annotations

import asyncio
import datetime
import decimal
import inspect
import logging
import math
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import msgspec

sys.path.append("tests")

from awaken import Agent, Budget, Message, ModelSettings, Runtime, ToolCallResume, tool
from awaken.core.event import RunEvent, TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.identity import Principal
from awaken.core.inference import InferenceOverride, StopReason
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop
from awaken.core.message import Image, MessageMetadata, Text, ToolCall, UrlSource
from awaken.core.run import PersistedState, RunRecord
from awaken.core.state.key import StateKey
from awaken.core.storable import is_storable
from awaken.core.store.commands import ThreadCommand
from awaken.core.store.commits import CallEntry
from awaken.core.store.threads import Page, RunQuery, ThreadQuery, TicketQuery
from awaken.core.suspension import Ticket
from awaken.core.thread import Thread, ThreadPatch
from awaken.core.tool import ToolDescriptor
from awaken.errors import AwakenError
from postgres_kit import running_postgres

PLAIN: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "False": lambda: False,
    "0": lambda: 0,
    "7": lambda: 7,
    "-1": lambda: -1,
    "1.5": lambda: 1.5,
    "NaN": lambda: math.nan,
    "infinity": lambda: math.inf,
    "2**70": lambda: 2**70,
    "2**63": lambda: 2**63,
    "an empty text": lambda: "",
    "a text": lambda: "x",
    "half a pair": lambda: "a\ud800b",
    "a zero character": lambda: "a\0b",
    "bytes": lambda: b"x",
    "[]": lambda: [],
    "{}": lambda: {},
    "()": lambda: (),
    "a set": lambda: {1, 2},
    "an object": lambda: object(),
    "a function": lambda: print,
    "a class": lambda: int,
    "a time": lambda: datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    "a UUID": lambda: uuid.UUID(int=7),
    "a decimal": lambda: decimal.Decimal("1.5"),
    "a loop": lambda: _loop(),
}
"""Values of all types, by how they are called."""

_LIES = (
    *("restore a copy", "did not write", "does not fit this version", "could not be read back"),
    *("cannot be stored in", "could not be written"),
)
"""Words that a caller's mistake must not lead to."""


def _loop() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def values(nested: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The values; with `nested`, also in a list, in a mapping, and as a key of one."""
    yield from PLAIN.items()
    if not nested:
        return
    for name, make in PLAIN.items():
        yield f"[{name}]", partial(_in_list, make)
        yield f"{{'a': {name}}}", partial(_in_mapping, make)
        if not isinstance(make(), list | dict | set):
            yield f"{{{name}: True}}", partial(_as_key, make)


def _in_list(make: Callable[[], Any]) -> list[Any]:
    return [make()]


def _in_mapping(make: Callable[[], Any]) -> dict[str, Any]:
    return {"a": make()}


def _as_key(make: Callable[[], Any]) -> dict[Any, bool]:
    return {make(): True}


# -- what is called -------------------------------------------------------------------------------


class Model:
    """A model that asks for an approval if it is told to pay, and is done otherwise."""

    name = "model"

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        last = request.messages[-1]
        if last.role.value == "user" and "pay" in last.text():
            yield ToolCallStart(id="c", name="pay")
            yield ToolCallDelta(id="c", args_delta='{"amount": 7}')
        else:
            yield TextDelta(delta="Done.")
        yield Stop(reason=StopReason.END_TURN)


@tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


KNOWN = "known"
KEY: StateKey[int, int] = StateKey("number", initial=int)
TICKET = "ticket"
"""Stands for the key of the ticket of a thread's run that waits for an approval."""
ASKED = Ticket(
    key="k",
    thread_id=KNOWN,
    run_id="r",
    ticket_id="t",
    call_id="c",
    tool_name="pay",
    digest="d",
    asked_at=1,
    parameters={"type": "object", "properties": {"amount": {"type": "integer"}}},
)

Arguments = dict[str, Any]


class Method(NamedTuple):
    """A method, and arguments with which it works. `thread` is the name of the argument that gets a
    new thread for each call; `paid` means that a run of it waits for an approval."""

    name: str
    right: Arguments
    thread: str | None = None
    paid: bool = False


_RUN: Arguments = {"agent": "a", "input": "Hello"}
METHODS = (
    Method("run", _RUN, "thread"),
    Method("run", {"answers": {TICKET: True}}, "thread", paid=True),
    Method("stream", _RUN, "thread"),
    Method("submit", _RUN, "thread"),
    Method("submit", {"answers": {TICKET: True}}, "thread", paid=True),
    Method("decide", {"answers": {TICKET: True}}, "id", paid=True),
    Method("cancel", {"deadline": 1.0}, "id", paid=True),
    Method("send", {"input": "Hello"}, "id", paid=True),
    Method("wait", {"id": KNOWN, "timeout": 5.0}),
    Method("tasks", {"thread": KNOWN}),
    Method("messages", {"thread": KNOWN}),
    Method("load_request", {"thread": KNOWN, "message_id": "m"}),
    Method("load_manifest", {"thread": KNOWN, "message_id": "m"}),
    Method("events", {"thread": KNOWN, "follow": False}),
    Method("follow", {"thread": KNOWN}),
    Method("fork", {"thread": KNOWN}),
    Method("create_thread", {}, "thread"),
    Method("update_thread", {"thread": KNOWN, "patch": ThreadPatch(title="x")}),
    Method("state", {"thread": KNOWN, "key": KEY}),
    Method("outline", {"run_id": "r"}),
    Method("find_run", {"run_id": "r"}),
    Method("list_runs", {}),
    Method("list_threads", {}),
    Method("list_tickets", {}),
    Method("search", {}),
    Method("usage", {}),
    Method("rebuild_search", {"zone": "UTC"}),
    Method("delete_thread", {"thread": "none"}),
    Method("prune", {"older_than": 1e9}),
    Method("forget_scope", {"scope": "none"}),
    Method("leave_to_caller", {"thread": "none"}),
    Method("check_arguments", {"ticket": ASKED, "arguments": {"amount": 7}}),
    Method("tool_traits", {"agent": "payer", "tool": "pay"}),
    Method("preview", {"agent": "a", "request": None}),
    Method("reads", {"agent": None}),
)
NOT_TRIED = {
    *("close", "discover", "look_around", "recover", "sweep_blobs"),  # they take no arguments
    *("run_sync", "run_to_rest"),  # they pass all on to `run`
    "keep_search",  # it never returns, and takes no arguments
    *("drain", "replace"),  # they change the runtime, and store nothing
}

Place = Callable[[Any], Any]
"""Makes the argument that has a struct with a wrong value in it."""

STRUCTS: tuple[tuple[msgspec.Struct, str, Place, tuple[str, ...]], ...] = (
    (
        Principal(id="ann"),
        "principal",
        lambda one: one,
        ("run", "submit", "decide", "cancel", "send", "fork", "create_thread", "delete_thread"),
    ),
    (ThreadPatch(), "patch", lambda one: one, ("update_thread", "create_thread")),
    (RunQuery(), "query", lambda one: one, ("list_runs",)),
    (ThreadQuery(), "query", lambda one: one, ("list_threads",)),
    (TicketQuery(), "query", lambda one: one, ("list_tickets",)),
    (Budget(), "budget", lambda one: one, ("run", "submit")),
    (ModelSettings(), "settings", lambda one: one, ("run",)),
    (InferenceOverride(), "settings", lambda one: one, ("submit",)),
    (
        ToolDescriptor(id="click", name="click", description="Click."),
        "frontend_tools",
        lambda one: [one],
        ("run", "submit"),
    ),
    (Message.user("Hello"), "input", lambda one: one, ("run", "submit", "send")),
    (MessageMetadata(), "input", lambda one: _message(metadata=one), ("run",)),
    (Text(text="x"), "input", lambda one: _message(content=(one,)), ("run", "send")),
    (
        Image(source=UrlSource(url="https://x")),
        "input",
        lambda one: _message(content=(one,)),
        ("run",),
    ),
    (
        ToolCall(id="c", name="f", arguments={}),
        "input",
        lambda one: _message(tool_calls=(one,)),
        ("run",),
    ),
    (
        ToolCallResume.approve(),
        "answers",
        lambda one: {TICKET: one},
        ("run answers", "submit answers", "decide"),
    ),
)
"""Structs that callers give: an example, the argument, how it is put there, and the methods."""


def _message(**fields: Any) -> Message:
    return msgspec.structs.replace(Message.user("Hello"), **fields)


class Case(NamedTuple):
    """One call: what is wrong in it, and how its arguments are made."""

    method: Method
    wrong: str
    make: Callable[[], Arguments]


def cases(nested: bool) -> Iterator[Case]:
    """All calls, each with one wrong value."""
    for method in METHODS:
        found = inspect.signature(getattr(Runtime, method.name)).parameters
        for name in list(found)[1:]:
            for value, make in values(nested):
                arguments = lambda make=make, name=name: {name: make()}  # noqa: E731
                yield Case(method, f"{name}={value}", arguments)
    for example, argument, place, names in STRUCTS:
        kind = type(example).__name__
        for method in METHODS:
            if (f"{method.name} answers" if method.paid else method.name) not in names and (
                method.name not in names or method.name in ("run", "submit")
            ):
                continue
            for field in example.__struct_fields__:
                for value, make in values(nested):

                    def build(
                        make: Any = make,
                        field: str = field,
                        example: Any = example,
                        place: Place = place,
                        argument: str = argument,
                    ) -> Arguments:
                        one = msgspec.structs.replace(example, **{field: make()})
                        return {argument: place(one)}

                    yield Case(method, f"{argument}: {kind}({field}={value})", build)


# -- calling --------------------------------------------------------------------------------------


class Result(NamedTuple):
    """How many calls there were, how many were refused, and what was wrong."""

    calls: int
    refused: int
    faults: tuple[str, ...]


class Caller:
    """Makes the calls in one runtime, and looks at the store after each."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._numbers = count()
        self._refused = self._calls = 0
        self._faults: list[str] = []

    async def call(self, case: Case) -> None:
        self._calls += 1
        thread = f"t{next(self._numbers)}"
        what = f"{case.method.name}({case.wrong})"
        arguments = dict(case.method.right)
        if case.method.thread is not None:
            arguments[case.method.thread] = thread
        ticket = await self._ticket(thread) if case.method.paid else ""
        try:
            arguments |= case.make()
            if isinstance(arguments.get("answers"), Mapping):
                arguments["answers"] = {
                    ticket if key == TICKET else key: answer
                    for key, answer in arguments["answers"].items()
                }
            async with asyncio.timeout(20):
                await self._finish(case.method.name, arguments)
        except AwakenError as error:
            self._refused += 1
            if any(lie in str(error) for lie in _LIES):
                self._faults.append(f"{what}: {type(error).__name__}: {str(error)[:200]}")
        except TimeoutError:
            if case.method.name != "wait":  # it says so itself
                self._faults.append(f"{what}: no end")
        except Exception as error:
            self._faults.append(f"{what}: bare {type(error).__name__}: {str(error)[:200]}")
        await self._look(what, thread)

    async def _ticket(self, thread: str) -> str:
        result = await self._runtime.run("payer", "Please pay", thread=thread)
        return result.tickets[0].key or ""

    async def _finish(self, name: str, arguments: Arguments) -> None:
        """Make the call, and wait until all is done that it has begun."""
        called = getattr(self._runtime, name)(**arguments)
        if name == "stream":
            async with called as events:
                async for _ in events:
                    pass
        elif name in ("events", "follow"):
            try:
                async with asyncio.timeout(0.05):
                    async for _ in called:
                        break
            except TimeoutError:
                pass
        elif inspect.isawaitable(called):
            done = await called
            if name == "submit" and arguments.get("not_before_ms") in (None, 0, 1, 7):
                await self._runtime.wait(done.run_id, timeout=10)

    async def _look(self, what: str, thread: str) -> None:
        """Read what the call may have written."""
        for fault in await find_poison(self._runtime, thread):
            self._faults.append(f"{what} POISONED: {fault}")

    async def look_at_all(self) -> None:
        """Read every list of the whole store to its end."""
        for fault in await find_poison_in_lists(self._runtime):
            self._faults.append(f"POISONED: {fault}")

    def result(self) -> Result:
        return Result(self._calls, self._refused, tuple(self._faults))


# -- looking --------------------------------------------------------------------------------------


async def find_poison(runtime: Runtime, thread: str) -> list[str]:
    """What cannot be read of a thread. A store that decodes nothing, as that in memory, is asked
    whether it could."""
    store = runtime.store
    found: list[str] = []
    try:
        runs = await runtime.list_runs(RunQuery(thread_id=thread))
        found += _faults_of_page(runs, RunRecord)
        found += _faults_of_page(await runtime.list_threads(ThreadQuery(prefix=thread)), Thread)
        found += _faults_of_page(await runtime.list_tickets(TicketQuery(thread_id=thread)), Ticket)
        found += _faults_of(await runtime.messages(thread, hidden=True), Message)
        found += _faults_of(await store.load_commands(thread), ThreadCommand)
        found += _faults_of([await store.load_thread_state(thread)], PersistedState)
        events = [event async for event in runtime.events(thread, follow=False)]
        found += _faults_of(events, RunEvent)
        for run in runs:
            found += _faults_of(await store.load_calls(run.run_id), CallEntry)
            found += _faults_of([await store.load_run(run.run_id)], RunRecord)
    except Exception as error:
        found.append(f"{type(error).__name__}: {str(error)[:200]}")
    return found


async def find_poison_in_lists(runtime: Runtime) -> list[str]:
    """What cannot be read of the lists of a whole store."""
    found: list[str] = []
    lists: Any = (
        (runtime.list_runs, RunQuery(limit=500), RunRecord),
        (runtime.list_threads, ThreadQuery(limit=500), Thread),
        (runtime.list_tickets, TicketQuery(limit=500), Ticket),
    )
    for read, query, kind in lists:
        try:
            while True:
                page = await read(query)
                found += _faults_of_page(page, kind)
                if page.cursor is None:
                    break
                query = msgspec.structs.replace(query, cursor=page.cursor)
        except Exception as error:
            found.append(f"{read.__name__}: {str(error)[:200]}")
    return found


def _faults_of_page(page: Page[Any], kind: type[Any]) -> list[str]:
    return [f"{row.name}: {row.reason}" for row in page.unreadable] + _faults_of(page, kind)


def _faults_of(values: Iterable[Any], kind: type[Any]) -> list[str]:
    return [
        f"a {kind.__name__} that could not be read back: {str(value)[:200]}"
        for value in values
        if not is_storable(value, kind)
    ]


async def try_all(store: str, *, nested: bool, every: int = 1, begin: int = 0) -> Result:
    """Make all calls on a store, or every so-manieth of them."""
    agents = [Agent("a", model=Model()), Agent("payer", model=Model(), tools=[pay])]
    async with Runtime(agents, store=store) as runtime:
        await runtime.run("a", "Hello", thread=KNOWN)
        caller = Caller(runtime)
        for number, case in enumerate(cases(nested)):
            if number % every == begin:
                await caller.call(case)
        await caller.look_at_all()
        return caller.result()


def untried() -> set[str]:
    """The public methods of a runtime that no case calls."""
    methods = inspect.getmembers(Runtime, inspect.isfunction)
    names = {name for name, _ in methods if not name.startswith("_")}
    return names - {method.name for method in METHODS} - NOT_TRIED


def main() -> int:
    logging.disable(logging.CRITICAL)
    failed = 0
    with tempfile.TemporaryDirectory() as folder, running_postgres() as postgres:
        for store in ("memory:", f"sqlite:///{folder}/a.db", postgres.address()):
            done = asyncio.run(try_all(store, nested=True))
            print(
                f"{store.partition(':')[0]}: {done.calls} calls, {done.refused} refused, "
                f"{len(done.faults)} faults"
            )
            for fault in done.faults[:50]:
                print(f"  {fault}")
            failed += len(done.faults)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
