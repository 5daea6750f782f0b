"""Answers that start over, at any point and any number of times: the page ends with the last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from awaken.codec import Json
from awaken.core.event import (
    AgentEvent,
    InferenceComplete,
    ReasoningDelta,
    RunEvent,
    StepEnd,
    StepSnapshot,
    StepStart,
    StreamReset,
    TextDelta,
    ToolCallReady,
    ToolCallStart,
)
from awaken.server.protocols.ai_sdk.builder import MessageBuilder
from awaken.server.protocols.ai_sdk.encode import AiSdkEncoder

PIECES = st.lists(st.sampled_from(["a", "b", "ab"]), max_size=4)
ANSWERS = st.lists(
    st.tuples(st.sampled_from(["over", "taken over", "snapshot"]), PIECES, PIECES, st.booleans()),
    min_size=1,
    max_size=4,
)
"""How each answer begins, its reasoning, its text, and whether it makes a call."""


def told(event: AgentEvent, seq: int | None = None, *, ahead: bool = False) -> RunEvent:
    return RunEvent(thread_id="t", run_id="r", at_ms=0, seq=seq, ahead=ahead, event=event)


def step(answers: Sequence[tuple[str, list[str], list[str], bool]]) -> Iterator[RunEvent]:
    """One step, whose answer starts over until the last one is stored."""
    yield told(StepStart(message_id="m0"), 2, ahead=True)
    for number, (begin, thoughts, text, calls) in enumerate(answers):
        call = f"c{number}"
        if number and begin == "over":
            yield told(StreamReset(reason="again"))
        elif number and begin == "taken over":
            yield told(StreamReset(reason="taken over", from_seq=2))
            yield told(StepStart(message_id=f"m{number}"), 2, ahead=True)
        elif number:
            made = ((call, "look", "{}"),) if calls else ()
            yield told(StreamReset(reason="taken over", from_seq=2))
            yield told(
                StepSnapshot(
                    message_id=f"m{number}",
                    reasoning="".join(thoughts),
                    text="".join(text),
                    calls=made,
                )
            )
        if not number or begin != "snapshot":
            yield from (told(ReasoningDelta(delta=piece)) for piece in thoughts)
            yield from (told(TextDelta(delta=piece)) for piece in text)
            if calls:
                yield told(ToolCallStart(id=call, name="look"))
        is_last = number == len(answers) - 1
        if calls and (is_last or answers[number + 1][0] != "over"):
            # A model does not start over once its calls are ready; its process may die.
            yield told(ToolCallReady(id=call, name="look", arguments={}), 3, ahead=True)
    yield told(InferenceComplete(model="m", duration_ms=1), 4)
    yield told(StepEnd(), 5)


def shown(answers: Sequence[Any], version: int) -> tuple[list[Json], list[Json]]:
    """The parts that the page has, and the chunks it got."""
    encoder = AiSdkEncoder(thread_id="t", run_id="r", agent_id="a", version=version)
    page, chunks = MessageBuilder(), []
    for event in step(answers):
        for chunk in encoder.encode(event):
            chunks.append(chunk)
            page.apply(chunk)
    return page.parts, chunks


def joined(parts: Sequence[Any], kind: str) -> str:
    return "".join(part["text"] for part in parts if part["type"] == kind)


@given(ANSWERS)
def test_version_7_shows_the_last_answer_alone(answers: Any) -> None:
    parts, _ = shown(answers, 7)
    *_, (_, thoughts, text, calls) = answers
    assert joined(parts, "text") == "".join(text)
    assert joined(parts, "reasoning") == "".join(thoughts)
    made = [part["toolCallId"] for part in parts if part["type"] == "tool-look"]
    assert made == ([f"c{len(answers) - 1}"] if calls else [])
    assert all(part.get("state", "done") != "streaming" for part in parts)


@given(ANSWERS)
def test_version_6_shows_the_last_answer_behind_the_last_notice(answers: Any) -> None:
    parts, chunks = shown(answers, 6)
    *_, (_, _, text, calls) = answers
    # Text and reasoning are voided on their own; a notice of one repeats nothing of the other.
    whole = joined(parts, "text")
    assert whole.endswith("".join(text))
    if not any(chunk["type"] == "data-awaken-reset" for chunk in chunks):
        assert whole == "".join(text)
    states = {part["toolCallId"]: part["state"] for part in parts if part["type"] == "tool-look"}
    last = f"c{len(answers) - 1}"
    assert states.pop(last, None) == ("input-available" if calls else None)
    assert set(states.values()) <= {"output-error"}
    assert all(part.get("state", "done") != "streaming" for part in parts)
