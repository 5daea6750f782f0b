"""Processes that die in the middle of a run, and others that take it up; all in this one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from loop_stage import Stage

from awaken import Agent, RunResult, ToolCallContext, tool
from awaken.core.store.commits import Committed, ThreadCommit
from awaken.core.tool_context import Tool
from awaken.errors import AwakenError, StoreError
from awaken.stores.memory import MemoryStore


class Deed:
    """A tool whose first calls never return; keeps the idempotency keys it was called with."""

    def __init__(self, hangs: int = 1, **options: Any) -> None:
        self.begun = asyncio.Event()
        self.keys: list[str] = []

        @tool(**options)
        async def deed(ctx: ToolCallContext, n: int = 1) -> str:
            """Do it."""
            self.keys.append(ctx.idempotency_key)
            self.begun.set()
            if len(self.keys) <= hangs:
                await asyncio.Event().wait()
            return f"did {n}"

        self.tool: Tool = deed


class Mortal(MemoryStore):
    """A store that takes nothing while its process is dead."""

    def __init__(self) -> None:
        super().__init__()
        self.alive = True

    async def commit(self, commit: ThreadCommit) -> Committed:
        if not self.alive:
            raise StoreError("killed")
        return await super().commit(commit)


@asynccontextmanager
async def crash(
    store: MemoryStore, agents: Agent | list[Agent], reached: asyncio.Event, **request: Any
) -> AsyncIterator[Stage]:
    """A run whose process dies as soon as it got there; the block is what comes after.

    The dead do not write: the store refuses whatever the first process still says.
    """
    stage = Stage(*agents if isinstance(agents, list) else [agents], store=store)
    task = asyncio.create_task(stage.run(**request))
    async with asyncio.timeout(100):
        await reached.wait()
        store.forsake()
        try:
            yield stage
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, AwakenError):
                await task


async def recovered(stage: Stage) -> RunResult:
    """How the one run ends that the stage's process takes up."""
    (run,) = await stage.runtime.recover()
    return await run


async def ledger(stage: Stage) -> dict[str, str]:
    """What became of the calls of the thread's latest run."""
    calls = await stage.store.load_calls((await stage.record()).run_id)
    return {entry.call_id: entry.phase.value for entry in calls}
