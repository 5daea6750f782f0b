"""Awaken, as its users write it, on the memory store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from awaken import Agent, Runtime, ToolCallContext, tool
from awaken.events import TextDelta, ToolCallDelta, ToolCallStart
from awaken.ext import (
    BackgroundLimits,
    BackgroundTaskManager,
    BackgroundTaskPlugin,
    TaskContext,
    TaskResult,
)
from awaken.models import (
    InferenceRequest,
    LlmStreamEvent,
    Stop,
    StopReason,
    TokenUsage,
    Usage,
)
from awaken.tool import FunctionTool
from benchmarks.measure import main
from benchmarks.work import DELTA, Run, Tally, Unsupported

try:
    from awaken.core.bus import NO_TOPIC
    from awaken.core.task import TaskParentContext
except ImportError:  # another checkout, whose modules stand elsewhere
    from awaken.contract.background import TaskParentContext  # type: ignore[import-not-found, no-redef]
    from awaken.contract.bus import NO_TOPIC  # type: ignore[import-not-found, no-redef]


class StepModel:
    """Wants `count` steps of one call each, then answers."""

    name = "steps"

    def __init__(self, count: int, delay: float) -> None:
        self._count = count
        self._delay = delay

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        if self._delay:
            await asyncio.sleep(self._delay)
        step = len(request.messages) // 2
        if step < self._count:
            yield ToolCallStart(id=f"c{step}", name="add")
            yield ToolCallDelta(id=f"c{step}", args_delta=f'{{"a": {step}, "b": 1}}')
        else:
            yield TextDelta(delta="done")
        yield _usage()
        yield Stop(reason=StopReason.TOOL_USE if step < self._count else StopReason.END_TURN)


class BossModel:
    """Wants `count` steps of one delegate each, then answers."""

    name = "boss"

    def __init__(self, count: int) -> None:
        self._count = count

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        step = len(request.messages) // 2
        if step < self._count:
            yield ToolCallStart(id=f"c{step}", name="agent_run_child")
            yield ToolCallDelta(id=f"c{step}", args_delta='{"prompt": "go"}')
        else:
            yield TextDelta(delta="done")
        yield _usage()
        yield Stop(reason=StopReason.TOOL_USE if step < self._count else StopReason.END_TURN)


class ChildModel:
    """Answers at once."""

    name = "child"

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        self._tally.count += 1
        yield TextDelta(delta="done")
        yield _usage()
        yield Stop(reason=StopReason.END_TURN)


class DeltaModel:
    """Answers in `count` pieces."""

    name = "deltas"

    def __init__(self, count: int) -> None:
        self._count = count

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        for _ in range(self._count):
            yield TextDelta(delta=DELTA)
        yield _usage()
        yield Stop(reason=StopReason.END_TURN)


class CallsModel:
    """Wants `count` calls at once, then answers."""

    name = "calls"

    def __init__(self, count: int) -> None:
        self._count = count

    async def execute_stream(self, request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        first = len(request.messages) == 1
        if first:
            for number in range(self._count):
                yield ToolCallStart(id=f"c{number}", name="add")
                yield ToolCallDelta(id=f"c{number}", args_delta=f'{{"a": {number}, "b": 1}}')
        else:
            yield TextDelta(delta="done")
        yield _usage()
        yield Stop(reason=StopReason.TOOL_USE if first else StopReason.END_TURN)


class Topicless:
    """A bus that no run publishes to."""

    def __init__(self, bus: Any) -> None:
        self._bus = bus

    def __getattr__(self, name: str) -> Any:
        return getattr(self._bus, name)

    def topic(self, fence: object) -> Any:
        return NO_TOPIC


class Awaken:
    """The runtime, as a program to be measured."""

    name = "awaken"
    imports = "from awaken import Agent, Runtime"

    @asynccontextmanager
    async def steps(self, count: int, delay: float, tally: Tally) -> AsyncIterator[Run]:
        agent = Agent(
            "bench", model=StepModel(count, delay), tools=[_tool(tally)], max_rounds=count + 2
        )
        async with Runtime([agent]) as runtime:
            yield lambda: runtime.run("bench", "go")

    @asynccontextmanager
    async def deltas(self, count: int, tally: Tally) -> AsyncIterator[Run]:
        async with Runtime([Agent("bench", model=DeltaModel(count))]) as runtime:

            async def run() -> None:
                async with runtime.stream("bench", "go") as events:
                    async for event in events:
                        if isinstance(event.event, TextDelta):
                            tally.count += 1

            yield run

    @asynccontextmanager
    async def unheard(self, count: int, tally: Tally, *, has_topic: bool) -> AsyncIterator[Run]:
        if NO_TOPIC is None:
            raise Unsupported("runs have no topics in this version")
        async with Runtime([Agent("bench", model=DeltaModel(count))]) as runtime:
            if not has_topic:
                runtime._engine.bus = Topicless(runtime._engine.bus)

            async def run() -> None:
                result = await runtime.run("bench", "go")
                tally.count += len(result.response or "") // len(DELTA)

            yield run

    @asynccontextmanager
    async def calls(self, count: int, tally: Tally) -> AsyncIterator[Run]:
        agent = Agent("bench", model=CallsModel(count), tools=[_tool(tally)])
        async with Runtime([agent]) as runtime:
            yield lambda: runtime.run("bench", "go")

    @asynccontextmanager
    async def delegates(self, count: int, tally: Tally) -> AsyncIterator[Run]:
        child = Agent("child", model=ChildModel(tally))
        boss = Agent("bench", model=BossModel(count), delegates=[child], max_rounds=count + 2)
        async with Runtime([boss, child]) as runtime:
            yield lambda: runtime.run("bench", "go")

    @asynccontextmanager
    async def tasks(self, count: int, tally: Tally) -> AsyncIterator[Run]:
        @tool(name="add")
        async def start(a: int, b: int, ctx: ToolCallContext) -> str:
            """Start tasks, and wait for them."""
            manager = ctx.service(BackgroundTaskManager)
            thread = ctx.run_identity.thread_id

            async def body(task: TaskContext) -> TaskResult:
                tally.count += 1
                return TaskResult.success()

            ids = [
                await manager.spawn(thread, "bench", None, "a task", TaskParentContext(), body)
                for _ in range(count)
            ]
            await manager.wait(ids)
            return "started"

        limits = BackgroundLimits(kept=count)
        agent = Agent(
            "bench",
            model=StepModel(1, 0),
            tools=[start],
            plugins=[BackgroundTaskPlugin(limits=limits)],
        )
        async with Runtime([agent]) as runtime:
            yield lambda: runtime.run("bench", "go")


def _usage() -> Usage:
    return Usage(usage=TokenUsage(prompt_tokens=10, completion_tokens=5, total_tokens=15))


def _tool(tally: Tally) -> FunctionTool[[int, int], Coroutine[Any, Any, int]]:
    @tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        tally.count += 1
        return a + b

    return add


if __name__ == "__main__":
    main(Awaken())
