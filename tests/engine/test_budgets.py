"""What a run sets aside before it asks a model, and what it counts after (ADR 8)."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from awaken import Agent, CancellationToken, Message, Runtime
from awaken.backend.delegate_tool import DelegateTool
from awaken.core.account import Account
from awaken.core.budget import Amount, Budget, Price, Spending
from awaken.core.identity import RunIdentity
from awaken.core.inference import TokenUsage
from awaken.core.message import ToolCall
from awaken.core.spec import AgentSpec
from awaken.core.state.run_keys import SPENDING
from awaken.core.state.snapshot import Snapshot
from awaken.core.tool_context import ToolCallContext
from awaken.engine.reservation import LEAST_OUTPUT, MOST_OUTPUT, StepReservation, estimate
from awaken.errors import BudgetExhausted, Cancelled
from awaken.plugin.resolved_agent import ResolvedAgent
from awaken.testing import EchoTool, FakeClock, ScriptedModel, text_response

pytestmark = pytest.mark.anyio

CHEAP = Price(input=1_000, output=10_000)


def agent(prompt: str = "Be brief.", price: Price | None = None) -> ResolvedAgent:
    made = ResolvedAgent.new("a", "m", prompt, ScriptedModel([]))
    return msgspec.structs.replace(made, prices={"m": price} if price is not None else {})


def usage(prompt: int, output: int = 0) -> TokenUsage:
    return TokenUsage(prompt_tokens=prompt, completion_tokens=output)


async def reserve(reservation: StepReservation, *texts: str, asked: int | None = None) -> int:
    """Set aside what a question takes; how much of it is for the prompt."""
    await reservation.reserve(agent(), [Message.user(text) for text in texts], asked, None, None)
    return reservation.account.total_reserved.tokens - (
        reservation.max_output or asked or MOST_OUTPUT
    )


# -- before -----------------------------------------------------------------------------------


async def test_the_prompt_and_the_longest_answer_are_set_aside() -> None:
    account = Account(Budget(tokens=100_000))
    reservation = StepReservation(account, "r")

    prompt = await reserve(reservation, "word " * 300)

    assert reservation.max_output == MOST_OUTPUT
    assert 500 <= prompt <= 550
    assert account.total_reserved.steps == 1


async def test_without_a_limit_of_tokens_or_money_answers_may_be_as_long_as_they_like() -> None:
    account = Account(Budget(steps=1))
    reservation = StepReservation(account, "r")

    await reserve(reservation, "hi")

    assert reservation.max_output is None


async def test_an_answer_that_would_be_too_short_to_be_of_use_is_not_asked_for() -> None:
    for short, fits in ((LEAST_OUTPUT - 1, False), (LEAST_OUTPUT, True)):
        prompt = await reserve(StepReservation(Account(Budget()), "r"), "hi")
        account = Account(Budget(tokens=prompt + short))
        if fits:
            await reserve(StepReservation(account, "r"), "hi")
            assert account.remaining().tokens == 0
        else:
            with pytest.raises(BudgetExhausted):
                await reserve(StepReservation(account, "r"), "hi")
            assert account.total_reserved == Amount()


async def test_whoever_wants_only_a_few_words_gets_them() -> None:
    prompt = await reserve(StepReservation(Account(Budget()), "r"), "hi")
    account = Account(Budget(tokens=prompt + 5))
    reservation = StepReservation(account, "r")

    await reserve(reservation, "hi", asked=5)

    assert reservation.max_output == 5


async def test_money_limits_an_answer_by_what_it_buys() -> None:
    account = Account(Budget(money=2.0))
    reservation = StepReservation(account, "r")

    await reservation.reserve(agent(price=CHEAP), [Message.user("hi")], None, None, None)

    assert reservation.max_output is not None
    assert 190 <= reservation.max_output <= 200
    assert account.total_reserved.money <= 2.0


async def test_a_model_that_costs_nothing_is_not_limited_by_money() -> None:
    account = Account(Budget(money=0.5))
    reservation = StepReservation(account, "r")

    free = agent(price=Price(input=0, output=0))
    await reservation.reserve(free, [Message.user("hi")], None, None, None)

    assert reservation.max_output == MOST_OUTPUT


# -- estimates --------------------------------------------------------------------------------


async def test_an_estimate_that_was_too_low_is_raised_for_good() -> None:
    account = Account(Budget(tokens=1_000_000))
    reservation = StepReservation(account, "r")
    first = await reserve(reservation, "word " * 30)
    reservation.settle(None, usage(first * 4), 0)

    second = await reserve(reservation, "word " * 30)
    reservation.settle(None, usage(first), 0)
    third = await reserve(reservation, "word " * 30)

    assert second == pytest.approx(first * 4, rel=0.1)
    assert third == second, "one that was too high is kept: it only costs patience"


async def test_a_conversation_that_has_changed_is_estimated_anew() -> None:
    """Results that come late are put beside their calls, and others may have cut what was said."""
    reservation = StepReservation(Account(Budget(tokens=1_000_000)), "r")
    long, short = Message.user("word " * 300), Message.user("hi")
    speaker = agent()
    sizes = []
    for messages in ([long, short], [short, long, short], [short], []):
        await reservation.reserve(speaker, messages, None, None, None)
        sizes.append(reservation.account.total_reserved.tokens - MOST_OUTPUT)
        reservation.drop()

    assert sizes[1] == sizes[0] + estimate(short)
    assert sizes[2] == sizes[0] - estimate(long)
    assert sizes[3] == sizes[2] - estimate(short)


async def test_another_agent_has_another_prompt() -> None:
    reservation = StepReservation(Account(Budget(tokens=1_000_000)), "r")
    sizes = []
    for speaker in (agent(), agent("word " * 600), agent().with_tools({"echo": EchoTool()})):
        await reservation.reserve(speaker, [Message.user("hi")], None, None, None)
        sizes.append(reservation.account.total_reserved.tokens)
        reservation.drop()

    assert sizes[1] == pytest.approx(sizes[0] + 1_000, abs=10)
    assert sizes[0] < sizes[2] < sizes[1]


def test_everything_in_a_message_takes_something() -> None:
    call = ToolCall(id="c", name="search", arguments={"text": "word " * 60})
    plain, calling = Message.assistant("hi"), Message.assistant("hi")
    calling = msgspec.structs.replace(calling, tool_calls=(call,))

    assert estimate(calling) >= estimate(plain) + 100
    assert estimate(Message.user("ü" * 30)) > estimate(Message.user("u" * 30))


# -- after ------------------------------------------------------------------------------------


async def test_settling_twice_counts_once_and_dropping_after_it_changes_nothing() -> None:
    account = Account(Budget(tokens=10_000), clock=FakeClock())
    reservation = StepReservation(account, "r")
    await reserve(reservation, "hi")

    assert reservation.settle(None, usage(10, 5), 0) == Amount(tokens=15, steps=1)
    assert reservation.settle(None, usage(10, 5), 0) == Amount()
    reservation.drop()

    assert account.usage == Amount(tokens=15, steps=1)
    assert account.spending_of("r") == Spending(spent=account.usage)


async def test_what_came_to_nothing_is_free_again() -> None:
    account = Account(Budget(tokens=10_000))
    reservation = StepReservation(account, "r")
    await reserve(reservation, "hi")

    reservation.drop()

    assert (account.usage, account.total_reserved) == (Amount(), Amount())


# -- side by side -----------------------------------------------------------------------------


async def test_a_run_waits_while_what_others_hold_may_come_back() -> None:
    root = Account(Budget(tokens=2_000))
    first, second = StepReservation(root.child(), "a"), StepReservation(root.child(), "b")
    await reserve(first, "hi")
    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        waiting = group.create_task(reserve(second, "hi"))
        await asyncio.sleep(0)
        assert not waiting.done()
        first.settle(None, usage(100, 50), 0)

    assert second.max_output is not None
    assert second.max_output <= 1_850


async def test_a_run_that_waits_in_vain_is_told() -> None:
    root = Account(Budget(tokens=2_000))
    first, second = StepReservation(root.child(), "a"), StepReservation(root.child(), "b")
    await reserve(first, "hi")
    async with asyncio.timeout(100):
        waiting = asyncio.ensure_future(reserve(second, "hi"))
        await asyncio.sleep(0)
        first.settle(None, usage(1_000, 990), 0)
        with pytest.raises(BudgetExhausted, match="has 10 left"):
            await waiting


async def test_a_run_that_waits_can_be_cancelled() -> None:
    root, token = Account(Budget(tokens=2_000)), CancellationToken()
    await reserve(StepReservation(root.child(), "a"), "hi")
    reservation = StepReservation(root.child(), "b")
    async with asyncio.timeout(100):
        waiting = asyncio.ensure_future(
            reservation.reserve(agent(), [Message.user("hi")], None, token, None)
        )
        await asyncio.sleep(0)
        token.cancel()
        with pytest.raises(Cancelled):
            await waiting


async def test_whoever_waited_goes_before_whoever_has_just_had_its_turn() -> None:
    """Else the quickest would have it all, and the others would only ever wait."""
    root = Account(Budget(tokens=60_000))
    turns: list[str] = []

    async def work(name: str) -> None:
        reservation = StepReservation(root.child(), name)
        for _ in range(4):
            await reserve(reservation, "hi", asked=59_000)
            turns.append(name)
            await asyncio.sleep(0)
            reservation.settle(None, usage(100, 100), 0)

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(work(name))

    assert [sorted(turns[at : at + 3]) for at in range(0, 12, 3)] == [["a", "b", "c"]] * 4


# -- delegates nothing is kept of -------------------------------------------------------------


async def test_a_delegate_that_leaves_no_record_is_counted_as_its_parents() -> None:
    """03 §4.1: a tool outside a runtime; the account is its parent's all the same."""
    clock = FakeClock()

    model = ScriptedModel([text_response("42", usage(70, 7))])
    helper = Agent("helper", model=model, budget=Budget(steps=1))
    account = Account(Budget(tokens=5_000), clock=clock)
    account.begin()
    async with Runtime([helper]) as runtime:
        ctx = ToolCallContext(
            call_id="c",
            tool_name="agent_run_helper",
            run_identity=RunIdentity(thread_id="t", run_id="r", agent_id="boss"),
            agent_spec=AgentSpec(id="boss", model_id="m", system_prompt=""),
            snapshot=Snapshot(0, {}),
            budget=account,
        )
        delegate = DelegateTool(helper.spec, runtime.engine.registry.snapshot())
        clock.advance(2)
        output = await delegate.execute({"prompt": "hi"}, ctx)
        clock.advance(2)

    assert account.usage == Amount(tokens=77, steps=1, seconds=4), "its time goes on"
    assert account.spending_of("r").spent == Amount(tokens=77, steps=1)
    assert output.command is not None
    assert output.command.batch.ops == [(SPENDING, Spending(spent=Amount(tokens=77, steps=1)))]
