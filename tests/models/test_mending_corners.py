"""Corners of mending: budgets, slow readers, late breaks, pieces that were not kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from awaken import Agent, Budget, Price, Runtime, tool
from awaken.core.event import TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.inference import StopReason, TokenUsage
from awaken.core.lifecycle import CANCELLED
from awaken.core.llm import (
    InferenceRequest,
    LlmStreamEvent,
    ModelAbilities,
    ProviderError,
    RateLimited,
    Stop,
    StreamInterrupted,
    Usage,
)
from awaken.core.store.commits import Fence, StreamLogEntry
from awaken.engine import stream_log
from awaken.errors import StoreUnavailable
from awaken.models.output_tool import OUTPUT_TOOL
from awaken.stores.sqlite import SqliteStore
from awaken.testing import FakeClock, FunctionModel, ScriptedModel

pytestmark = pytest.mark.anyio

CUT = ProviderError("connection reset by peer")
END = Stop(reason=StopReason.END_TURN)


def used(prompt: int, output: int = 0) -> Usage:
    return Usage(usage=TokenUsage(prompt_tokens=prompt, completion_tokens=output))


class Silent:
    """A model whose first stream says nothing."""

    def __init__(self) -> None:
        self.asked = 0
        self.quiet = asyncio.Event()
        self.model = FunctionModel(self._speak)

    async def _speak(self, _: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        self.asked += 1
        if self.asked == 1:
            self.quiet.set()
            await asyncio.Event().wait()
        yield TextDelta(delta="there")
        yield END


async def until_stalled(clock: FakeClock) -> None:
    clock.advance(0.25)
    await asyncio.sleep(0)
    clock.advance(61)


@pytest.mark.parametrize("budget", [Budget(tokens=3000), Budget(steps=1)])
async def test_silence_does_not_use_up_a_budget(budget: Budget) -> None:
    silent, clock = Silent(), FakeClock()
    async with Runtime([Agent("a", model=silent.model)], clock=clock) as runtime:
        run = asyncio.ensure_future(runtime.run("a", "go", budget=budget))
        await silent.quiet.wait()
        await until_stalled(clock)
        await clock.until_sleeping()
        clock.advance(0.2)
        assert (await run).response == "there"


async def test_a_mended_answer_may_be_as_long_as_what_is_left() -> None:
    model = ScriptedModel([[TextDelta(delta="x" * 400), CUT], [TextDelta(delta="y"), END]])
    async with Runtime([Agent("a", model=model)], clock=FakeClock(auto=True)) as runtime:
        await runtime.run("a", "go", budget=Budget(tokens=3000))
    limits = [r.overrides.max_tokens for r in model.requests if r.overrides is not None]
    assert len(limits) == 2
    assert limits[0] is not None
    assert limits[1] is not None
    assert limits[1] < limits[0] - 100


async def test_a_reader_that_takes_its_time_is_no_silent_model() -> None:
    clock = FakeClock()
    model = ScriptedModel([[*(TextDelta(delta="x") for _ in range(400)), END]])
    async with (
        Runtime([Agent("a", model=model)], clock=clock) as runtime,
        runtime.stream("a", "go") as events,
    ):
        await anext(events)
        for _ in range(20):
            await asyncio.sleep(0)
        for _ in range(5):
            clock.advance(60)
            await asyncio.sleep(0)
        result = await events.read_to_end()
    assert result.response == "x" * 400
    assert model.calls == 1


async def test_a_run_that_is_cancelled_is_not_asked_for_again_though_its_stream_closes_slowly() -> (
    None
):
    clock, asked = FakeClock(), []
    begun, closing = asyncio.Event(), asyncio.Event()

    async def speak(_: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        asked.append(1)
        try:
            yield TextDelta(delta="well")
            begun.set()
            await asyncio.Event().wait()
        finally:
            closing.set()
            await clock.sleep(200)

    async with Runtime([Agent("a", model=FunctionModel(speak))], clock=clock) as runtime:
        run = asyncio.ensure_future(runtime.run("a", "go", thread="t"))
        await begun.wait()
        cancelling = asyncio.ensure_future(runtime.cancel("t", deadline=5))
        await closing.wait()
        await until_stalled(clock)
        await asyncio.sleep(0)
        clock.advance(200)
        result = await run
        await cancelling
    assert result.termination == CANCELLED
    assert len(asked) == 1


async def test_what_broke_off_after_its_last_word_is_whole() -> None:
    model = ScriptedModel([[TextDelta(delta="All of it."), END, CUT]])
    async with Runtime([Agent("a", model=model)]) as runtime:
        assert (await runtime.run("a", "go")).response == "All of it."
    assert model.calls == 1


async def test_a_call_without_arguments_that_was_followed_by_another_is_whole() -> None:
    ran: list[str] = []

    @tool
    async def ping() -> str:
        """Ping."""
        ran.append("ping")
        return "pong"

    @tool
    async def add(a: int) -> int:
        """Add."""
        ran.append("add")
        return a

    broken: list[LlmStreamEvent | Exception] = [
        ToolCallStart(id="1", name="ping"),
        ToolCallStart(id="2", name="add"),
        ToolCallDelta(id="2", args_delta='{"a": 1}'),
        CUT,
    ]
    model = ScriptedModel([broken, "done"])
    async with Runtime([Agent("a", model=model, tools=[ping, add])]) as runtime:
        await runtime.run("a", "go")
    assert sorted(ran) == ["add", "ping"]


async def test_an_executor_that_says_interrupted_before_anything_came_is_asked_again() -> None:
    model = ScriptedModel([StreamInterrupted("goaway"), "fine"])
    async with Runtime([Agent("a", model=model)], clock=FakeClock(auto=True)) as runtime:
        assert (await runtime.run("a", "go")).response == "fine"


# -- answers with a shape ---------------------------------------------------------------------


@dataclass
class Person:
    name: str = "nobody"
    age: int = 0


class Native(ScriptedModel):
    def abilities(self, upstream_model: str) -> ModelAbilities:
        return ModelAbilities(native_output=True)


async def test_an_object_that_broke_off_is_written_anew() -> None:
    whole = '{"name": "Bob", "age": 3}'
    model = Native([[TextDelta(delta='{"name": "Bob", "a'), CUT], [TextDelta(delta=whole), END]])
    agent = Agent("a", model=model, output=Person, max_output_retries=0)
    async with Runtime([agent], clock=FakeClock(auto=True)) as runtime:
        result = await runtime.run("a", "go", thread="t")
        assert result.output == Person("Bob", 3)
        assert (await runtime.messages("t"))[-1].text() == whole


async def test_a_final_answer_without_arguments_is_an_empty_object() -> None:
    call: list[LlmStreamEvent] = [
        ToolCallStart(id="1", name=OUTPUT_TOOL),
        Stop(reason=StopReason.TOOL_USE),
    ]
    async with Runtime([Agent("a", model=ScriptedModel([call]), output=Person)]) as runtime:
        assert (await runtime.run("a", "go")).output == Person()


async def test_json_in_a_fence_is_read() -> None:
    model = Native(['```json\n{"name": "Bob", "age": 3}\n```'])
    async with Runtime([Agent("a", model=model, output=Person)]) as runtime:
        assert (await runtime.run("a", "go")).output == Person("Bob", 3)


# -- what it costs ----------------------------------------------------------------------------


async def test_each_model_of_a_mended_answer_is_paid_its_own_price() -> None:
    dear = ScriptedModel([[used(1000), TextDelta(delta="a"), RateLimited("full")]])
    cheap = ScriptedModel([[used(1000), TextDelta(delta="b"), END]])
    agent = Agent("a", model=["dear", "cheap"])
    prices = {"dear": Price(input=1000, output=0), "cheap": Price(input=1, output=0)}
    models = {"dear": dear, "cheap": cheap}
    runtime = Runtime([agent], models=models, prices=prices, clock=FakeClock(auto=True))
    async with runtime:
        result = await runtime.run("a", "go", budget=Budget(money=100))
    assert result.response == "ab"
    assert result.cost == pytest.approx(1.001)
    assert result.spent is not None
    assert result.spent.money == pytest.approx(1.001)
    assert result.usage.prompt_tokens == 2000


async def test_tokens_written_to_a_cache_are_told_without_a_price() -> None:
    usage = Usage(usage=TokenUsage(prompt_tokens=5, cache_creation_tokens=4))
    model = ScriptedModel([[usage, TextDelta(delta="a"), END]])
    async with Runtime([Agent("a", model=model)]) as runtime:
        assert (await runtime.run("a", "go")).usage.cache_creation_tokens == 4


# -- pieces -----------------------------------------------------------------------------------


class Forgetful(SqliteStore):
    """Refuses the second piece it is given, and tells of each."""

    def begin(self) -> None:
        self.given: list[StreamLogEntry] = []
        self.refused_or_kept: asyncio.Queue[None] = asyncio.Queue()

    async def append_stream(self, fence: Fence, entry: StreamLogEntry) -> None:
        self.given.append(entry)
        try:
            if len(self.given) == 2:
                raise StoreUnavailable("no")
            await super().append_stream(fence, entry)
        finally:
            self.refused_or_kept.put_nowait(None)


async def test_a_piece_that_was_not_kept_leaves_no_hole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_log, "KEPT_AT_LOOK", 1)
    store = Forgetful.from_address(f"sqlite:///{tmp_path}/a.db")
    store.begin()
    await store.open()
    clock, go, spoke = FakeClock(), asyncio.Queue[None](), asyncio.Queue[None]()

    async def speak(_: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        for number in range(3):
            yield TextDelta(delta=f"{number} ")
            spoke.put_nowait(None)
            await go.get()
        yield END

    async with Runtime([Agent("a", model=FunctionModel(speak))], store=store, clock=clock) as rt:
        run = asyncio.ensure_future(rt.run("a", "go"))
        for _ in range(3):
            await spoke.get()
            clock.advance(0.25)
            await store.refused_or_kept.get()
            await asyncio.sleep(0)
            go.put_nowait(None)
        assert (await run).response == "0 1 2 "
    assert [(piece.number, piece.text) for piece in store.given] == [
        (1, "0 "),
        (2, "1 "),
        (1, "0 1 2 "),
    ]
