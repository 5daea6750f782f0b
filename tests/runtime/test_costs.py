"""What runs cost: in the result, the record, the events and the budget."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from awaken import Agent, Budget, Price, Runtime
from awaken.core.event import InferenceComplete, TextDelta
from awaken.core.inference import StopReason, TokenUsage
from awaken.core.llm import RateLimited, Stop, Usage
from awaken.testing import ScriptedModel, max_tokens_response, text_response, tool_call_response

pytestmark = pytest.mark.anyio

END = Stop(reason=StopReason.END_TURN)
PRICE = Price(input=2.0, output=10.0, cache_read=0.5, cache_write=4.0)


def used(**tokens: int) -> TokenUsage:
    return TokenUsage(**tokens)


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (used(prompt_tokens=1_000_000, completion_tokens=100_000), 3.0),
        (used(prompt_tokens=1_000_000, cache_read_tokens=1_000_000), 0.5),
        (used(prompt_tokens=1_000_000, cache_creation_tokens=500_000), 3.0),
        (used(), 0.0),
    ],
)
def test_cached_tokens_have_prices_of_their_own(usage: TokenUsage, cost: float) -> None:
    assert PRICE.of_usage(usage) == pytest.approx(cost)
    plain = Price(input=2.0, output=10.0)
    assert plain.of_usage(used(prompt_tokens=500_000, cache_read_tokens=500_000)) == 1.0


def test_a_price_below_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="0 or more"):
        Price(input=1, output=1, cache_read=-1)


async def test_a_run_says_what_it_took_and_cost_in_every_place() -> None:
    usage = used(
        prompt_tokens=1_000,
        completion_tokens=100,
        cache_read_tokens=800,
        cache_creation_tokens=100,
        thinking_tokens=40,
    )
    model = ScriptedModel([text_response("hi", usage)] * 2)
    agent = Agent("a", model=model)
    async with Runtime([agent], prices={"a.model": PRICE}) as runtime:
        async with runtime.stream("a", "go", thread="t", budget=Budget(money=1)) as events:
            told = [e.event for e in [e async for e in events]]
        result = events.result
        record = await runtime.find_run(result.run_id)
        again = await runtime.wait("t")
    cost = PRICE.of_usage(usage)
    assert result.cost == pytest.approx(cost)
    assert result.usage.cache_read_tokens == 800
    assert result.usage.thinking_tokens == 40
    assert result.spent is not None
    assert result.spent.money == pytest.approx(cost)
    assert record is not None
    assert record.cost == result.cost
    assert again.cost == result.cost
    assert again.usage == result.usage
    (answered,) = [event for event in told if isinstance(event, InferenceComplete)]
    assert answered.cost == result.cost


async def test_steps_add_up_and_each_says_its_own() -> None:
    usage = used(prompt_tokens=100, completion_tokens=10)
    script = [tool_call_response("", "nothing", "1", {}), text_response("hi", usage)]
    script[0] = script[0].__class__(
        tool_calls=script[0].tool_calls, usage=usage, stop_reason=script[0].stop_reason
    )
    agent = Agent("a", model=ScriptedModel(script))
    async with Runtime([agent], prices={"a.model": PRICE}) as runtime:
        result = await runtime.run("a", "go", thread="t")
        events = [e.event for e in await runtime.store.load_events(result.thread_id)]
    costs = [e.cost for e in events if isinstance(e, InferenceComplete)]
    assert costs == [pytest.approx(PRICE.of_usage(usage))] * 2
    assert result.cost == pytest.approx(2 * PRICE.of_usage(usage))


async def test_an_answer_that_came_in_pieces_costs_what_all_of_them_cost() -> None:
    usage = used(prompt_tokens=100, completion_tokens=10)
    cut = replace(max_tokens_response("once upon "), usage=usage)
    agent = Agent("a", model=ScriptedModel([cut, cut, text_response("a time", usage)]))
    async with Runtime([agent], prices={"a.model": PRICE}) as runtime:
        result = await runtime.run("a", "go", thread="t")
        events = [e.event for e in await runtime.store.load_events(result.thread_id)]
    (answered,) = [event for event in events if isinstance(event, InferenceComplete)]
    assert answered.usage is not None
    assert answered.usage.prompt_tokens == 300
    assert answered.cost == pytest.approx(3 * PRICE.of_usage(usage))
    assert result.cost == pytest.approx(answered.cost)


async def test_without_a_price_there_is_no_cost() -> None:
    model = ScriptedModel([text_response("hi", used(prompt_tokens=5, completion_tokens=5))])
    async with Runtime([Agent("a", model=model)]) as runtime:
        assert (await runtime.run("a", "go")).cost is None


async def test_of_several_models_the_one_that_answered_is_paid_and_named() -> None:
    usage = used(prompt_tokens=1_000_000, completion_tokens=0)
    cheap = ScriptedModel([text_response("hi", usage)])
    models = {"dear": ScriptedModel([RateLimited("full")]), "cheap": cheap}
    prices = {"dear": Price(input=100, output=100), "cheap": Price(input=1, output=1)}
    agent = Agent("a", model=["dear", "cheap"])
    async with Runtime([agent], models=models, prices=prices) as runtime:
        async with runtime.stream("a", "go", budget=Budget(money=1000)) as events:
            told = [e.event for e in [e async for e in events]]
        result = events.result
    assert result.cost == pytest.approx(1.0)
    assert result.spent is not None
    assert result.spent.money == pytest.approx(1.0)
    assert [e.model for e in told if isinstance(e, InferenceComplete)] == ["cheap"]


async def test_streams_that_broke_are_paid_as_well() -> None:
    usage = Usage(usage=used(prompt_tokens=1_000_000, completion_tokens=0))
    model = ScriptedModel(
        [[usage, TextDelta(delta="a"), RateLimited("cut")], [usage, TextDelta(delta="b"), END]]
    )
    agent = Agent("a", model=model, sections={"retry": {"backoff_base_ms": 0}})
    async with Runtime([agent], prices={"a.model": Price(input=1, output=1)}) as runtime:
        result = await runtime.run("a", "go")
    assert result.response == "ab"
    assert result.cost == pytest.approx(2.0)
