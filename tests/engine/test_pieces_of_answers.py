"""What a client can know of an answer that came in pieces, or held nothing of use."""

from __future__ import annotations

import pytest
from loop_stage import CheckedModel, Stage, assert_event_order

from awaken import Agent
from awaken.core.event import StepEnd, StepStart, TextDelta
from awaken.core.inference import StopReason, StreamResult
from awaken.core.message import Role
from awaken.testing import max_tokens_response

pytestmark = pytest.mark.anyio

GARBLED = StreamResult(stop_reason=StopReason.TOOL_USE, has_incomplete_tool_calls=True)
CUT_CALL = StreamResult(stop_reason=StopReason.MAX_TOKENS, has_incomplete_tool_calls=True)


async def test_each_piece_of_a_truncated_answer_has_its_announced_message_id() -> None:
    """What comes between two announcements is the text of the message that was announced."""
    model = CheckedModel(
        max_tokens_response("once upon "), max_tokens_response("a time "), "the end"
    )
    stage = Stage(Agent("a", model=model))

    await stage.run("a story")

    heard: dict[str, str] = {}
    for event in stage.events:
        if isinstance(event, StepStart):
            message_id = event.message_id
        elif isinstance(event, TextDelta):
            heard[message_id] = heard.get(message_id, "") + event.delta
    said = {m.id: m.text() for m in await stage.log() if m.role is Role.ASSISTANT}
    assert heard == said
    assert list(said.values()) == ["once upon ", "a time ", "the end"]
    assert len(stage.told(StepEnd)) == 1
    assert_event_order(stage.sink.events())


async def test_a_piece_without_a_word_takes_no_message_id() -> None:
    stage = Stage(Agent("a", model=CheckedModel(CUT_CALL, "shorter now")))

    await stage.run()

    (start,) = stage.told(StepStart)
    (answer,) = [m for m in await stage.log() if m.role is Role.ASSISTANT]
    assert (answer.id, answer.text()) == (start.message_id, "shorter now")


async def test_a_turn_with_only_malformed_calls_leaves_a_message_that_says_so() -> None:
    """Each turn has its answer in the log, under the id that was announced."""
    stage = Stage(Agent("a", model=CheckedModel(GARBLED, "got it")))

    result = await stage.run()

    assert result.response == "got it"
    said = [(m.id, m.text()) for m in await stage.log() if m.role is Role.ASSISTANT]
    note = "[This answer held nothing but tool calls that were not valid JSON]"
    first, second = stage.told(StepStart)
    assert said == [(first.message_id, note), (second.message_id, "got it")]


async def test_calls_that_stay_too_long_leave_a_message_that_says_so() -> None:
    """The model had its tries; the run does not end without a word."""
    stage = Stage(Agent("a", model=CheckedModel(CUT_CALL, CUT_CALL), max_continuation_retries=1))

    result = await stage.run()

    assert "were not valid JSON" in result.response
