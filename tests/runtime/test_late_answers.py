"""Questions with a time limit: to the millisecond, and each for itself."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from awaken import Agent, Runtime, tool
from awaken.codec import Json
from awaken.core.message import Role
from awaken.engine.suspension import EXPIRY_GRACE_MS, LOOK_AT_CLOCK_SECONDS
from awaken.testing import FakeClock, ScriptedModel, text_response, tool_calls_response

GRACE = EXPIRY_GRACE_MS / 1000
MS = 0.001


@tool(needs_approval=True, approval_expires_in=10)
async def soon() -> str:
    """Ask, for ten seconds."""
    return "done soon"


@tool(needs_approval=True, approval_expires_in=100)
async def later() -> str:
    """Ask, for a hundred seconds."""
    return "done later"


@tool(needs_approval=True)
async def whenever() -> str:
    """Ask, for ever."""
    return "done whenever"


def asking(*names: str) -> Agent:
    calls: list[tuple[str, str, Json]] = [(name, name, {}) for name in names]
    model = ScriptedModel([tool_calls_response("", *calls), text_response("over")])
    return Agent("asker", model=model, tools=[soon, later, whenever])


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def runtime(clock: FakeClock, request: pytest.FixtureRequest) -> AsyncIterator[Runtime]:
    async with Runtime([asking(*request.param)], clock=clock, recover=False) as runtime:
        yield runtime


async def results(runtime: Runtime) -> dict[str, str]:
    found = await runtime.messages("t")
    return {m.tool_call_id or "": m.text() for m in found if m.role is Role.TOOL}


async def answer(runtime: Runtime, name: str) -> None:
    (ticket,) = [t for t in await runtime.list_tickets() if t.tool_name == name]
    await runtime.run(thread="t", answers={ticket.key: True})


@pytest.mark.parametrize("runtime", [["soon"]], indirect=True)
async def test_a_run_is_taken_up_when_its_question_and_the_grace_are_over_and_not_before(
    runtime: Runtime, clock: FakeClock
) -> None:
    await runtime.run("asker", "go", thread="t")
    clock.advance(10 + GRACE)
    assert await runtime.recover() == []
    clock.advance(MS)
    (run,) = await runtime.recover()
    assert (await run).response == "over"
    assert "in time" in (await results(runtime))["soon"]


@pytest.mark.parametrize("runtime", [["soon", "whenever"]], indirect=True)
async def test_an_answer_to_another_question_does_not_end_one_whose_grace_lasts(
    runtime: Runtime, clock: FakeClock
) -> None:
    await runtime.run("asker", "go", thread="t")
    clock.advance(10 + GRACE - MS)
    await answer(runtime, "whenever")
    assert await results(runtime) == {"whenever": "done whenever"}


@pytest.mark.parametrize("runtime", [["soon", "whenever"]], indirect=True)
async def test_an_answer_to_another_question_finds_one_whose_grace_is_over_refused(
    runtime: Runtime, clock: FakeClock
) -> None:
    await runtime.run("asker", "go", thread="t")
    clock.advance(10 + GRACE)
    await answer(runtime, "whenever")
    told = await results(runtime)
    assert told["whenever"] == "done whenever"
    assert "in time" in told["soon"]


@pytest.mark.parametrize("runtime", [["later", "soon"]], indirect=True)
async def test_a_run_that_waits_sleeps_until_the_next_question_is_over_and_a_minute_at_most(
    runtime: Runtime, clock: FakeClock
) -> None:
    async with runtime.stream("asker", "go", thread="t", wait=True) as events:
        await clock.until_sleeping()
        clock.advance(10 + GRACE)
        await clock.until_sleeping()
        assert [t.tool_name for t in await runtime.list_tickets()] == ["later"]
        clock.advance(90)
        assert (await events.read_to_end()).response == "over"
    assert clock.sleeps == [10 + GRACE, LOOK_AT_CLOCK_SECONDS]
    assert all("in time" in text for text in (await results(runtime)).values())
