"""Runs a runtime has recovered are left, not cancelled, when it closes (design §8)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from awaken import Agent, RunResult, Runtime, tool
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import CANCELLED, RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.store.threads import RunQuery
from awaken.errors import AwakenError
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, text_response, tool_call_response

pytestmark = pytest.mark.anyio


class Job:
    """Runs that look, each until it is told to go on, in one runtime after another."""

    def __init__(self, looks: int = 2) -> None:
        self.store, self.looks = MemoryStore(), looks
        self.looking = 0
        self.begun = asyncio.Condition()
        self.go = asyncio.Event()
        self._dead: list[asyncio.Task[RunResult]] = []

    def runtime(self, **more: Any) -> Runtime:
        @tool(effect="read")
        async def look() -> str:
            """Look."""
            async with self.begun:
                self.looking += 1
                self.begun.notify_all()
            await self.go.wait()
            return "seen"

        agent = Agent("job", model=FunctionModel(self._next), tools=[look])
        return Runtime([agent], store=self.store, **more)

    def _next(self, request: InferenceRequest) -> StreamResult:
        looked = sum(message.role == "tool" for message in request.messages)
        if looked < self.looks:
            return tool_call_response("", "look", f"c{looked}", {})
        return text_response("done")

    async def until_looking(self, count: int) -> None:
        async with asyncio.timeout(100), self.begun:
            await self.begun.wait_for(lambda: self.looking >= count)

    async def crash(self, count: int) -> None:
        """A process that dies while all its runs look."""
        runtime = self.runtime()
        for number in range(count):
            started = runtime.run("job", "go", thread=f"t{number}")
            self._dead.append(asyncio.create_task(started))
        await self.until_looking(count)
        self.store.forsake()
        self.looking = 0

    async def bury(self) -> None:
        for task in self._dead:
            task.cancel()
            with suppress(asyncio.CancelledError, AwakenError):
                await task

    async def close(self, runtime: Runtime) -> None:
        """Close it, and let what looks go on."""
        closing = asyncio.create_task(runtime.close())
        await asyncio.sleep(0)
        self.go.set()
        async with asyncio.timeout(100):
            await closing

    async def status(self) -> list[RunStatus]:
        return [record.status for record in await self.store.list_runs(RunQuery())]


async def test_a_recovered_run_outlives_the_runtime_that_recovered_it() -> None:
    """A short job of another kind does not end what it only came across."""
    job = Job()
    await job.crash(1)

    async with job.runtime() as second:
        await job.until_looking(1)
        await job.close(second)
    assert await job.status() == [RunStatus.RUNNING]

    async with job.runtime() as third:
        (run,) = third.recovered
        assert (await run).response == "done"
    await job.bury()
    assert await job.status() == [RunStatus.DONE]


async def test_runs_that_wait_for_room_are_left_as_well() -> None:
    """Not all go on at once; those that had not begun yet are not cancelled either."""
    job = Job()
    await job.crash(5)

    async with job.runtime(max_runs=2) as second:
        assert len(second.recovered) == 5
        await job.until_looking(2)
        await job.close(second)
    assert await job.status() == [RunStatus.RUNNING] * 5

    async with job.runtime() as third:
        for run in third.recovered:
            assert (await run).response == "done"
    await job.bury()
    assert await job.status() == [RunStatus.DONE] * 5


async def test_what_waits_for_room_is_not_taken_up_again() -> None:
    """Whoever looks again finds runs that nobody owns yet, though they are as good as begun."""
    job = Job(looks=1)
    await job.crash(5)

    async with job.runtime(max_runs=2) as second:
        await job.until_looking(2)
        assert await second.recover() == []
        job.go.set()
        for run in second.recovered:
            assert (await run).response == "done"
    await job.bury()
    assert job.looking == 5


async def test_what_was_started_here_is_cancelled_beside_what_is_left() -> None:
    """Each as its own word says: started here is cancelled, taken up is left."""
    job = Job()
    await job.crash(1)

    async with job.runtime() as second:
        mine = asyncio.create_task(second.run("job", "go", thread="mine"))
        await job.until_looking(2)
        await job.close(second)

    assert (await mine).termination == CANCELLED
    await job.bury()
    (taken_up,) = await job.store.list_runs(RunQuery(thread_id="t0"))
    assert taken_up.status is RunStatus.RUNNING


async def test_a_run_is_left_at_the_end_of_the_step_that_was_cut_short() -> None:
    """The step a crash has cut short is a step like any other: no model is asked behind it."""
    job = Job(looks=1)
    await job.crash(1)

    async with job.runtime() as second:
        await job.until_looking(1)
        await job.close(second)
    await job.bury()

    assert await job.status() == [RunStatus.RUNNING]
