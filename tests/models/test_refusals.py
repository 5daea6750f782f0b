"""Small promises of pools, retries and counts, each of which somebody relies on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from awaken.codec import from_json
from awaken.core.answer_builder import StreamAccumulator
from awaken.core.answer_stream import StreamListener
from awaken.core.event import TextDelta
from awaken.core.inference import TokenUsage
from awaken.core.llm import (
    InferenceRequest,
    LlmStreamEvent,
    ModelAbilities,
    ProviderError,
    RoutingKey,
    Stop,
    Usage,
)
from awaken.core.spec import ModelPoolSpec
from awaken.models.circuit_breaker import CircuitBreaker, CircuitOpen
from awaken.models.pool import MAX_SESSIONS, PoolExecutor, PoolMember
from awaken.models.retry import LlmRetryPolicy, RetryingExecutor
from awaken.testing import FakeClock, FunctionModel

pytestmark = pytest.mark.anyio


# -- pools ------------------------------------------------------------------------------------


class Able(FunctionModel):
    """A model that writes so many tokens at most."""

    def __init__(self, most: int | None) -> None:
        super().__init__(lambda request: "hi")
        self._most = most

    def abilities(self, upstream_model: str) -> ModelAbilities:
        return ModelAbilities(max_output_tokens=self._most)


def pool_of(*models: FunctionModel) -> PoolExecutor:
    names = [chr(97 + place) for place in range(len(models))]
    rows = [{"model_id": name} for name in names]
    spec = from_json(
        {"id": "pool", "members": rows, "routing": {"home": "round_robin"}}, ModelPoolSpec
    )
    policy = LlmRetryPolicy(max_retries=0)
    members = [
        PoolMember(name, name, RetryingExecutor(model, policy), lambda: None)
        for name, model in zip(names, models, strict=True)
    ]
    return PoolExecutor(spec, members)


def test_a_pool_writes_as_much_as_the_least_of_its_members() -> None:
    assert pool_of(Able(9), Able(5), Able(7)).abilities("pool").max_output_tokens == 5
    assert pool_of(Able(9), Able(None)).abilities("pool").max_output_tokens is None


class Pair:
    """A pool of two models that say their names, once they are let go."""

    def __init__(self) -> None:
        self.go, self._news, self._asked = asyncio.Event(), asyncio.Event(), 0
        self.pool = pool_of(FunctionModel(self._says("a")), FunctionModel(self._says("b")))

    def _says(self, name: str):  # type: ignore[no-untyped-def]  # what FunctionModel takes
        async def speak(request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
            self._asked += 1
            self._news.set()
            await self.go.wait()
            yield TextDelta(delta=name)
            yield Stop()

        return speak

    async def until(self, asked: int) -> None:
        """Wait until so many questions have come."""
        while self._asked < asked:
            self._news.clear()
            await self._news.wait()

    async def ask(self, thread: str) -> str:
        key = RoutingKey(thread_id=thread)
        request = InferenceRequest(upstream_model="pool", messages=(), routing_key=key)
        listener = StreamListener()
        await self.pool.drive(request, listener)
        return listener.finish().text()


async def test_a_conversation_that_waits_for_its_answer_is_not_forgotten() -> None:
    """It is the oldest of more than are remembered; its next question goes to the same model."""
    pair = Pair()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(pair.ask("first"))
        await pair.until(1)
        others = [group.create_task(pair.ask(f"t{n}")) for n in range(MAX_SESSIONS)]
        await pair.until(MAX_SESSIONS + 1)
        pair.go.set()
    assert first.result() == "a"
    assert {other.result() for other in others} == {"a", "b"}
    assert [await pair.ask("first") for _ in range(3)] == ["a", "a", "a"]


async def test_a_new_conversation_is_remembered_though_all_others_wait() -> None:
    pair = Pair()
    async with asyncio.TaskGroup() as group:
        for n in range(MAX_SESSIONS):
            group.create_task(pair.ask(f"t{n}"))
        await pair.until(MAX_SESSIONS)
        newest = group.create_task(pair.ask("newest"))
        await pair.until(MAX_SESSIONS + 1)
        pair.go.set()
    home = newest.result()
    assert [await pair.ask("newest") for _ in range(3)] == [home] * 3


# -- circuits ---------------------------------------------------------------------------------


def failing() -> FunctionModel:
    async def fail(request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        raise ProviderError("down")
        yield Stop()

    return FunctionModel(fail)


async def ask_often(executor: RetryingExecutor, times: int) -> list[type[Exception]]:
    seen: list[type[Exception]] = []
    for _ in range(times):
        try:
            await executor.drive(
                InferenceRequest(upstream_model="m", messages=()), StreamListener()
            )
        except ProviderError as error:
            seen.append(type(error))
    return seen


async def test_without_a_circuit_breaker_a_model_is_asked_however_often_it_fails() -> None:
    model = failing()
    executor = RetryingExecutor(model, LlmRetryPolicy(max_retries=0), FakeClock(auto=True))
    assert await ask_often(executor, 50) == [ProviderError] * 50
    assert model.calls == 50


async def test_the_circuit_breaker_that_was_given_is_used() -> None:
    model, clock = failing(), FakeClock(auto=True)
    breaker = CircuitBreaker(threshold=2, clock=clock)
    executor = RetryingExecutor(model, LlmRetryPolicy(max_retries=0), clock, breaker)
    assert await ask_often(executor, 4) == [ProviderError] * 2 + [CircuitOpen] * 2
    assert model.calls == 2


# -- counts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TokenUsage.__struct_fields__)
def test_a_count_below_zero_adds_nothing(name: str) -> None:
    """Whichever it is: money would be paid back."""
    others = dict.fromkeys(TokenUsage.__struct_fields__, 7)
    for counts in ({name: -5}, others | {name: -5}):
        heard = StreamAccumulator()
        heard.push(Usage(usage=TokenUsage(**counts)))
        usage = heard.finish().usage
        assert usage == TokenUsage(**(counts | {name: 0}))
