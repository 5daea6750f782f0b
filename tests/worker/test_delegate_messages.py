"""Delegates elsewhere that wait for a message: the answer at the root becomes one (03/DB-6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from delegation_kit import (
    Place,
    T,
    World,
    answer_of,
    ended,
    only_child,
    open_runs,
    open_tickets,
    record,
    to,
)
from far_agents import QUESTIONS, FarFactory, far_agent

from awaken import RunResult, Runtime, ToolCallResume
from awaken.core.lifecycle import CANCELLED, RunStatus
from awaken.core.run import RunWaitingTicket, WaitingReason
from awaken.core.suspension import ToolCallResumeMode
from awaken.errors import InvalidResume
from awaken.testing import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path)


class Far:
    """A boss whose helper is elsewhere."""

    def __init__(self, place: Place) -> None:
        self.heard: list[str] = []
        boss = World().agent("boss", [to("far", "plan a trip")], delegates=["far"])
        self._agents: list[Any] = [boss, far_agent()]
        self._place = place

    def runtime(self, **options: Any) -> Runtime:
        backends = [FarFactory(self.heard.append)]
        return self._place.runtime(self._agents, backends=backends, **options)


async def asked(runtime: Runtime) -> RunResult:
    result = await runtime.run("boss", "go", thread=T)
    assert result.suspended
    return result


async def test_what_a_delegate_elsewhere_asks_is_asked_at_the_root(place: Place) -> None:
    """03 §4.1: `agent_delegate:input_required`, with its words; there is no ticket beneath."""
    far = Far(place)
    async with far.runtime() as runtime:
        await asked(runtime)
        child = await only_child(runtime)
        (ticket,) = await open_tickets(runtime)
        assert await open_tickets(runtime, child) == []
        waiting = (await record(runtime, child)).waiting
    assert (ticket.reason, ticket.message) == ("agent_delegate:input_required", QUESTIONS[0])
    assert ticket.asker is not None
    assert (ticket.asker.run_id, ticket.asker.agent_id) == (child, "far")
    assert ticket.asker.ticket is None
    assert ticket.asker.resume_mode is ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT
    assert waiting is not None
    assert waiting.reason is WaitingReason.USER_INPUT


async def test_answers_are_messages_one_after_another(place: Place) -> None:
    """03/DB-6: in one conversation with the other side; each is heard once, however quick."""
    far = Far(place)
    said = iter(["Rome", "Monday"])

    def answer(_: RunWaitingTicket) -> ToolCallResume:
        return ToolCallResume.approve(next(said))

    async with far.runtime(clock=FakeClock()) as runtime:
        result = await runtime.run("boss", "go", thread=T, on_approval=answer)
        assert await open_runs(runtime) == []
    assert result.response == "boss[far[Rome, Monday]]"
    assert far.heard == ["plan a trip", "Rome", "Monday"]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (ToolCallResume.deny("nowhere"), "No: nowhere"),
        (ToolCallResume.deny(), "No."),
        (ToolCallResume.approve(), "Yes."),
        (ToolCallResume.approve({"city": "Rome"}), '{"city":"Rome"}'),
    ],
)
async def test_any_answer_is_put_into_words(answer: ToolCallResume, text: str) -> None:
    """03/DB-6: a no is for the other side to hear, too."""
    far = Far(Place("memory", Path()))
    async with far.runtime() as runtime:
        result = await asked(runtime)
        again = await runtime.run(thread=T, answers={result.tickets[0]: answer})
        assert again.suspended
    assert far.heard == ["plan a trip", text]


async def test_an_answer_is_not_good_for_the_next_question(place: Place) -> None:
    """Design §4: the call and its words are the same, the question is not."""
    far = Far(place)
    async with far.runtime() as runtime:
        (first,) = (await asked(runtime)).tickets
        rome = {first.tool_call_id: ToolCallResume.approve("Rome", digest=first.digest)}
        again = await runtime.run(thread=T, answers=rome)
        assert again.suspended

        with pytest.raises(InvalidResume):
            await runtime.run(thread=T, answers=rome)
    assert far.heard == ["plan a trip", "Rome"]


async def test_a_question_from_elsewhere_outlives_the_runtime(place: Place) -> None:
    """03/DB-6: asked, closed, opened, answered."""
    far = Far(place)
    async with far.runtime() as runtime:
        await asked(runtime)
    async with far.runtime() as runtime:
        for said in ("Rome", "Monday"):
            (ticket,) = await open_tickets(runtime)
            await runtime.run(thread=T, answers={ticket.key: ToolCallResume.approve(said)})
        assert await answer_of(runtime) == "boss[far[Rome, Monday]]"
    assert far.heard == ["plan a trip", "Rome", "Monday"]


async def test_cancelling_ends_a_delegate_that_waits_elsewhere(place: Place) -> None:
    """01/D-11: by the root, or by its own id, after which the root goes on."""
    for by_child in (False, True):
        far = Far(place)
        async with far.runtime() as runtime:
            thread = f"{T}-{by_child}"
            result = await runtime.run("boss", "go", thread=thread)
            child = await only_child(runtime, thread)

            assert await runtime.cancel(child if by_child else thread)

            assert (await ended(runtime, child)).termination_reason == CANCELLED
            root = await ended(runtime, result.run_id)
            assert root.status is RunStatus.DONE
            assert await answer_of(runtime, thread) == ("boss[cancelled]" if by_child else "")
            assert await open_runs(runtime) == []


async def test_a_new_message_to_the_root_ends_a_delegate_that_waits_elsewhere(
    place: Place,
) -> None:
    """02/L13 through delegates: nobody will answer it."""
    far = Far(place)
    async with far.runtime() as runtime:
        await asked(runtime)
        first = await only_child(runtime)

        await runtime.run("boss", "something else", thread=T)

        assert (await ended(runtime, first)).termination_reason == CANCELLED


async def test_a_question_from_elsewhere_comes_up_two_levels(place: Place) -> None:
    """03/DB-6: what is wanted at the root is words, and they go all the way down."""
    heard: list[str] = []
    world = World()
    agents: list[Any] = [
        world.agent("boss", [to("middle")], delegates=["middle"]),
        world.agent("middle", [to("far", "plan a trip")], delegates=["far"]),
        far_agent(),
    ]
    async with place.runtime(agents, backends=[FarFactory(heard.append)]) as runtime:
        (shown,) = (await asked(runtime)).tickets
        assert shown.asker is not None
        assert shown.asker.agent_id == "far"
        assert shown.asker.resume_mode is ToolCallResumeMode.USE_DECISION_AS_TOOL_RESULT
        for said in ("Rome", "Monday"):
            (ticket,) = await open_tickets(runtime)
            await runtime.run(thread=T, answers={ticket.key: ToolCallResume.approve(said)})
        assert await answer_of(runtime) == "boss[middle[far[Rome, Monday]]]"
    assert heard == ["plan a trip", "Rome", "Monday"]
