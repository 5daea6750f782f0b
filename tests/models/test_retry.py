"""Opening streams again, and how long to wait before it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random

import msgspec
import pytest

from awaken.codec import from_json
from awaken.core.answer_stream import StreamListener
from awaken.core.event import TextDelta
from awaken.core.llm import (
    InferenceExecutionError,
    InferenceRequest,
    LlmStreamEvent,
    Overloaded,
    ProviderError,
    RateLimited,
    StreamInterrupted,
    Unauthorized,
)
from awaken.models.circuit_breaker import CircuitBreaker, CircuitOpen
from awaken.models.retry import LlmRetryPolicy, RetryingExecutor
from awaken.testing import FakeClock, FunctionModel, ScriptedModel

pytestmark = pytest.mark.anyio

REQUEST = InferenceRequest(upstream_model="m", messages=())


async def drain(executor: RetryingExecutor, listener: StreamListener | None = None) -> str:
    listener = listener or StreamListener(asyncio.current_task())
    await executor.drive(REQUEST, listener)
    return listener.snapshot().text


# -- the policy -------------------------------------------------------------------------------


def test_delays_double_up_to_eight_seconds() -> None:
    """02/E1"""
    policy = LlmRetryPolicy()
    delays = [policy.delay(attempt, ProviderError("x")) for attempt in range(6)]
    assert delays == [0.5, 1, 2, 4, 8, 8]
    assert policy.delay(10_000, ProviderError("x")) == 8


def test_an_overloaded_provider_is_given_more_time() -> None:
    """02/E1"""
    policy = LlmRetryPolicy()
    assert [policy.delay(attempt, Overloaded()) for attempt in range(3)] == [2, 4, 8]


def test_retry_after_wins_when_longer() -> None:
    """02/E1"""
    policy = LlmRetryPolicy()
    assert policy.delay(0, RateLimited("x", retry_after=5)) == 5
    assert policy.delay(4, RateLimited("x", retry_after=5)) == 8


def test_a_base_of_zero_waits_only_when_asked_to() -> None:
    policy = LlmRetryPolicy(backoff_base_ms=0, overloaded_backoff_base_ms=0)
    assert policy.delay(3, ProviderError()) == 0
    assert policy.delay(3, Overloaded(retry_after=1)) == 1


def test_jitter_shortens_a_backoff_by_chance_and_never_a_retry_after() -> None:
    policy = LlmRetryPolicy(jitter=0.5)
    delays = [policy.delay(1, ProviderError(), Random(seed)) for seed in range(50)]
    assert len(set(delays)) > 10
    assert all(0.5 <= delay <= 1 for delay in delays)
    assert policy.delay(1, RateLimited(retry_after=3), Random(1)) == 3


def test_a_section_with_an_unknown_or_negative_field_is_refused() -> None:
    assert from_json({"max_retries": 4}, LlmRetryPolicy).max_retries == 4
    with pytest.raises(msgspec.ValidationError, match="retries"):
        from_json({"retries": 4}, LlmRetryPolicy)
    with pytest.raises(msgspec.ValidationError, match="max_retries"):
        from_json({"max_retries": -1}, LlmRetryPolicy)


# -- the executor -----------------------------------------------------------------------------


async def test_n_retries_are_n_plus_one_calls() -> None:
    """02/E1"""
    clock = FakeClock(auto=True)
    model = ScriptedModel([ProviderError("1"), RateLimited("2"), Overloaded("3")])
    with pytest.raises(Overloaded, match="3"):
        await drain(RetryingExecutor(model, LlmRetryPolicy(), clock))
    assert model.calls == 3
    assert clock.sleeps == [0.5, 1]


async def test_a_stream_that_opens_on_the_second_try_is_whole() -> None:
    clock = FakeClock(auto=True)
    model = ScriptedModel([RateLimited("slow", retry_after=5), "hello"])
    assert await drain(RetryingExecutor(model, LlmRetryPolicy(), clock)) == "hello"
    assert clock.sleeps == [5]


async def test_a_permanent_error_is_one_call() -> None:
    """02/E1"""
    model = ScriptedModel([Unauthorized("no key"), "never"])
    with pytest.raises(Unauthorized):
        await drain(RetryingExecutor(model, LlmRetryPolicy(), FakeClock()))
    assert model.calls == 1


async def test_no_retries_is_one_call() -> None:
    model = ScriptedModel([ProviderError("x"), "never"])
    with pytest.raises(ProviderError):
        await drain(RetryingExecutor(model, LlmRetryPolicy(max_retries=0), FakeClock()))
    assert model.calls == 1


async def test_after_the_first_event_errors_pass_through_unchanged() -> None:
    broken = StreamInterrupted("connection reset")
    model = ScriptedModel([[TextDelta(delta="hal"), broken], "never"])
    listener = StreamListener()
    with pytest.raises(StreamInterrupted) as caught:
        await drain(RetryingExecutor(model, LlmRetryPolicy(), FakeClock()), listener)
    assert caught.value is broken
    assert listener.snapshot().text == "hal"
    assert model.calls == 1


async def test_cancelling_the_task_interrupts_the_wait() -> None:
    clock = FakeClock()
    model = ScriptedModel([ProviderError("x"), "never"])
    task = asyncio.create_task(drain(RetryingExecutor(model, LlmRetryPolicy(), clock)))
    await clock.until_sleeping()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert model.calls == 1
    assert clock.sleeping == 0


async def leave_early(executor: RetryingExecutor) -> None:
    """Stop listening once something has come."""
    begun = asyncio.Event()

    class Hearing(StreamListener):
        def push(self, event: LlmStreamEvent) -> None:
            begun.set()

    listening = asyncio.ensure_future(executor.drive(REQUEST, Hearing()))
    await begun.wait()
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening


async def test_leaving_a_stream_early_closes_the_one_inside() -> None:
    closed: list[bool] = []

    async def endless(request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        try:
            while True:
                yield TextDelta(delta="x")
                await asyncio.sleep(0)
        finally:
            closed.append(True)

    executor = RetryingExecutor(FunctionModel(endless), LlmRetryPolicy(), FakeClock())
    assert executor.name == "function"
    await leave_early(executor)
    assert closed == [True]


# -- with a breaker ---------------------------------------------------------------------------


async def test_an_open_breaker_means_no_call_and_no_wait() -> None:
    """02/E2"""
    clock = FakeClock(auto=True)
    breaker = CircuitBreaker(threshold=1, clock=clock)
    model = ScriptedModel([ProviderError("down"), "back"])
    executor = RetryingExecutor(model, LlmRetryPolicy(max_retries=0), clock, breaker)
    with pytest.raises(ProviderError, match="down"):
        await drain(executor)
    with pytest.raises(CircuitOpen, match="circuit breaker open for model m"):
        await drain(executor)
    assert (model.calls, clock.sleeps) == (1, [])
    clock.advance(30)
    assert await drain(executor) == "back"


async def test_the_failure_that_opens_the_breaker_is_the_one_reported() -> None:
    clock = FakeClock(auto=True)
    breaker = CircuitBreaker(threshold=2, clock=clock)
    model = ScriptedModel([ProviderError("first"), ProviderError("second"), "never"])
    with pytest.raises(ProviderError, match="second"):
        await drain(RetryingExecutor(model, LlmRetryPolicy(max_retries=5), clock, breaker))
    assert (model.calls, clock.sleeps) == (2, [0.5])


async def test_a_stream_is_judged_at_its_end() -> None:
    """02/8.25"""
    clock = FakeClock()
    breaker = CircuitBreaker(threshold=1, clock=clock)
    model = ScriptedModel([[TextDelta(delta="hal"), StreamInterrupted("goaway")]])
    with pytest.raises(InferenceExecutionError):
        await drain(RetryingExecutor(model, LlmRetryPolicy(), clock, breaker))
    assert not breaker.is_available("m")


async def test_an_abandoned_stream_is_no_failure() -> None:
    clock = FakeClock()
    breaker = CircuitBreaker(threshold=1, clock=clock)

    async def slow(request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        yield TextDelta(delta="hello")
        await asyncio.Event().wait()

    await leave_early(RetryingExecutor(FunctionModel(slow), LlmRetryPolicy(), clock, breaker))
    assert breaker.is_available("m")


async def test_models_of_one_name_at_two_providers_fail_alone() -> None:
    clock = FakeClock()
    breaker = CircuitBreaker(threshold=1, clock=clock)
    policy = LlmRetryPolicy(max_retries=0)
    broken = RetryingExecutor(
        ScriptedModel([ProviderError("x")]), policy, clock, breaker, scope="azure"
    )
    healthy = RetryingExecutor(ScriptedModel(["hello"]), policy, clock, breaker, scope="openai")

    with pytest.raises(ProviderError):
        await drain(broken)

    assert not breaker.is_available("azure/m")
    await drain(healthy)
