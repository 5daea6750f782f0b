"""How long a stream may be silent (02 §6.4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from awaken import Agent, InferenceOverride, Runtime
from awaken.core.event import TextDelta
from awaken.core.inference import StopReason
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop
from awaken.testing import FakeClock, FunctionModel

pytestmark = pytest.mark.anyio


async def seconds_of_silence(
    name: str, overrides: InferenceOverride | None = None, **retry: int
) -> int:
    """How long a model that falls silent is waited for."""
    asked, quiet = asyncio.Queue[None](), asyncio.Event()

    async def speak(_: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        asked.put_nowait(None)
        if quiet.is_set():
            yield Stop(reason=StopReason.END_TURN)
            return
        yield TextDelta(delta="Well")
        quiet.set()
        await asyncio.Event().wait()

    clock = FakeClock(auto=True)
    agent = Agent("a", model=FunctionModel(speak, name=name), sections={"retry": retry})
    async with Runtime([agent], clock=clock) as runtime:
        run = asyncio.ensure_future(runtime.run("a", "go", settings=overrides))
        await quiet.wait()
        asked.get_nowait()
        seconds = 0
        while asked.empty():
            assert seconds < 1000, "it is waited for for ever"
            for _ in range(4):
                clock.advance(0.25)
                for _ in range(5):
                    await asyncio.sleep(0)
            seconds += 1
        assert (await run).response == "Well"
    return seconds


@pytest.mark.parametrize("name", ["gpt-4.1-mini", "foo3", "claude-o1", "think"])
async def test_a_minute_is_enough_for_most(name: str) -> None:
    """02/E4: stall at 60 s recovers; o1, o3 and o4 count at the beginning of a name only."""
    assert await seconds_of_silence(name) in (60, 61)


@pytest.mark.parametrize(
    "name", ["o1", "o3-mini", "o4-mini", "claude-thinking", "Kimi-Thinking", "x-reasoning"]
)
async def test_a_model_that_is_known_to_think_gets_two(name: str) -> None:
    """02/6.4: the idle window doubles by the model's name."""
    assert await seconds_of_silence(name) in (120, 121)


async def test_a_model_that_is_asked_to_think_gets_two() -> None:
    """02/6.4: the idle window doubles when `reasoning_effort` is set."""
    effort = InferenceOverride(reasoning_effort="high")
    assert await seconds_of_silence("gpt-4.1-mini", effort) in (120, 121)


async def test_an_agent_says_how_long_it_waits() -> None:
    """02/DB-26: the agent's own settings hold for streams."""
    assert await seconds_of_silence("gpt-4.1-mini", stream_idle_timeout_secs=5) in (5, 6)
    assert await seconds_of_silence("o3", stream_idle_timeout_secs=5) in (10, 11)


@pytest.mark.parametrize("name", ["gpt-4.1-mini", "o3"])
async def test_a_settings_timeout_is_how_long_any_model_may_be_silent(name: str) -> None:
    """09/FD-11: `timeout` is kept by the layer above the adapters, for all of them."""
    assert await seconds_of_silence(name, InferenceOverride(timeout=7)) in (7, 8)
