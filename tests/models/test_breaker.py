"""Leaving a failing model alone."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

import pytest

from awaken.core.llm import (
    InferenceCancelled,
    InferenceExecutionError,
    InvalidRequest,
    ProviderError,
)
from awaken.models.circuit_breaker import CircuitBreaker, CircuitOpen
from awaken.testing import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def breaker(clock: FakeClock) -> CircuitBreaker:
    return CircuitBreaker(clock=clock)


def end(breaker: CircuitBreaker, error: BaseException | None = None, model: str = "m") -> None:
    """One call that ends with `error`."""
    with nullcontext() if error is None else pytest.raises(type(error)), breaker.call(model):
        if error is not None:
            raise error


def fail(breaker: CircuitBreaker, times: int, model: str = "m") -> None:
    for _ in range(times):
        end(breaker, ProviderError("down"), model)


def test_it_opens_exactly_at_the_threshold(breaker: CircuitBreaker) -> None:
    """02/E2"""
    fail(breaker, 4)
    assert breaker.is_available("m")
    fail(breaker, 1)
    assert not breaker.is_available("m")
    with pytest.raises(CircuitOpen) as caught:
        breaker.call("m")
    assert str(caught.value) == (
        "provider error: circuit breaker open for model m: it is asked again in 30 s; it "
        "failed too often, the last time with: provider error: down"
    )
    assert isinstance(caught.value, ProviderError)
    assert not caught.value.retryable


def test_models_are_independent(breaker: CircuitBreaker) -> None:
    """02/E2"""
    fail(breaker, 5, "a")
    assert not breaker.is_available("a")
    assert breaker.is_available("b")
    end(breaker, model="b")


def test_looking_does_not_use_up_the_probe(breaker: CircuitBreaker, clock: FakeClock) -> None:
    """02/E2"""
    fail(breaker, 5)
    clock.advance(29.9)
    assert not breaker.is_available("m")
    clock.advance(0.1)
    assert all(breaker.is_available("m") for _ in range(3))
    breaker.call("m")
    assert not breaker.is_available("m")


def test_a_success_in_between_starts_the_count_again(breaker: CircuitBreaker) -> None:
    fail(breaker, 4)
    end(breaker)
    fail(breaker, 4)
    assert breaker.is_available("m")


def test_permanent_errors_do_not_count(breaker: CircuitBreaker) -> None:
    for _ in range(10):
        end(breaker, InvalidRequest("bad"))
    assert breaker.is_available("m")


def test_half_open_admits_one_probe(breaker: CircuitBreaker, clock: FakeClock) -> None:
    fail(breaker, 5)
    clock.advance(30)
    breaker.call("m")
    with pytest.raises(CircuitOpen):
        breaker.call("m")


def test_a_successful_probe_closes_and_the_count_is_fresh(
    breaker: CircuitBreaker, clock: FakeClock
) -> None:
    fail(breaker, 5)
    clock.advance(30)
    end(breaker)
    fail(breaker, 4)
    assert breaker.is_available("m")


def test_a_failed_probe_opens_for_a_whole_cooldown(
    breaker: CircuitBreaker, clock: FakeClock
) -> None:
    fail(breaker, 5)
    clock.advance(30)
    fail(breaker, 1)
    clock.advance(29)
    assert not breaker.is_available("m")
    clock.advance(1)
    assert breaker.is_available("m")


def test_a_probe_the_provider_answers_with_no_closes(
    breaker: CircuitBreaker, clock: FakeClock
) -> None:
    """02/8.25"""
    fail(breaker, 5)
    clock.advance(30)
    end(breaker, InvalidRequest("bad"))
    assert breaker.is_available("m")
    end(breaker)


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), GeneratorExit(), InferenceCancelled(), OSError("odd")]
)
def test_an_abandoned_probe_reopens_without_counting(
    breaker: CircuitBreaker, clock: FakeClock, error: BaseException
) -> None:
    """02/8.25"""
    fail(breaker, 5)
    clock.advance(30)
    end(breaker, error)
    assert not breaker.is_available("m")
    clock.advance(30)
    end(breaker)
    assert breaker.is_available("m")


def test_a_probe_nobody_hears_of_again_does_not_wedge_it(
    breaker: CircuitBreaker, clock: FakeClock
) -> None:
    """02/8.25"""
    fail(breaker, 5)
    clock.advance(30)
    lost = breaker.call("m")
    clock.advance(30)
    with breaker.call("m"), pytest.raises(ProviderError), lost:
        raise ProviderError("late news of the lost probe")
    assert breaker.is_available("m")


def test_a_call_from_before_the_opening_changes_nothing_after_it(
    breaker: CircuitBreaker, clock: FakeClock
) -> None:
    early = breaker.call("m")
    fail(breaker, 5)
    with early:
        pass
    assert not breaker.is_available("m")
    clock.advance(30)
    assert breaker.is_available("m")


def test_abandoned_calls_of_a_closed_circuit_do_not_count(breaker: CircuitBreaker) -> None:
    fail(breaker, 4)
    end(breaker, asyncio.CancelledError())
    assert breaker.is_available("m")
    fail(breaker, 1)
    assert not breaker.is_available("m")


def test_a_refusal_is_no_failure_of_a_breaker_around_it(clock: FakeClock) -> None:
    outer = CircuitBreaker(threshold=1, clock=clock)
    refusal: InferenceExecutionError = CircuitOpen("m", "down", 30)
    end(outer, refusal)
    assert outer.is_available("m")
