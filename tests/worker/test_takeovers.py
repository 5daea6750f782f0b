"""What counts as a takeover from a process that died, and what becomes of a run after too many.

One process here stands for several: the store forsakes whoever held the thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from far_kit import Far, FarBackend, Held, far_agent

from awaken import Agent, Runtime, tool
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import CANCELLED, NATURAL_END, Failed
from awaken.core.llm import InferenceRequest
from awaken.core.run import RunRecord
from awaken.core.tool import MAX_TAKEOVERS
from awaken.core.tool_context import Tool
from awaken.errors import AwakenError
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, text_response, tool_call_response

pytestmark = pytest.mark.anyio

T = "t"


class Hole:
    """A call that never comes back, until it `lets_through`."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.begun = asyncio.Event()
        self.times = 0
        self.lets_through = False

        @tool(effect="idempotent")
        async def fall() -> str:
            """Fall."""
            self.times += 1
            self.begun.set()
            if not self.lets_through:
                await asyncio.Event().wait()
            return "out again"

        self.tool: Tool = fall

    def runtime(self) -> Runtime:
        agent = Agent("a", model=FunctionModel(_falls_once), tools=[self.tool])
        return Runtime([agent], store=self.store, recover=False)

    @asynccontextmanager
    async def process(self) -> AsyncIterator[Runtime]:
        """A process that has begun the call, or begun it again."""
        self.begun.clear()
        runtime = self.runtime()
        known = await self.store.latest_run(T)
        starts = asyncio.ensure_future(runtime.run("a", "Go!", thread=T)) if known is None else None
        recovered = [] if starts is not None else await runtime.recover()
        await self.begun.wait()
        yield runtime
        await runtime.engine.leave_all(grace=0)
        for run in [starts] if starts is not None else recovered:
            with suppress(AwakenError, asyncio.CancelledError):
                await run

    async def die(self) -> None:
        """One more process dies with the run."""
        async with self.process():
            self.store.forsake()

    async def leave(self) -> None:
        """One more process leaves the run to the next one, in the middle of the call."""
        async with self.process():
            pass

    async def record(self) -> RunRecord:
        run = await self.store.latest_run(T)
        assert run is not None
        return run


def _falls_once(request: InferenceRequest) -> StreamResult:
    if any(message.tool_calls for message in request.messages):
        return text_response("Done.")
    return tool_call_response("", "fall", "c1", {})


async def test_a_run_that_is_left_on_purpose_is_taken_up_as_often_as_need_be() -> None:
    hole = Hole()
    for _ in range(2 * MAX_TAKEOVERS):
        await hole.leave()
    assert (await hole.record()).takeovers is None

    hole.lets_through = True
    async with hole.runtime() as last:
        (run,) = await last.recover()
        assert (await run).termination == NATURAL_END


async def test_takeovers_count_from_the_first_process_that_died_until_something_new_is_kept() -> (
    None
):
    hole = Hole()
    for _ in range(MAX_TAKEOVERS):
        await hole.die()
    await hole.leave()  # this one is the last to take the run over; it does not die
    takeovers = (await hole.record()).takeovers
    assert takeovers is not None
    assert takeovers.times == MAX_TAKEOVERS

    hole.lets_through = True
    async with hole.runtime() as last:
        (run,) = await last.recover()
        assert (await run).termination == NATURAL_END
    assert (await hole.record()).takeovers is None


async def test_a_new_message_ends_an_abandoned_run_and_begins_one_of_its_own() -> None:
    hole = Hole()
    for _ in range(1 + MAX_TAKEOVERS):
        await hole.die()
    abandoned, times = await hole.record(), hole.times

    async with hole.runtime() as runtime:
        result = await runtime.run("a", "Are you there?", thread=T)
        before = await runtime.find_run(abandoned.run_id)
        log = await runtime.messages(T)

    assert (result.response, hole.times) == ("Done.", times)
    assert result.run_id != abandoned.run_id
    assert before is not None
    assert isinstance(before.termination_reason, Failed)
    assert [m.text() for m in log][-2:] == ["Are you there?", "Done."]


async def test_an_abandoned_run_that_is_cancelled_ends_as_cancelled_and_starts_nothing() -> None:
    hole = Hole()
    for _ in range(1 + MAX_TAKEOVERS):
        await hole.die()
    times = hole.times

    async with hole.runtime() as runtime:
        assert await runtime.cancel(T)

    run = await hole.record()
    assert (run.termination_reason, hole.times) == (CANCELLED, times)


async def test_a_message_that_is_read_when_a_run_is_taken_up_begins_the_count_again() -> None:
    hole = Hole()
    async with hole.process() as runtime:
        await runtime.send(T, "And this?")
        hole.store.forsake()
    for _ in range(MAX_TAKEOVERS):
        await hole.die()
    takeovers = (await hole.record()).takeovers
    assert takeovers is not None
    assert takeovers.times < 1 + MAX_TAKEOVERS
    assert [m.text() for m in await hole.store.load_messages(T)].count("And this?") == 1


async def test_a_run_elsewhere_that_kills_each_process_is_abandoned_and_stopped_there() -> None:
    store = MemoryStore()
    far: FarBackend | None = None
    for number in range(1 + MAX_TAKEOVERS):
        held = Held(task="t-1")
        far = FarBackend(held)
        runtime = Runtime([far_agent()], backends=[Far(far)], store=store, recover=False)
        starts = asyncio.ensure_future(runtime.run("far", "Go!", thread=T)) if number == 0 else None
        recovered = [] if starts is not None else await runtime.recover()
        await held.under_way.wait()
        store.forsake()
        await runtime.engine.leave_all(grace=0)
        for run in [starts] if starts is not None else recovered:
            with suppress(AwakenError, asyncio.CancelledError):
                await run

    far = FarBackend()
    async with Runtime([far_agent()], backends=[Far(far)], store=store, recover=False) as last:
        (run,) = await last.recover()
        result = await run

    assert isinstance(result.termination, Failed)
    assert result.termination.value.startswith("abandoned")
    assert (len(far.requests), len(far.aborts)) == (0, 1)
