"""What a delegate had done is told to the model whose call was superseded or cancelled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from delegation_kit import Place, T, World, children, only_child, record, to
from task_kit import Yard, agent_in_task, over, tasks_in, waiting
from task_kit import boss as background_boss

from awaken import Agent, ToolCallResume, tool
from awaken.core.lifecycle import CANCELLED, RunStatus
from awaken.core.llm import InferenceRequest
from awaken.core.message import Role
from awaken.core.thread_ids import agent_ids
from awaken.testing import FunctionModel, text_response, tool_call_response

pytestmark = pytest.mark.anyio


class Shop:
    """A boss who has a clerk sell orders, `between` leads further down: it makes the calls of one
    step after another, and asks before it ships."""

    def __init__(self, *steps: tuple[str, dict[str, Any]], between: int = 0) -> None:
        self.charged: list[int] = []
        self.shown: list[list[str]] = []

        @tool(effect="once")
        async def charge(order: int) -> str:
            """Charge."""
            self.charged.append(order)
            return f"charged {order}"

        @tool(effect="read")
        async def look(order: int) -> str:
            """Look at an order."""
            return "a lamp " * 20

        @tool(effect="once")
        async def fail(order: int) -> str:
            """Fail."""
            raise ValueError("no such card")

        @tool(needs_approval=True)
        async def ship(order: int) -> str:
            """Ship."""
            return "shipped"

        tools = [charge, look, fail, ship]
        model = FunctionModel(_one_by_one(*steps, SHIP))
        below = Agent("clerk", model=model, tools=tools, max_rounds=60)
        self.team = [below]
        for level in range(between):
            model = FunctionModel(_one_by_one(to(below.id)))
            below = Agent(f"lead{level}", model=model, delegates=[below])
            self.team.append(below)
        self._below = below.id
        self.team.append(Agent("boss", model=FunctionModel(self._boss), delegates=[below]))

    def _boss(self, request: InferenceRequest) -> Any:
        self.shown.append([f"{m.role.value}: {m.text()}" for m in request.messages])
        if any(message.role is Role.TOOL for message in request.messages):
            return text_response("It was done before.")
        name, arguments = to(self._below)
        return tool_call_response("", name, f"d{len(request.messages)}", arguments)


CHARGE: tuple[str, dict[str, Any]] = ("charge", {"order": 7})
SHIP: tuple[str, dict[str, Any]] = ("ship", {"order": 7})


def _one_by_one(*calls: tuple[str, dict[str, Any]]) -> Callable[[InferenceRequest], Any]:
    """A model that makes one call after another, and then says that it is done."""

    def answer(request: InferenceRequest) -> Any:
        done = sum(message.role is Role.TOOL for message in request.messages)
        if done == len(calls):
            return text_response("sold")
        name, arguments = calls[done]
        return tool_call_response("", name, f"c{done}", arguments)

    return answer


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


async def _results(runtime: Any, thread: str = T) -> list[str]:
    return [m.text() for m in await runtime.messages(thread) if m.role is Role.TOOL]


# -- superseded -------------------------------------------------------------------------------


@pytest.mark.parametrize("between", [0, 1, 2])
async def test_what_a_superseded_delegate_had_done_is_told(place: Place, between: int) -> None:
    """Nothing happens twice: the model that is asked again knows of the charge, at any depth."""
    shop = Shop(CHARGE, between=between)
    async with place.runtime(shop.team) as runtime:
        await runtime.run("boss", "Sell order 7", thread=T)

        result = await runtime.run("boss", "Did you do it?", thread=T)

    assert result.response == "It was done before."
    assert shop.charged == [7]
    assert shop.shown[-1] == [
        "user: Sell order 7",
        "assistant: ",
        "tool: superseded; before that it had done: charge(order=7) → charged 7",
        "user: Did you do it?",
    ]


async def test_a_delegate_that_had_done_nothing_leaves_no_trace(place: Place) -> None:
    """02/L13, 01/A-6: a superseded call with nothing finished beneath it is not shown."""
    shop = Shop()
    async with place.runtime(shop.team) as runtime:
        await runtime.run("boss", "Sell order 7", thread=T)

        await runtime.run("boss", "Did you do it?", thread=T)

    assert shop.shown[-1] == ["user: Sell order 7", "user: Did you do it?"]


async def test_each_deed_is_told_once_however_often_the_thread_goes_on(place: Place) -> None:
    """A delegate that was refused what it asked for, and asks on, has its deeds in one place."""
    shop = Shop(CHARGE, SHIP, ("charge", {"order": 8}))
    async with place.runtime(shop.team) as runtime:
        first = await runtime.run("boss", "Sell order 7", thread=T)
        no = {first.tickets[0].key or "": ToolCallResume.deny("later")}
        await runtime.run(thread=T, answers=no)
        for words in ("Did you do it?", "Really?", "And now?"):
            await runtime.run("boss", words, thread=T)

    (told,) = [line for line in shop.shown[-1] if line.startswith("tool: ")]
    assert told.count("charge(order=7) → charged 7") == 1
    assert told.count("charge(order=8) → charged 8") == 1
    assert shop.charged == [7, 8]


async def test_a_call_that_failed_beneath_is_told_as_failed(place: Place) -> None:
    shop = Shop(("fail", {"order": 7}))
    async with place.runtime(shop.team) as runtime:
        await runtime.run("boss", "Sell order 7", thread=T)
        await runtime.run("boss", "Did you do it?", thread=T)

    (told,) = [line for line in shop.shown[-1] if line.startswith("tool: ")]
    assert "fail(order=7) → failed: " in told
    assert "no such card" in told


async def test_what_is_told_of_many_calls_is_short_and_keeps_effects(place: Place) -> None:
    """The text is bounded; what only read something is left out first, and counted."""
    shop = Shop(*[("look", {"order": n}) for n in range(40)], CHARGE)
    async with place.runtime(shop.team) as runtime:
        await runtime.run("boss", "Sell order 7", thread=T)
        await runtime.run("boss", "Did you do it?", thread=T)

    (told,) = [line for line in shop.shown[-1] if line.startswith("tool: ")]
    assert "charge(order=7) → charged 7; and " in told
    assert told.endswith(" more calls")
    assert len(told) < 5000


# -- cancelled --------------------------------------------------------------------------------


async def test_what_the_delegate_of_a_cancelled_run_had_done_is_told(place: Place) -> None:
    """The run waits for an approval and is cancelled; the next one in its thread knows."""
    shop = Shop(CHARGE, between=1)
    async with place.runtime(shop.team) as runtime:
        await runtime.run("boss", "Sell order 7", thread=T)
        await runtime.cancel(T)

        await runtime.run("boss", "Did you do it?", thread=T)

    (told,) = [line for line in shop.shown[-1] if line.startswith("tool: ")]
    assert told == (
        "tool: Cancelled: the run ended before anybody decided; "
        "before that it had done: charge(order=7) → charged 7"
    )
    assert shop.charged == [7]


async def test_a_delegate_that_is_cancelled_at_work_tells_what_is_done_and_what_is_not_known(
    place: Place,
) -> None:
    """An open `once` call is told as unknown, one that ended with its result."""
    world = World()
    clerk = world.agent("clerk", [("note", {"what": "it"})], [("hold", {})])
    boss = world.agent("boss", [to("clerk")], delegates=["clerk"])
    async with place.runtime([boss, clerk]) as runtime:
        async with runtime.stream("boss", "go", thread=T, detached=True) as events:
            await world.entered.wait()
            await runtime.cancel(T)
            result = await events.read_to_end()
        (told,) = await _results(runtime)

    assert result.termination == CANCELLED
    assert told.endswith(
        '; before that it had done: note(what="it") → noted it; '
        "hold() → unknown whether it took effect"
    )


async def test_a_delegate_that_was_cancelled_alone_tells_what_it_had_done(place: Place) -> None:
    """Its parent lives on, and is told."""
    world = World()
    clerk = world.agent("clerk", [("note", {"what": "it"})], [("pay", {"n": 1})])
    boss = world.agent("boss", [to("clerk")], delegates=["clerk"])
    async with place.runtime([boss, clerk]) as runtime:
        await runtime.run("boss", "go", thread=T)
        await runtime.cancel(await only_child(runtime))
        run = await over(runtime)

    assert run.status is RunStatus.DONE
    assert run.final_output == (
        'boss[cancelled; before that it had done: note(what="it") → noted it]'
    )


# -- in the background ------------------------------------------------------------------------


async def test_a_cancelled_agent_in_the_background_tells_what_it_had_done(place: Place) -> None:
    """Its owner is told, and its task's record says so."""
    yard = Yard()
    helper = yard.agent("helper", [("note", {"what": "it"})], [("pay", {"n": 1})])
    async with place.runtime([background_boss(helper), helper]) as runtime:
        await runtime.run("boss", "go", thread=T)
        await waiting(runtime, await agent_in_task(runtime))
        (task,) = await tasks_in(runtime)
        await runtime.cancel(task.run_id)
        run = await over(runtime)
        kept = await record(runtime, task.run_id)

    done = 'before that it had done: note(what="it") → noted it'
    assert run.final_output == f"boss: bg_0 cancelled {done}"
    assert kept.termination_reason == CANCELLED
    assert kept.error_payload == {"message": done}


async def test_a_task_that_nobody_carries_on_tells_what_its_agent_had_done(place: Place) -> None:
    """It was left by a process that closed, and is cancelled by one without the agents."""
    yard = Yard()
    helper = yard.agent("helper", [("note", {"what": "it"})], [("pay", {"n": 1})])
    team = [background_boss(helper), helper]
    async with place.runtime(team, on_close="leave") as runtime:
        await runtime.run("boss", "go", thread=T)
        await waiting(runtime, await agent_in_task(runtime))
        (task,) = await tasks_in(runtime)
    async with place.runtime([Agent("other", model=FunctionModel(_one_by_one()))]) as runtime:
        await runtime.cancel(task.run_id)
        kept = await record(runtime, task.run_id)

    done = 'before that it had done: note(what="it") → noted it'
    assert kept.error_payload == {"message": done}


async def test_tasks_of_a_superseded_delegate_are_told_as_well(place: Place) -> None:
    """What it had others do in the background: what came of it, or that nobody knows."""
    yard = Yard()
    digger = yard.agent("digger", [("note", {"what": "hole"})], [("pay", {"n": 1})])
    clerk = Agent(
        "clerk",
        model=FunctionModel(
            _one_by_one(
                to("digger"), ("blast", {"n": 1}), ("note", {"what": "it"}), ("pay", {"n": 2})
            )
        ),
        tools=[yard.tool("note"), yard.tool("pay")],
        background=[digger, yard.tool("blast")],
    )
    seen: list[str] = []

    def model(request: InferenceRequest) -> Any:
        seen[:] = [m.text() for m in request.messages if m.role is Role.TOOL]
        return text_response("ok") if seen else tool_call_response("", *_call("d1", to("clerk")))

    boss = Agent("boss", model=FunctionModel(model), delegates=[clerk])
    async with place.runtime([boss, clerk, digger]) as runtime:
        await runtime.run("boss", "go", thread=T)
        await yard.until_begun()
        at_work, _ = await children(runtime, await only_child(runtime))
        await waiting(runtime, agent_ids(at_work.id)[-1])
        await runtime.run("boss", "Did you do it?", thread=T)
        yard.let_go(1)

    (told,) = seen
    assert told == (
        'superseded; before that it had done: note(what="hole") → noted hole; '
        'blast(n=1) → unknown whether it took effect; note(what="it") → noted it'
    )


def _call(id: str, call: tuple[str, Any]) -> tuple[str, str, Any]:
    return call[0], id, call[1]
