"""Streams are looked after one by one: what happens to one of them is nothing to the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from awaken import Agent, Budget, Runtime
from awaken.core.answer_stream import StreamListener, drive_of
from awaken.core.event import TextDelta
from awaken.core.inference import StopReason
from awaken.core.lifecycle import CANCELLED
from awaken.core.llm import (
    ContentFiltered,
    InferenceRequest,
    LlmStreamEvent,
    Overloaded,
    ProviderError,
    Stop,
    StreamInterrupted,
    Unauthorized,
)
from awaken.core.spec import ModelPoolSpec, PoolHome, PoolMemberSpec, PoolRouting
from awaken.errors import InferenceFailed
from awaken.models.retry import LlmRetryPolicy, RetryingExecutor
from awaken.testing import FakeClock, FunctionModel, ScriptedModel, max_tokens_response

pytestmark = pytest.mark.anyio

END = Stop(reason=StopReason.END_TURN)
FOR_EVER = float("inf")

Line = str | float | Exception | None
"""What a model says, for how many seconds it is quiet, or how it breaks off."""


class Speaker:
    """A model that plays one list of lines a stream."""

    def __init__(self, clock: FakeClock, *streams: list[Line]) -> None:
        self.clock, self.streams = clock, list(streams)
        self.asked_at: list[float] = []
        self.model = FunctionModel(self._speak)

    async def _speak(self, _: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        self.asked_at.append(self.clock.monotonic())
        for line in self.streams[len(self.asked_at) - 1]:
            match line:
                case float():
                    done = asyncio.Event()
                    if line != FOR_EVER:
                        self.clock.call_later(line, done.set)
                    await done.wait()
                case Exception():
                    raise line
                case _:
                    yield TextDelta(delta=line)  # type: ignore[arg-type]  # some lines are bad ones
        yield END


async def play(clock: FakeClock, run: asyncio.Future[Any], step: float = 0.25) -> Any:
    """Let time pass until the run is over."""
    for _ in range(4000):
        if run.done():
            break
        clock.advance(step)
        for _ in range(8):
            await asyncio.sleep(0)
    return await run


def speaking(speaker: Speaker, **retry: int) -> Runtime:
    agent = Agent("a", model=speaker.model, sections={"retry": retry})
    return Runtime([agent], clock=speaker.clock)


async def test_after_a_stall_the_next_stream_has_the_whole_window() -> None:
    """02/E4"""
    clock = FakeClock()
    speaker = Speaker(clock, ["now", FOR_EVER], [45.0, " then"])
    async with speaking(speaker) as runtime:
        run = asyncio.ensure_future(runtime.run("a", "go"))
        assert (await play(clock, run)).response == "now then"
    assert len(speaker.asked_at) == 2


async def test_a_stream_that_is_opened_again_has_the_whole_window() -> None:
    clock = FakeClock()
    speaker = Speaker(clock, [45.0, Overloaded("busy")], [45.0, "hello"])
    async with speaking(speaker) as runtime:
        run = asyncio.ensure_future(runtime.run("a", "go"))
        assert (await play(clock, run)).response == "hello"
    assert len(speaker.asked_at) == 2


async def test_a_stream_that_cannot_be_looked_after_is_alone_with_that() -> None:
    clock = FakeClock()
    speaker = Speaker(clock, ["blind", FOR_EVER], ["now", FOR_EVER], [" then"])
    executor = RetryingExecutor(speaker.model, LlmRetryPolicy(), clock)
    request = InferenceRequest(upstream_model="m", messages=())

    class Blind(StreamListener):
        def poll(self) -> bool:
            raise ValueError("blind")

    async def drive(kind: type[StreamListener]) -> None:
        await executor.drive(request, kind(asyncio.current_task()))

    blind, other = [asyncio.ensure_future(drive(kind)) for kind in (Blind, StreamListener)]
    with pytest.raises(StreamInterrupted, match="idle stall"):
        await play(clock, other)
    assert not blind.done()
    blind.cancel()
    await asyncio.wait([blind])


async def test_a_cancelled_run_is_not_asked_for_again_whatever_its_model_makes_of_it() -> None:
    asked: list[int] = []
    begun = asyncio.Event()

    async def speak(_: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        asked.append(1)
        yield TextDelta(delta="a")
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            raise ProviderError("connection reset") from error

    async with Runtime([Agent("a", model=FunctionModel(speak))]) as runtime:
        run = asyncio.ensure_future(runtime.run("a", "go", thread="t"))
        await begun.wait()
        await runtime.cancel("t")
        assert (await run).termination == CANCELLED
    assert len(asked) == 1


async def test_who_goes_on_with_nothing_says_it_all_again() -> None:
    listener = StreamListener()
    listener.restore("hello w", ())
    request = InferenceRequest(upstream_model="m", messages=())
    await drive_of(ScriptedModel(["hello world"]))(request, listener)
    assert listener.finish().text() == "hello world"


async def test_a_mended_answer_is_one_step_and_paid_once() -> None:
    text = "x" * 3000
    clock = FakeClock(auto=True)
    whole = Speaker(clock, [text, " end"])
    mended = Speaker(clock, [text, ProviderError("connection reset")], [" end"])
    spent = []
    for speaker in (whole, mended):
        async with speaking(speaker) as runtime:
            result = await runtime.run("a", "go", budget=Budget(steps=1, tokens=100_000))
            assert result.response == f"{text} end"
            assert result.spent is not None
            spent.append(result.spent)
    assert [each.steps for each in spent] == [1, 1]
    # The second time the text is part of the question.
    assert 1.9 < spent[1].tokens / spent[0].tokens < 2.2


async def test_what_a_filter_stopped_after_the_limit_is_not_in_the_conversation() -> None:
    model = ScriptedModel([max_tokens_response("how to "), ContentFiltered("unsafe"), "hello"])
    async with Runtime([Agent("a", model=model)]) as runtime:
        with pytest.raises(InferenceFailed, match="unsafe"):
            await runtime.run("a", "go", thread="t")
        await runtime.run("a", "else", thread="t")
        assert [m.text() for m in await runtime.messages("t")] == ["go", "else", "hello"]


async def test_a_word_to_go_on_that_nobody_followed_is_not_in_the_conversation() -> None:
    model = ScriptedModel([max_tokens_response("once upon "), Unauthorized("no")])
    async with Runtime([Agent("a", model=model)]) as runtime:
        with pytest.raises(InferenceFailed):
            await runtime.run("a", "go", thread="t")
        assert [m.text() for m in await runtime.messages("t")] == ["go", "once upon "]


async def test_a_model_that_writes_a_whole_object_again_has_answered_with_that() -> None:
    cut = max_tokens_response('{"value": [1, 2, 3')
    model = ScriptedModel([cut, '{"value": [1]}'])
    agent = Agent("a", model=model, output=list[int], max_output_retries=0)
    async with Runtime([agent]) as runtime:
        assert (await runtime.run("a", "go")).output == [1]


async def test_all_runs_of_an_agent_share_its_pool() -> None:
    async def slow() -> str:
        """Take its time."""
        return "done"

    members = tuple(PoolMemberSpec(model_id=id) for id in "abc")
    turns = PoolRouting(home=PoolHome.ROUND_ROBIN)
    models = {id: ScriptedModel([id] * 4) for id in "abc"}
    pool = ModelPoolSpec(id="p", members=members, routing=turns)
    agent = Agent("a", model="p", background=[slow])
    async with Runtime([agent], models={**models, "p": pool}) as runtime:
        said = [(await runtime.run("a", "go", thread=f"{n}")).response for n in range(4)]
    assert said == ["a", "b", "c", "a"]
