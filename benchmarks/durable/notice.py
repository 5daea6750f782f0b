"""How soon a process notices what another one asks of its runs.

The other process is `elsewhere`. Both read the same clock: `time.monotonic` counts for the whole
machine. A figure begins when the other process is told to ask, and ends when the run sees it: a
cancel inside its tool, a message in the next request to the model, a decision as the tool starts.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from awaken import Agent, Runtime, tool
from awaken.codec import dumps, loads
from awaken.core.event import RunFinish, TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.inference import StopReason
from awaken.core.lifecycle import CANCELLED
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop
from awaken.core.message import Role
from awaken.core.store.threads import TicketQuery
from awaken.core.suspension import TicketStatus
from awaken.ids import UUID7
from benchmarks.durable.disk import MS
from benchmarks.durable.elsewhere import Ask
from benchmarks.durable.figures import notice_of
from benchmarks.durable.ours import address
from benchmarks.table import OURS, Figures

TIMES = 20
NAP = 0.005
SETTLE, SPREAD = 0.06, 0.1
"""Seconds to let a run settle, and then at random, so that no rhythm of ours is met on purpose."""


class Seen:
    """When a run saw what it was asked."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.at = 0.0

    def note(self) -> None:
        self.at = time.monotonic()


class CallingModel:
    """Calls the one tool of its agent until it is told something new, then answers."""

    name = "calling"

    def __init__(self, tool_name: str, seen: Seen, *, often: bool) -> None:
        self._tool = tool_name
        self._seen = seen
        self._often = often

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        messages = request.messages
        told = len(messages) > 1 and messages[-1].role is Role.USER
        if told:
            self._seen.note()
        if told or (len(messages) > 1 and not self._often):
            yield TextDelta(delta="done")
            yield Stop(reason=StopReason.END_TURN)
            return
        call = f"c{len(messages)}"
        yield ToolCallStart(id=call, name=self._tool)
        yield ToolCallDelta(id=call, args_delta="{}")
        yield Stop(reason=StopReason.TOOL_USE)


# -- the other process ------------------------------------------------------------------------


class Elsewhere:
    """The wire to the other process."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, ask: Ask) -> float:
        """Have something asked; returns when that began."""
        await asyncio.sleep(SETTLE + random.random() * SPREAD)
        self._writer.write(dumps(ask) + b"\n")
        return float(loads(await self._reader.readline()))


@asynccontextmanager
async def elsewhere(path: Path) -> AsyncIterator[Elsewhere]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.durable.elsewhere", str(path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    reader, writer = process.stdout, process.stdin
    assert reader is not None, "it is a pipe"
    assert writer is not None, "it is a pipe"
    try:
        yield Elsewhere(reader, writer)
    finally:
        writer.close()
        await process.wait()


# -- the three words --------------------------------------------------------------------------


def measure(figures: Figures, path: Path) -> None:
    for word, seconds in asyncio.run(sample(path, TIMES)).items():
        figures.add(notice_of(word).key, OURS, *(value * MS for value in seconds))


async def sample(path: Path, times: int) -> dict[str, list[float]]:
    """Seconds until each word was noticed, `times` times."""
    samples: dict[str, list[float]] = {"cancel": [], "message": [], "decision": []}
    seen = Seen()
    agents = [_waiting(seen), _working(seen), _asking(seen)]
    async with Runtime(agents, store=address(path)) as runtime, elsewhere(path) as other:
        for _ in range(times):
            for word, values in samples.items():
                seen.begun.clear()
                asked = await _WORDS[word](runtime, other, seen)
                values.append(seen.at - asked)
    return samples


async def _cancel(runtime: Runtime, other: Elsewhere, seen: Seen) -> float:
    thread = UUID7.new()
    async with asyncio.TaskGroup() as group:
        run = group.create_task(runtime.run("waiting", "go", thread=thread))
        await seen.begun.wait()
        asked = await other.ask(Ask(word="cancel", thread=thread))
    assert run.result().termination == CANCELLED, "that is what was asked"
    return asked


async def _message(runtime: Runtime, other: Elsewhere, seen: Seen) -> float:
    thread = UUID7.new()
    async with asyncio.TaskGroup() as group:
        group.create_task(runtime.run("working", "go", thread=thread))
        await seen.begun.wait()
        return await other.ask(Ask(word="message", thread=thread))


async def _decision(runtime: Runtime, other: Elsewhere, seen: Seen) -> float:
    thread, asked = UUID7.new(), 0.0
    async with runtime.stream("asking", "go", thread=thread, wait=True) as events:
        async for event in events:
            if isinstance(event.event, RunFinish) and not asked:
                query = TicketQuery(thread_id=thread, status=TicketStatus.OPEN)
                (ticket,) = await runtime.list_tickets(query)
                asked = await other.ask(Ask(word="decision", thread=thread, ticket=ticket.key))
    return asked


_WORDS = {"cancel": _cancel, "message": _message, "decision": _decision}


def _waiting(seen: Seen) -> Agent:
    @tool
    async def wait() -> None:
        """Wait for ever."""
        seen.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            seen.note()

    return Agent("waiting", model=CallingModel("wait", seen, often=False), tools=[wait])


def _working(seen: Seen) -> Agent:
    @tool
    async def nap() -> None:
        """Sleep a little."""
        seen.begun.set()
        await asyncio.sleep(NAP)

    model = CallingModel("nap", seen, often=True)
    return Agent("working", model=model, tools=[nap], max_rounds=0)


def _asking(seen: Seen) -> Agent:
    @tool(needs_approval=True)
    async def act() -> None:
        """Do what needs somebody's word."""
        seen.note()

    return Agent("asking", model=CallingModel("act", seen, often=False), tools=[act])
