"""Budgets of single runs: each limit, what is counted, and what is refused (ADR 8)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from budget_kit import (
    Meter,
    T,
    calls,
    look,
    meter_of,
    on_record,
    says,
    stopped_by_budget,
    took,
    walker,
)
from front_kit import Piece

from answer_kit import by_id
from awaken import Agent, AgentSpec, Command, InferenceOverride, PhaseContext, Runtime, tool
from awaken.codec import loads, to_json
from awaken.core.budget import Amount, Budget, Price
from awaken.core.event import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.inference import StopReason
from awaken.core.lifecycle import CANCELLED, NATURAL_END, Blocked, Phase
from awaken.core.llm import InferenceRequest, LlmStreamEvent, Stop
from awaken.core.spec import ConsecutiveErrors
from awaken.core.state.step_keys import INFERENCE_OVERRIDE
from awaken.errors import AwakenError, ConfigError, InferenceFailed, ResolveFailed
from awaken.testing import FakeClock, FunctionModel, ScriptedModel, max_tokens_response

pytestmark = pytest.mark.anyio

CHEAP = Price(input=1_000, output=10_000)  # a thousandth and a hundredth a token


# -- each limit -------------------------------------------------------------------------------


async def test_a_run_ends_before_the_call_its_tokens_do_not_suffice_for() -> None:
    agent = walker(budget=Budget(tokens=1_000))

    async with Runtime([agent]) as runtime:
        result = await runtime.run("walker", "go", thread=T)
        kept = await on_record(runtime, result.run_id)

    asked = len(meter_of(agent).asked)
    assert asked > 3
    assert result.spent == kept == Amount(tokens=120 * asked, steps=asked, seconds=kept.seconds)
    why = re.fullmatch(
        r"the budget of 1000 tokens has (\d+) left, and the next call may take (\d+)",
        stopped_by_budget(result),
    )
    assert why is not None
    left, wanted = map(int, why.groups())
    assert left == 1_000 - kept.tokens
    assert left < wanted


async def test_no_answer_may_be_longer_than_what_is_left() -> None:
    """What is passed as `max_tokens` and the prompt together never exceed the rest."""
    agent = walker(budget=Budget(tokens=1_000), usage=took(100, 20))

    async with Runtime([agent]) as runtime:
        await runtime.run("walker", "go")

    allowed = meter_of(agent).allowed
    for asked, most in enumerate(allowed):
        assert most is not None
        assert 64 <= most <= 1_000 - 120 * asked
    assert allowed == sorted(allowed, key=lambda most: -(most or 0))


async def test_money_is_counted_by_the_price_of_the_model() -> None:
    agent = walker(budget=Budget(money=2.0), usage=took(100, 20))

    async with Runtime([agent], prices={"walker.model": CHEAP}) as runtime:
        result = await runtime.run("walker", "go", thread=T)

    assert "the budget of 2 money has" in stopped_by_budget(result)
    asked = len(meter_of(agent).asked)
    assert result.spent is not None
    assert result.spent.money == pytest.approx(0.3 * asked)
    assert 1 <= asked <= 6
    for most in meter_of(agent).allowed:
        assert most is not None
        assert most <= 200, "which 2.0 buys at most"


async def test_steps_are_questions_put_to_the_model() -> None:
    agent = walker(budget=Budget(steps=3))

    async with Runtime([agent]) as runtime:
        result = await runtime.run("walker", "go")

    assert stopped_by_budget(result) == (
        "the budget of 3 steps has 0 left, and the next call may take 1"
    )
    assert len(meter_of(agent).asked) == result.steps == 3
    assert meter_of(agent).allowed == [None] * 3, "nothing was said of tokens"


async def test_seconds_are_those_the_run_is_carried_on() -> None:
    clock = FakeClock()

    @tool
    async def dawdle() -> None:
        """Take four seconds."""
        clock.advance(4)

    model = Meter(ever=calls("dawdle", {}))
    agent = Agent("slow", model=model, tools=[dawdle], budget=Budget(seconds=10))

    async with Runtime([agent], clock=clock) as runtime:
        result = await runtime.run("slow", "go", thread=T)
        kept = await on_record(runtime, result.run_id)

    assert stopped_by_budget(result) == "the budget of 10 seconds has 0 left"
    assert len(model.asked) == 3
    assert result.spent is not None
    assert result.spent.seconds == kept.seconds == 12


async def test_whichever_limit_is_reached_first_ends_the_run() -> None:
    agent = walker(budget=Budget(tokens=100_000, money=1_000.0, steps=2, seconds=1e6))

    async with Runtime([agent], prices={"walker.model": CHEAP}) as runtime:
        first = await runtime.run("walker", "go")
        second = await runtime.run("walker", "go", budget=Budget(steps=50, tokens=500))

    assert "steps" in stopped_by_budget(first)
    assert "tokens" in stopped_by_budget(second), "a budget of the run goes before its agent's"


async def test_every_run_has_a_budget_of_its_own() -> None:
    """A thread is not a run tree: what one run has used up, the next one may again."""
    agent = walker(budget=Budget(steps=2))

    async with Runtime([agent]) as runtime:
        for _ in range(2):
            result = await runtime.run("walker", "go", thread=T)
            assert result.steps == 2


async def test_a_budget_without_limits_counts_and_a_run_without_one_does_not() -> None:
    counted = Agent("counted", model=Meter(says("hi", took(7, 3))), budget=Budget())
    free = Agent("free", model=Meter(says("hi", took(7, 3))))

    async with Runtime([counted, free]) as runtime:
        first = await runtime.run("counted", "go")
        second = await runtime.run("free", "go")

    assert first.termination == NATURAL_END
    assert first.spent is not None
    assert (first.spent.tokens, first.spent.steps, first.spent.money) == (10, 1, 0)
    assert second.spent is None
    assert meter_of(counted).allowed == [None]


async def test_time_after_the_last_question_counts_too() -> None:
    """A call that took long before the run paused is on record when it is taken up again."""
    clock = FakeClock()

    @tool
    async def dig() -> None:
        """Take a minute."""
        clock.advance(60)

    @tool(needs_approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    model = Meter(calls("dig", {}), calls("pay", {}), ever=calls("dig", {}))
    agent = Agent("miner", model=model, tools=[dig, pay], budget=Budget(seconds=100))

    async with Runtime([agent], clock=clock) as runtime:
        result = await runtime.run("miner", "go", thread=T)
        assert result.suspended
        assert (await on_record(runtime, result.run_id)).seconds == 60
        clock.advance(3_600)
        result = await runtime.run(thread=T, answers=await by_id(runtime, {"c": True}))

    assert "seconds" in stopped_by_budget(result)
    assert result.spent is not None
    assert result.spent.seconds == 120, "an hour of waiting is not among them"


# -- how long an answer may be ----------------------------------------------------------------


async def test_a_shorter_answer_may_be_asked_for_and_a_longer_one_may_not() -> None:
    short, long = InferenceOverride(max_tokens=70), InferenceOverride(max_tokens=50_000)
    agent = walker(says("a", took(10)), says("b", took(10)), budget=Budget(tokens=5_000))

    async with Runtime([agent]) as runtime:
        await runtime.run("walker", "go", settings=short)
        await runtime.run("walker", "go", settings=long)

    first, second = meter_of(agent).allowed
    assert first == 70
    assert second is not None
    assert second < 5_000


async def test_a_hook_cannot_ask_for_more_than_was_set_aside() -> None:
    async def ask_for_much(_: PhaseContext) -> Command:
        return Command().update(INFERENCE_OVERRIDE, InferenceOverride(max_tokens=90_000))

    plugin = Piece("greedy", lambda r: r.hook(Phase.BEFORE_INFERENCE, ask_for_much))
    agent = walker(says("a", took(10)), budget=Budget(tokens=1_000), plugins=[plugin])

    async with Runtime([agent]) as runtime:
        await runtime.run("walker", "go")

    (allowed,) = meter_of(agent).allowed
    assert allowed is not None
    assert allowed < 1_000


async def test_going_on_with_a_cut_answer_is_a_call_of_its_own_and_no_step() -> None:
    """The second piece is reserved as well, with the first in its prompt and less to say."""
    cut = max_tokens_response("word " * 300)
    model = Meter(cut, says("the end", took(900, 50)))
    agent = Agent("writer", model=model, budget=Budget(tokens=2_000))

    async with Runtime([agent]) as runtime:
        result = await runtime.run("writer", "go")

    assert result.response == "the end"
    first, second = model.allowed
    assert first is not None
    assert second is not None
    heard = 300 * 5 // 3
    assert second < first - 2 * heard, "the piece was said, and is heard again"
    assert result.spent is not None
    assert result.spent.steps == result.steps == 1


async def test_an_answer_stays_cut_if_the_rest_cannot_be_paid() -> None:
    model = Meter(max_tokens_response("word " * 300))
    agent = Agent("writer", model=model, budget=Budget(tokens=1_100))

    async with Runtime([agent]) as runtime:
        result = await runtime.run("writer", "go", thread=T)
        log = await runtime.messages(T)

    assert result.termination == NATURAL_END
    assert result.response == "word " * 300
    assert len(log) == 2, "nobody was told to go on"


# -- what is counted --------------------------------------------------------------------------


@pytest.mark.parametrize("usage", [None, took(None, None), took(0, 0), took(-50, -50)])
async def test_what_nobody_reports_is_estimated(usage: Any) -> None:
    """No prompt takes nothing: a provider that says so does not know, and gives nothing back."""
    agent = Agent("a", model=Meter(says("word " * 100, usage)), budget=Budget(tokens=5_000))

    async with Runtime([agent]) as runtime:
        result = await runtime.run("a", "word " * 200)

    assert result.spent is not None
    assert 400 <= result.spent.tokens <= 700, "some three letters a token, rather more than less"


async def test_a_provider_that_reports_half_is_believed_half() -> None:
    agent = Agent("a", model=Meter(says("word " * 60, took(30, None))), budget=Budget())

    async with Runtime([agent]) as runtime:
        result = await runtime.run("a", "go")

    assert result.spent is not None
    assert 130 <= result.spent.tokens <= 160


async def test_more_than_was_set_aside_counts_in_full_and_makes_the_next_estimate_higher() -> None:
    agent = walker(budget=Budget(tokens=4_000), usage=took(1_500, 10))

    async with Runtime([agent]) as runtime:
        result = await runtime.run("walker", "go")

    stopped_by_budget(result)
    assert result.spent is not None
    assert result.spent.tokens == 3_020, "the third prompt would have been too long"


async def test_an_inference_that_failed_costs_nothing() -> None:
    model = Meter(RuntimeError("away"), RuntimeError("away"), says("here", took(10, 5)))
    agent = Agent(
        "a",
        model=model,
        budget=Budget(tokens=2_000, steps=1),
        stop=[ConsecutiveErrors(max=5)],
        sections={"retry": {"max_retries": 0}},
    )

    async with Runtime([agent]) as runtime:
        result = await runtime.run("a", "go")

    assert result.response == "here"
    assert result.spent is not None
    assert (result.spent.tokens, result.spent.steps) == (15, 1)


async def test_an_answer_that_broke_off_counts_as_far_as_it_was_heard() -> None:
    model = ScriptedModel([[TextDelta(delta="word " * 100), ConnectionError("cut")]])
    agent = Agent("a", model=model, budget=Budget(tokens=3_000))

    async with Runtime([agent]) as runtime:
        with pytest.raises(InferenceFailed):
            await runtime.run("a", "go", thread=T)
        (run,) = await runtime.list_runs()
        kept = await on_record(runtime, run.run_id)

    assert 150 <= kept.tokens <= 250
    assert kept.steps == 1


@pytest.mark.parametrize("kind", ["a call", "a thought"])
async def test_whatever_was_heard_of_an_answer_that_broke_off_counts(kind: str) -> None:
    said = "word " * 100
    heard: list[LlmStreamEvent] = [ReasoningDelta(delta=said)]
    if kind == "a call":
        heard = [
            ToolCallStart(id="c", name="write"),
            ToolCallDelta(id="c", args_delta='{"text": "'),
            ToolCallDelta(id="c", args_delta=said),
        ]
    model = ScriptedModel([[*heard, ValueError("broken")]])
    agent = Agent("a", model=model, budget=Budget(tokens=3_000))

    async with Runtime([agent]) as runtime:
        with pytest.raises(InferenceFailed):
            await runtime.run("a", "go", thread=T)
        (run,) = await runtime.list_runs()
        kept = await on_record(runtime, run.run_id)

    assert 150 <= kept.tokens <= 250
    assert kept.steps == 1


async def test_a_cancelled_answer_counts_as_far_as_it_was_heard() -> None:
    speaking = asyncio.Event()

    async def speak(_: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        yield TextDelta(delta="word " * 100)
        speaking.set()
        await asyncio.Event().wait()
        yield Stop(reason=StopReason.END_TURN)

    agent = Agent("a", model=FunctionModel(speak), budget=Budget(tokens=3_000))

    async with Runtime([agent]) as runtime, asyncio.timeout(100), asyncio.TaskGroup() as group:
        task = group.create_task(runtime.run("a", "go", thread=T))
        await speaking.wait()
        assert await runtime.cancel(T)
        result = await task

    assert result.termination == CANCELLED
    assert result.spent is not None
    assert 150 <= result.spent.tokens <= 250


# -- other models -----------------------------------------------------------------------------


async def test_money_needs_a_price_before_anything_runs() -> None:
    agent = Agent("a", model=Meter(), budget=Budget(money=1.0))

    with pytest.raises(AwakenError, match=r"'a\.model'.*price"):
        Runtime([agent])


async def test_money_of_a_single_run_needs_a_price_too() -> None:
    model = Meter()

    async with Runtime([Agent("a", model=model)]) as runtime:
        with pytest.raises(ResolveFailed, match=r"'a\.model'.*price"):
            await runtime.run("a", "go", budget=Budget(money=1.0))

    assert model.asked == []


async def test_a_run_that_counts_money_is_not_handed_to_a_model_without_a_price() -> None:
    """Whoever takes over would spend for nothing."""
    first = Agent(
        "first",
        model=Meter(calls("handoff", {"agent": "second"}, took(10, 10))),
        handoffs=["second"],
        budget=Budget(money=10.0),
    )
    second = Agent("second", model=Meter())

    async with Runtime([first, second], prices={"first.model": CHEAP}) as runtime:
        result = await runtime.run("first", "go")

    assert isinstance(result.termination, Blocked)
    assert "'second.model'" in result.termination.value
    assert meter_of(second).asked == []


async def test_a_run_that_is_handed_over_pays_the_price_of_who_speaks() -> None:
    prices = {"first.model": Price(input=0, output=0), "second.model": CHEAP}
    first = Agent(
        "first",
        model=Meter(calls("handoff", {"agent": "second"}, took(10, 10))),
        handoffs=["second"],
        budget=Budget(money=10.0),
    )
    second = Agent("second", model=Meter(says("hi", took(100, 10))))

    async with Runtime([first, second], prices=prices) as runtime:
        result = await runtime.run("first", "go")

    assert result.response == "hi"
    assert result.spent is not None
    assert result.spent.money == pytest.approx(0.2)


# -- what is refused --------------------------------------------------------------------------

BAD: list[Any] = [
    Budget(tokens=0),
    Budget(steps=-3),
    Budget(money=float("nan")),
    Budget(seconds=float("inf")),
    Budget(share=2),
    Budget(at_limit="maybe"),  # type: ignore[arg-type]
    {"tokens": 5},
    5,
]


@pytest.mark.parametrize("budget", BAD, ids=repr)
async def test_a_budget_that_cannot_be_kept_is_refused_by_name(budget: Any) -> None:
    with pytest.raises(ConfigError, match=r"^agent 'spender': .*budget"):
        Agent("spender", model="demo", budget=budget)

    async with Runtime([walker()]) as runtime:
        with pytest.raises(ConfigError, match=r"^a run: .*budget"):
            await runtime.run("walker", "go", budget=budget)
        with pytest.raises(ConfigError, match=r"^a run: .*budget"):
            runtime.stream(None, "go", budget=budget)


@pytest.mark.parametrize("price", [-1.0, float("nan"), float("inf")])
def test_a_price_that_is_none_is_refused(price: float) -> None:
    with pytest.raises(ValueError, match="a price is 0 or more"):
        Price(input=price, output=1)
    with pytest.raises(ValueError, match="a price is 0 or more"):
        Price(input=1, output=price)


def test_prices_are_prices() -> None:
    wrong: Any = {"demo": 3}

    with pytest.raises(ConfigError, match="the price of model 'demo' is a Price"):
        Runtime([walker()], prices=wrong)


def test_an_agent_as_data_has_its_budget_in_it() -> None:
    text = b"""{"id": "a", "model_id": "m", "system_prompt": "",
                "budget": {"tokens": 500, "money": 0.5, "at_limit": "ask", "share": 0.5}}"""

    spec = AgentSpec.read(loads(text))

    assert spec.budget == Budget(tokens=500, money=0.5, at_limit="ask", share=0.5)
    assert AgentSpec.read(to_json(spec)) == spec


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        ({"tokens": 0}, "agent 'a': a budget's tokens is above 0"),
        ({"share": 3}, "agent 'a': a budget's share is above 0 and at most 1"),
        ({"at_limit": "maybe"}, "Invalid enum value 'maybe'"),
        ({"tokens": "many"}, "Expected `int | null`"),
        ({"euros": 3}, "euros"),
    ],
)
def test_a_bad_budget_in_data_is_refused(budget: dict[str, Any], why: str) -> None:
    data = {"id": "a", "model_id": "m", "system_prompt": "", "budget": budget}

    with pytest.raises(ValueError, match=r"budget|tokens|euros|share") as error:
        AgentSpec.read(data)
    assert why in str(error.value)


async def test_an_agent_as_data_keeps_its_budget() -> None:
    spec = AgentSpec(id="a", model_id="m", system_prompt="", max_rounds=0, budget=Budget(steps=2))
    model = Meter(ever=calls("look", {}))

    async with Runtime([spec], models={"m": model}, tools=[look]) as runtime:
        result = await runtime.run("a", "go")

    assert "steps" in stopped_by_budget(result)
    assert len(model.asked) == 2
