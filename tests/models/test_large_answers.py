"""An answer has an end: one that does not come to it is refused, whatever it consists of."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from awaken import Agent, Runtime
from awaken.core.answer_builder import StreamAccumulator
from awaken.core.event import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.llm import (
    AnswerTooLarge,
    InferenceRequest,
    LlmStreamEvent,
    ReasoningDone,
    Stop,
    StreamInterrupted,
    ToolCallSigned,
)
from awaken.core.spec import ModelPoolSpec, PoolMemberSpec
from awaken.errors import InferenceFailed, ValidationFailed
from awaken.testing import FunctionModel, ScriptedModel

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
BIG = "x" * MIB


def said(count: int) -> Iterator[LlmStreamEvent]:
    for _ in range(count):
        yield TextDelta(delta=BIG)


def thought(count: int) -> Iterator[LlmStreamEvent]:
    for _ in range(count):
        yield ReasoningDelta(delta=BIG)


def called(count: int) -> Iterator[LlmStreamEvent]:
    yield ToolCallStart(id="a", name="tool")
    for _ in range(count):
        yield ToolCallDelta(id="a", args_delta=BIG)


def named(count: int) -> Iterator[LlmStreamEvent]:
    for number in range(count):
        yield ToolCallStart(id=str(number), name=BIG)


def signed(count: int) -> Iterator[LlmStreamEvent]:
    yield ToolCallStart(id="a", name="tool")
    for _ in range(count):
        yield ToolCallSigned(id="a", signature=BIG)


def sealed(count: int) -> Iterator[LlmStreamEvent]:
    for _ in range(count):
        yield ReasoningDone(origin="lab", encrypted=BIG)


KINDS = pytest.mark.parametrize("flood", [said, thought, called, named, signed, sealed])
Flood = Callable[[int], Iterator[LlmStreamEvent]]


class Hose:
    """A model that says so much, and notes how far it got and that it was closed."""

    def __init__(self, flood: Iterator[LlmStreamEvent]) -> None:
        self.flood, self.closed = flood, False
        self.model = FunctionModel(self._speak)

    async def _speak(self, _: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        try:
            for event in self.flood:
                yield event
            yield Stop()
        finally:
            self.closed = True


async def failure(agent: Agent, **options: object) -> AnswerTooLarge:
    async with Runtime([agent], **options) as runtime:  # type: ignore[arg-type]
        with pytest.raises(InferenceFailed) as raised:
            await runtime.run("talker", "Go on!", thread="t")
        page = await runtime.messages("t")
    assert [message.text() for message in page] == ["Go on!"], "what is too large is not kept"
    cause = raised.value.__cause__
    assert isinstance(cause, AnswerTooLarge)
    return cause


@KINDS
async def test_an_answer_of_more_than_sixteen_mebibytes_is_refused(flood: Flood) -> None:
    hose = Hose(flood(20))
    error = await failure(Agent("talker", model=hose.model))
    assert (error.limit, error.retryable) == (16 * MIB, False)
    assert str(error) == (
        "answer too large: the answer has more than 16777216 bytes: raise max_answer_bytes in the "
        "agent's section retry to allow such answers"
    )
    assert hose.closed
    assert hose.model.calls == 1, "asking again would bring the same"


@KINDS
async def test_an_agent_says_how_large_its_answers_may_be(flood: Flood) -> None:
    retry = {"max_answer_bytes": 3 * MIB}
    error = await failure(Agent("talker", model=Hose(flood(3)).model, sections={"retry": retry}))
    assert error.limit == 3 * MIB


async def test_an_answer_below_its_limit_is_heard_out() -> None:
    retry = {"max_answer_bytes": 32 * MIB}
    agent = Agent("talker", model=Hose(said(20)).model, sections={"retry": retry})
    async with Runtime([agent]) as runtime:
        assert len((await runtime.run("talker", "Go on!")).response) == 20 * MIB


async def test_a_limit_of_nothing_is_refused() -> None:
    model, retry = ScriptedModel(["hi"]), {"max_answer_bytes": 0}
    with pytest.raises(ValidationFailed, match="max_answer_bytes"):
        Runtime([Agent("talker", model=model, sections={"retry": retry})])


async def test_clients_do_not_see_the_piece_that_is_too_much() -> None:
    agent = Agent("talker", model=Hose(said(20)).model)
    async with Runtime([agent]) as runtime, runtime.stream("talker", "Go on!") as events:
        seen: list[object] = []

        async def watch() -> None:
            async for event in events:
                seen.append(type(event.event))

        with pytest.raises(InferenceFailed):
            await watch()
    assert seen.count(TextDelta) == 15, (
        "sixteen, with what it takes to hold them, are more than 16 MiB"
    )


async def test_no_other_model_of_a_pool_is_asked_for_an_answer_that_was_too_large() -> None:
    other = ScriptedModel(["fine"])
    pool = ModelPoolSpec(
        id="both", members=(PoolMemberSpec(model_id="hose"), PoolMemberSpec(model_id="other"))
    )
    models = {"hose": Hose(said(20)).model, "other": other, "both": pool}
    await failure(Agent("talker", model="both"), models=models)
    assert other.requests == []


# -- what an answer takes besides its text ----------------------------------------------------


def push_often(heard: StreamAccumulator, event: LlmStreamEvent) -> None:
    for _ in range(100_000):
        heard.push(event)


@pytest.mark.parametrize(
    "event",
    [
        TextDelta(delta=""),
        ReasoningDelta(delta=""),
        ReasoningDone(origin="lab"),
        ToolCallStart(id="a", name="a"),
        ToolCallDelta(id="", args_delta=""),
    ],
    ids=lambda event: type(event).__name__,
)
async def test_a_stream_of_empty_pieces_comes_to_an_end(event: LlmStreamEvent) -> None:
    """Each takes memory, though nothing is written in it."""
    heard = StreamAccumulator()
    heard.limit_to(100_000)
    with pytest.raises(AnswerTooLarge):
        push_often(heard, event)


async def test_letters_count_as_the_bytes_they_are_written_in() -> None:
    plain, wide = StreamAccumulator(), StreamAccumulator()
    plain.limit_to(4_000)
    wide.limit_to(4_000)
    plain.push(TextDelta(delta="e" * 2_000))
    with pytest.raises(AnswerTooLarge):
        wide.push(TextDelta(delta="é" * 2_000))
    assert wide.finish().content == ()
    with pytest.raises(AnswerTooLarge):
        wide.push(TextDelta(delta="\ud800" * 2_000))  # half a letter, as a cut-up stream has it


async def test_the_calls_of_one_answer_may_all_have_one_id() -> None:
    """Thousands of them, and each gets a name of its own before the hour is over."""
    heard = StreamAccumulator()
    for _ in range(2_000):
        heard.push(ToolCallStart(id="0", name="tool"))
    assert len({call.id for call in heard.finish().tool_calls}) == 2_000


async def test_an_answer_that_is_mended_counts_as_one() -> None:
    streams = iter([4, 4, 4])

    async def speak(request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        for _ in range(next(streams)):
            yield TextDelta(delta=BIG)
        raise StreamInterrupted("connection reset")

    retry = {"max_answer_bytes": 10 * MIB, "backoff_base_ms": 0}
    await failure(Agent("talker", model=FunctionModel(speak), sections={"retry": retry}))
    assert list(streams) == []


async def test_an_answer_that_begins_anew_has_all_the_room_again() -> None:
    streams = iter([thought(2), said(2)])

    async def speak(_: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        for event in next(streams):
            yield event
        if model.calls == 1:
            raise StreamInterrupted("connection reset")
        yield Stop()

    model = FunctionModel(speak)
    retry = {"max_answer_bytes": 3 * MIB, "backoff_base_ms": 0}
    agent = Agent("talker", model=model, sections={"retry": retry})
    async with Runtime([agent]) as runtime:
        assert len((await runtime.run("talker", "Go on!")).response) == 2 * MIB
