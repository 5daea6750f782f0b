"""Work that grows: the same thing at several sizes, for `benchmarks.growth`.

Each function takes a size and returns its figures by name: bytes, or microseconds of CPU.
"""

from __future__ import annotations

import asyncio
import gc
import operator
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from awaken import Agent, Command, Plugin, Runtime, ToolOutput, ToolResult, tool
from awaken.core.event import ToolCallDone
from awaken.core.lifecycle import Phase, RunStatus
from awaken.core.run import RunRecord
from awaken.core.spec import AgentSpec
from awaken.core.state.command import MutationBatch
from awaken.core.state.key import StateKey
from awaken.core.store.commits import ThreadCommit
from awaken.core.store.threads import RunQuery, ThreadQuery
from awaken.plugin.context import PhaseContext
from awaken.plugin.registrar import Registrar
from awaken.stores.memory import MemoryStore
from benchmarks.durable.disk import Disk
from benchmarks.durable.ours import MeteredModel, StepModel, address
from benchmarks.ours import CallsModel

STEPS, RUNS, LOOKS, AT_ONCE = 100, 3, 50, 500
RARE, LATELY = "rare", 1_000_000
US = 1e6
Figures = dict[str, float]


async def parallel_calls(count: int) -> Figures:
    """One durable step of `count` calls that end one after another, each in a commit of its own."""
    turns = [asyncio.Event() for _ in range(count + 1)]
    begun = iter(range(count))

    @tool
    async def add(a: int, b: int) -> int:
        """Add two numbers, when it is this call's turn."""
        await turns[next(begun)].wait()
        return a + b

    turns[0].set()
    with tempfile.TemporaryDirectory() as folder:
        disk = Disk(Path(folder) / "growth.db")
        agent = Agent("bench", model=CallsModel(count), tools=[add])
        async with Runtime([agent], store=address(disk.path)) as runtime:
            before, ended = time.process_time(), 0
            async with runtime.stream("bench", "go") as events:
                async for event in events:
                    if isinstance(event.event, ToolCallDone):
                        ended += 1
                        turns[ended].set()
            spent = time.process_time() - before
        assert ended == count
        return {"KB": disk.size() / 1000, "µs a call": spent / count * US}


async def large_results(kib: int) -> Figures:
    """06/SV-14: one call whose result has that many KiB; what its run adds to the file and to the
    blobs."""

    @tool
    async def add(a: int, b: int) -> str:
        """Fetch a text."""
        return "x" * kib * 1024

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "growth.db"
        agent = Agent("bench", model=CallsModel(1), tools=[add])
        async with Runtime([agent], store=address(path)) as runtime:
            before = time.process_time()
            result = await runtime.run("bench", "go")
            spent = time.process_time() - before
            commits = await runtime.store.load_commits(result.thread_id)
        texts = sum(len(m.text()) for commit in commits for m in commit.messages)
        return {
            "KB of messages": texts / 1000,
            "KB of blobs": _size(Path(f"{path}-blobs")) / 1000,
            "CPU ms a run": spent * 1000,
        }


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


# -- steps in memory --------------------------------------------------------------------------


class ManyKeys(Plugin):
    """Brings keys, and writes them all when the run begins."""

    id = "keys"

    def __init__(self, count: int) -> None:
        self.keys: list[StateKey[int, int]] = [
            StateKey(f"keys.{number}", initial=int, apply=operator.add) for number in range(count)
        ]

    def register(self, registrar: Registrar) -> None:
        for key in self.keys:
            registrar.key(key)

    def on_activate(self, spec: AgentSpec, batch: MutationBatch) -> None:
        for key in self.keys:
            batch.update(key, 1)

    def on_deactivate(self, batch: MutationBatch) -> None: ...


class ManyHooks(Plugin):
    """Has hooks in one phase, which look and want nothing."""

    id = "hooks"

    def __init__(self, count: int) -> None:
        self._count = count

    def register(self, registrar: Registrar) -> None:
        for _ in range(self._count):
            registrar.hook(Phase.AFTER_INFERENCE, self.look)

    async def look(self, ctx: PhaseContext) -> None: ...


async def state_keys(count: int) -> Figures:
    """A step that changes one of `count` keys, with and without a listener."""
    plugin = ManyKeys(count)

    @tool
    async def add(a: int, b: int) -> ToolOutput:
        """Change a key."""
        changed = Command().update(plugin.keys[a % len(plugin.keys)], b)
        return ToolOutput(ToolResult.success("add", a + b), changed)

    return {
        "µs a step": await _step([add], plugin, listens=False),
        "µs, a listener": await _step([add], plugin, listens=True),
    }


async def hooks(count: int) -> Figures:
    """A step with `count` hooks after an answer, where the loop has a hook of its own."""

    @tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return {"µs a step": await _step([add], ManyHooks(count), listens=False)}


async def _step(tools: list[Any], plugin: Plugin, *, listens: bool) -> float:
    model = MeteredModel(time.process_time)
    agent = Agent("bench", model=model, tools=tools, plugins=[plugin], max_rounds=STEPS + 1)
    best = float("inf")
    async with Runtime([agent]) as runtime:
        for _ in range(RUNS):
            model.expect(STEPS)
            gc.collect()
            if listens:
                async with runtime.stream("bench", "go") as events:
                    async for _event in events:
                        pass
            else:
                await runtime.run("bench", "go")
            first, last = model.readings
            best = min(best, last - first)
    return best / STEPS * US


# -- many threads -----------------------------------------------------------------------------


async def threads(count: int) -> Figures:
    """A page of `count` threads, and the look for messages that wait to be sent on."""
    with tempfile.TemporaryDirectory() as folder:
        on_disk = address(Path(folder) / "growth.db", "normal")
        return {
            **await _threads(on_disk, count, "SQLite"),
            **await _threads(None, count, "memory"),
        }


async def _threads(store: str | None, count: int, name: str) -> Figures:
    agent = Agent("bench", model=StepModel(0))
    async with Runtime([agent], store=store or MemoryStore()) as runtime:
        kept = runtime.store
        for first in range(0, count, AT_ONCE):
            made = [_first_commit(number) for number in range(first, min(first + AT_ONCE, count))]
            await asyncio.gather(*(kept.commit(commit) for commit in made))
        gc.collect()
        lately, rare = RunQuery(updated_after_ms=LATELY), RunQuery(agent_id=RARE)
        return {
            f"list_threads, {name}": await _look(lambda: kept.list_threads(ThreadQuery())),
            f"threads of a rare agent, {name}": await _look(
                lambda: kept.list_threads(ThreadQuery(agent=RARE))
            ),
            f"runs written lately, {name}": await _look(lambda: kept.list_runs(lately)),
            f"runs of a rare agent, {name}": await _look(lambda: kept.list_runs(rare)),
            f"outboxes, {name}": await _look(kept.list_outboxes),
        }


def _first_commit(number: int) -> ThreadCommit:
    """A thread with a run that has ended; the oldest ten are of a rare agent, written lately."""
    is_rare = number < 10
    run = RunRecord(
        run_id=f"r{number}",
        thread_id=f"t{number}",
        agent_id=RARE if is_rare else "bench",
        status=RunStatus.DONE,
        created_at=1,
        updated_at=1,
        updated_at_ms=LATELY + 1 if is_rare else 1,
    )
    return ThreadCommit(thread_id=f"t{number}", expected_length=0, run=run, at_ms=number + 1)


async def _look(ask: Callable[[], Awaitable[object]]) -> float:
    best = float("inf")
    for _ in range(LOOKS):
        before = time.process_time()
        await ask()
        best = min(best, time.process_time() - before)
    return best * US
