"""Corners of what a long conversation is shown as: summaries nobody can use, results in part."""

from __future__ import annotations

import msgspec
import pytest
from compaction_kit import LONG, Chat, settle, shown

from awaken import Agent, Message, Runtime, tool
from awaken.core.event import TextDelta
from awaken.core.inference import ContextWindowPolicy
from awaken.core.llm import InferenceRequest, LlmStreamEvent, ProviderError
from awaken.core.message import Role
from awaken.core.window import DEFAULT_COUNTER
from awaken.ext.compaction.plan import plan, summary_text
from awaken.ext.compaction.plugin import COMPACTED, FAILED, SKIPPED
from awaken.testing import FakeClock, FunctionModel, ScriptedModel, tool_call_response
from awaken.testing.models import FunctionAnswer

pytestmark = pytest.mark.anyio


async def test_a_summary_of_what_is_out_of_sight_by_now_is_thrown_away() -> None:
    """02/7.3: the boundary is gone, so its place is cleared and nothing else happens."""
    chat = Chat()
    chat.summariser.free.clear()
    await chat.say_until_asked()
    flight = (await chat.state()).in_flight
    assert flight is not None
    other = Runtime([Agent("b", model=FunctionModel(lambda _: "heard"))], store=chat.store)
    await other.run("b", [Message.user(f"{n} {LONG}") for n in range(300)], thread="t")
    chat.summariser.free.set()
    await settle()
    chat.summariser.free.clear()
    before = await chat.log()

    await chat.say("and now?")

    state = await chat.state()
    assert (state.total_compactions, state.failures, state.skipped) == (0, (), ())
    assert state.in_flight is None or state.in_flight.task_id != flight.task_id
    assert [chat.told(kind) for kind in (COMPACTED, FAILED, SKIPPED)] == [[], [], []]
    assert (await chat.log())[: len(before)] == before
    assert not any("conversation-summary" in text for text in shown(chat.requests[-1]))
    assert shown(chat.requests[-1])[-1] == "and now?"


@pytest.mark.parametrize(
    "first",
    [[ProviderError("down")], [TextDelta(delta="They "), ProviderError("connection reset")]],
    ids=["not opened", "broken off"],
)
async def test_a_summary_is_asked_for_again_like_any_answer(
    first: list[LlmStreamEvent | Exception],
) -> None:
    """02/E1, E3: retries, and mending where its stream broke off."""
    said = "talked." if len(first) > 1 else "They talked."
    summariser, clock = ScriptedModel([first, said]), FakeClock(auto=True)
    chat = Chat()
    agent = Agent(
        "a",
        model=FunctionModel(lambda _: LONG),
        context_policy=chat.policy,
        sections={"compaction": {"summary_model": "summariser"}},
    )
    runtime = Runtime([agent], store=chat.store, models={"summariser": summariser}, clock=clock)
    async with runtime:
        for _ in range(8):
            await runtime.run("a", LONG, thread="t")
            await settle()
            if (await chat.state()).total_compactions:
                break

    log = await chat.log()
    summaries = [summary_text(m) for m in log if m.metadata and m.metadata.compaction]
    assert summaries == ["They talked."]
    assert (summariser.calls, clock.sleeps) == (2, [0.5])
    assert (await chat.state()).failures == ()


def test_a_boundary_has_to_have_an_id() -> None:
    """02/7.3: it is cut by id."""
    said = [Message.user(f"{n} {LONG}") for n in range(6)]
    found = plan(said, 2, DEFAULT_COUNTER)
    assert found is not None
    nameless = [
        msgspec.structs.replace(message, id=None)
        if message.id == found.boundary_message_id
        else message
        for message in said
    ]

    assert plan(nameless, 2, DEFAULT_COUNTER) is None


async def test_a_long_result_is_shown_in_part_and_kept_whole() -> None:
    """02/7.1: the log itself is untouched."""
    whole = "line\n" * 4000
    requests: list[InferenceRequest] = []

    def answer(request: InferenceRequest) -> FunctionAnswer:
        requests.append(request)
        if request.messages[-1].text() == "read":
            return tool_call_response("", "read", "c1", {})
        return "so"

    @tool(effect="read")
    async def read() -> str:
        """Read a lot."""
        return whole

    policy = ContextWindowPolicy.of(2_000, max_output_tokens=500, min_recent_messages=2)
    agent = Agent("a", model=FunctionModel(answer), tools=[read], context_policy=policy)
    runtime = Runtime([agent])
    for text in ("read", "and?", "well?"):
        await runtime.run("a", text, thread="t")

    log = [m.text() for m in await runtime.messages("t") if m.role is Role.TOOL]
    assert log == [whole]
    seen = [m.text() for r in requests for m in r.messages if m.role is Role.TOOL]
    assert len(seen) == 3
    assert all("[Content compacted:" in text and len(text) < 2000 for text in seen)
