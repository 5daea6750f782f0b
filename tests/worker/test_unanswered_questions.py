"""What counts against a run's budget of the process that died with it.

One process here stands for several: the store forsakes whoever held the thread.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from far_kit import Far, FarBackend, Held, far_agent, says

from awaken import Agent, Budget, RunResult, Runtime, tool
from awaken.core.inference import StreamResult
from awaken.core.lifecycle import NATURAL_END
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.tool_context import Tool
from awaken.errors import AwakenError
from awaken.stores.memory import MemoryStore
from awaken.testing import FunctionModel, text_response, tool_call_response

pytestmark = pytest.mark.anyio

T = "t"


class Desk:
    """An agent that looks something up and answers; one part of that hangs until `goes_on`."""

    def __init__(self, hangs: str, budget: Budget | None) -> None:
        self.store = MemoryStore()
        self.begun, self.hangs, self.goes_on = asyncio.Event(), hangs, False
        self.questions = 0
        self._budget = budget

    def runtime(self) -> Runtime:
        async def answer(request: InferenceRequest) -> StreamResult:
            self.questions += 1
            last = request.messages[-1].role is Role.TOOL
            await self._reach("last answer" if last else "first answer")
            return text_response("Done.") if last else tool_call_response("", "look", "c", {})

        agent = Agent("a", model=FunctionModel(answer), tools=[self._look()], budget=self._budget)
        return Runtime([agent], store=self.store, recover=False)

    def _look(self) -> Tool:
        @tool(effect="idempotent")
        async def look() -> str:
            """Look."""
            await self._reach("call")
            return "seen"

        return look

    async def _reach(self, place: str) -> None:
        if place == self.hangs and not self.goes_on:
            self.begun.set()
            await asyncio.Event().wait()

    async def live(self, *, dies: bool) -> None:
        """One more process comes as far as it can, and dies or leaves the run to the next one."""
        self.begun.clear()
        runtime = self.runtime()
        is_new = await self.store.latest_run(T) is None
        runs = (
            [asyncio.ensure_future(runtime.run("a", "Go!", thread=T))]
            if is_new
            else await runtime.recover()
        )
        await self.begun.wait()
        if dies:
            self.store.forsake()
        await runtime.engine.leave_all(grace=0)
        for run in runs:
            with suppress(AwakenError, asyncio.CancelledError):
                await run

    async def end(self) -> RunResult:
        self.goes_on = True
        async with self.runtime() as runtime:
            (run,) = await runtime.recover()
            return await run


@pytest.mark.parametrize("hangs", ["first answer", "last answer"])
async def test_a_question_whose_process_died_counts_as_a_step_and_for_what_was_sent(
    hangs: str,
) -> None:
    desk, other = Desk(hangs, Budget(steps=9)), Desk("", Budget(steps=9))
    await desk.live(dies=True)
    result = await desk.end()
    async with other.runtime() as runtime:
        undisturbed = await runtime.run("a", "Go!", thread=T)

    assert result.termination == NATURAL_END
    assert result.spent is not None
    assert undisturbed.spent is not None
    assert (result.spent.steps, desk.questions) == (3, 3)
    assert (undisturbed.spent.steps, other.questions) == (2, 2)
    assert result.spent.tokens > undisturbed.spent.tokens


async def test_a_process_that_died_in_a_call_has_put_no_further_question() -> None:
    desk = Desk("call", Budget(steps=2))
    for _ in range(3):
        await desk.live(dies=True)
    result = await desk.end()

    assert result.termination == NATURAL_END
    assert result.spent is not None
    assert (result.spent.steps, desk.questions) == (2, 2)


async def test_a_run_without_a_budget_counts_nothing() -> None:
    desk = Desk("first answer", None)
    await desk.live(dies=True)
    result = await desk.end()

    assert (result.termination, result.spent) == (NATURAL_END, None)


async def test_a_question_to_an_agent_elsewhere_is_on_record_before_it_is_put() -> None:
    """Whoever goes on with its work there asks for nothing more, and needs no other step."""
    store, held = MemoryStore(), Held(task="t-1")
    first = Runtime([far_agent()], backends=[Far(FarBackend(held))], store=store, recover=False)
    running = asyncio.ensure_future(first.run("far", "Go!", thread=T, budget=Budget(steps=1)))
    await held.under_way.wait()
    store.forsake()
    await first.engine.leave_all(grace=0)
    with suppress(AwakenError, asyncio.CancelledError):
        await running

    far = FarBackend(says("done there"))
    async with Runtime([far_agent()], backends=[Far(far)], store=store, recover=False) as second:
        (run,) = await second.recover()
        result = await run

    assert (result.response, len(far.requests)) == ("done there", 1)
    assert result.spent is not None
    assert result.spent.steps == 1


async def test_an_agent_elsewhere_that_was_never_reached_is_asked_again_and_counts_again() -> None:
    store, held = MemoryStore(), Held()
    first = Runtime([far_agent()], backends=[Far(FarBackend(held))], store=store, recover=False)
    running = asyncio.ensure_future(first.run("far", "Go!", thread=T, budget=Budget(steps=2)))
    await held.under_way.wait()
    store.forsake()
    await first.engine.leave_all(grace=0)
    with suppress(AwakenError, asyncio.CancelledError):
        await running

    far = FarBackend(says("done there"))
    async with Runtime([far_agent()], backends=[Far(far)], store=store, recover=False) as second:
        (run,) = await second.recover()
        result = await run

    assert result.spent is not None
    assert (result.response, result.spent.steps) == ("done there", 2)
