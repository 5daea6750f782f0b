"""Tools and checks that ask the model to try again, and functions as output (09 §2.4, §2.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from awaken import Agent, PhaseContext, Retry, Runtime, tool
from awaken.core.inference import StreamResult
from awaken.core.llm import InferenceRequest
from awaken.errors import AgentLoopError, ConfigError
from awaken.stores import CallPhase
from awaken.testing import (
    FunctionModel,
    ScriptedModel,
    text_response,
    tool_call_response,
    tool_calls_response,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "sqlite"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory:" if request.param == "memory" else f"sqlite:///{tmp_path / 'a.db'}"


def calls(name: str, *arguments: Any) -> list[Any]:
    return [tool_call_response("", name, f"c{i}", args) for i, args in enumerate(arguments)]


def booking(**options: Any) -> Any:
    @tool(**options)
    async def book(day: str) -> str:
        """Book."""
        if "-" not in day:
            raise Retry("use the ISO format")
        return f"booked {day}"

    return book


async def results(runtime: Runtime, thread: str) -> list[str]:
    return [m.text() for m in await runtime.messages(thread) if m.tool_call_id]


async def test_a_tool_asks_the_model_to_try_again_a_few_times(address: str) -> None:
    """09/FD-13: invalid arguments and `Retry` are counted together, and for each tool by itself."""
    given = ({"day": "Monday"}, {"days": 1}, {"day": "Tuesday"}, {"day": "2026-01-01"})
    model = ScriptedModel([*calls("book", *given), *calls("other", {"day": "x"}), "done"])
    other = tool(booking().__wrapped__, name="other")
    async with Runtime(
        [Agent("a", model=model, tools=[booking(), other])], store=address
    ) as runtime:
        result = await runtime.run("a", "go", thread="t")
        told = await results(runtime, "t")
        entries = (await runtime.store.load_context("t")).calls  # type: ignore[union-attr]

    assert result.ok
    assert told[0] == "Try again: use the ISO format"
    assert told[1].startswith("Invalid arguments: ")
    assert "go on without" not in told[1]
    without = "(that was try 3 that did not work: go on without this tool)"
    assert told[2] == f"Try again: use the ISO format {without}"
    assert told[3] == "booked 2026-01-01"
    assert told[4] == "Try again: use the ISO format"
    assert all(entry.phase is not CallPhase.INTENT for entry in entries)


async def test_a_call_of_a_once_tool_that_asks_for_another_try_has_failed(address: str) -> None:
    """09/FD-14: the ledger has it as failed, not as unknown, and the next try is a new call."""
    script = iter([*calls("book", {"day": "Monday"}, {"day": "2026-01-01"}), text_response("done")])
    ledger: list[dict[str, CallPhase]] = []

    async def respond(_: InferenceRequest) -> StreamResult:
        context = await runtime.store.load_context("t")
        ledger.append({entry.call_id: entry.phase for entry in context.calls} if context else {})
        answer: StreamResult = next(script)
        return answer

    agent = Agent("a", model=FunctionModel(respond), tools=[booking(effect="once")])
    async with Runtime([agent], store=address) as runtime:
        await runtime.run("a", "go", thread="t")
    assert ledger[1:] == [{"c0": CallPhase.FAILED}, {"c1": CallPhase.SUCCEEDED}]


async def test_a_tool_may_stop_the_run_when_its_tries_are_used_up(address: str) -> None:
    model = ScriptedModel([*calls("book", *[{"day": "Monday"}] * 3), "done"])
    book = booking(retries=1, on_exhausted="stop")
    async with Runtime([Agent("a", model=model, tools=[book])], store=address) as runtime:
        result = await runtime.run("a", "go", thread="t")

    assert (result.ok, result.steps) == (False, 2)
    assert "tool_retries (tool 'book': use the ISO format)" in (result.reason or "")


async def test_an_error_that_is_returned_and_not_raised_is_named() -> None:
    @tool
    async def book(day: str) -> Any:
        """Book."""
        return Retry("use the ISO format")

    agent = Agent("a", model=ScriptedModel([*calls("book", {"day": "1"}), "no"]), tools=[book])
    async with Runtime([agent]) as runtime:
        await runtime.run("a", "go", thread="t")
        (told,) = await results(runtime, "t")

    assert "returned Retry('Try again: use the ISO format'): raise it instead" in told


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"retries": -1}, "retries is a whole number from 0 on"),
        ({"on_exhausted": "end"}, "on_exhausted is 'tell' or 'stop'"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        booking(**options)


# -- output checks ----------------------------------------------------------------------------


@dataclass
class Order:
    item: str
    count: int


async def check(ctx: PhaseContext, order: Order) -> Order:
    if order.count < 1:
        raise Retry("order at least one")
    return Order(order.item.upper(), order.count)


ORDERS: Sequence[str] = ('{"item": "lamp", "count": 0}', '{"item": "lamp", "count": 2}')


async def test_what_the_check_makes_of_an_answer_is_the_output_also_later(address: str) -> None:
    """09/FD-15"""
    agent = Agent("a", model=ScriptedModel(ORDERS), output=Order, output_check=check)
    async with Runtime([agent], store=address) as runtime:
        result = await runtime.run("a", "go", thread="t")
        said = [message.text() for message in await runtime.messages("t")]
        assert (await runtime.wait("t")).output == Order("LAMP", 2)
    if address != "memory:":
        async with Runtime([agent], store=address) as runtime:
            assert (await runtime.wait("t")).output == Order("LAMP", 2)

    assert result.output == Order("LAMP", 2)
    assert said[1:] == [
        ORDERS[0],
        "Your answer does not fit: order at least one. Give the whole answer again, corrected.",
        ORDERS[1],
    ]


async def test_a_check_of_text_and_one_that_keeps_refusing() -> None:
    def shout(ctx: PhaseContext, text: str) -> str:
        return text.upper()

    def never(ctx: PhaseContext, order: Order) -> Order:
        raise Retry("no")

    def broken(ctx: PhaseContext, text: str) -> str:
        raise ValueError("oh")

    text = await Agent("a", model=ScriptedModel(["hi"]), output_check=shout).run("go")
    assert text.unwrap() == "HI"
    model = ScriptedModel([ORDERS[0]] * 3)
    refused = await Agent("a", model=model, output=Order, output_check=never).run("go")
    assert "output_invalid (no)" in (refused.reason or "")
    with pytest.raises(AgentLoopError, match="output_check of agent 'a' raised ValueError: oh"):
        await Agent("a", model=ScriptedModel(["hi"]), output_check=broken).run("go")
    with pytest.raises(ConfigError, match="is a function of the run's context, the value"):
        Agent("a", model="demo", output_check=lambda value: value)  # type: ignore[arg-type,misc]


# -- functions as output ----------------------------------------------------------------------


def shop(done: list[str]) -> list[Callable[..., Any]]:
    async def ship(item: str) -> Order:
        """Ship it."""
        done.append(item)
        return Order(item, 1)

    def refuse(why: str) -> str:
        """Refuse it."""
        if not why:
            raise Retry("say why")
        return why

    return [ship, refuse]


async def test_the_last_act_is_a_call_and_its_return_value_is_the_output(address: str) -> None:
    done: list[str] = []
    both = tool_calls_response("", ("ship", "c", {"item": "lamp"}), ("refuse", "d", {"why": "no"}))
    agent = Agent("a", model=ScriptedModel(["Shipping.", both]), output=shop(done))
    async with Runtime([agent], store=address) as runtime:
        result = await runtime.run("a", "go", thread="t")
        told = await results(runtime, "t")
        assert (await runtime.wait("t")).output == Order("lamp", 1)

    assert (result.output, result.steps, done) == (Order("lamp", 1), 2, ["lamp"])
    assert told[1] == "Denied: the run has its output already"


async def test_a_function_may_ask_for_another_try() -> None:
    model = ScriptedModel(calls("refuse", {"why": ""}, {"why": "too late"}))
    result = await Agent("a", model=model, output=shop([])).run("go")

    assert result.unwrap() == "too late"
