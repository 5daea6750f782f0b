"""What is asked of a model and what it answers (01 §1.8)."""

from __future__ import annotations

import msgspec
import pytest

from awaken.codec import dumps, from_json, loads, to_json
from awaken.core.inference import (
    CompactionMode,
    ContextWindowPolicy,
    InferenceOverride,
    ReasoningBudget,
    ReasoningEffort,
    StopReason,
    StreamResult,
    TokenUsage,
)
from awaken.core.message import Image, Text, ToolCall, UrlSource
from awaken.core.store.commands import Submission

CALL = ToolCall(id="c1", name="search", arguments={})
TEXT = Text(text="half a sen")


def test_empty_usage_writes_an_empty_object() -> None:
    """01/C-13: `TokenUsage()` is `{}`."""
    assert dumps(TokenUsage()) == b"{}"


def test_usage_writes_what_it_knows_zero_included() -> None:
    """01/C-13: a zero is knowledge, none is not."""
    usage = TokenUsage(prompt_tokens=0, thinking_tokens=7)

    assert to_json(usage) == {"prompt_tokens": 0, "thinking_tokens": 7}
    assert loads(dumps(usage), TokenUsage) == usage


def test_merging_overrides_keeps_the_old_where_the_new_is_silent() -> None:
    """01/C-14: the last value that is not null wins, field by field."""
    old = InferenceOverride(upstream_model="a", temperature=0.5, max_tokens=100)
    new = InferenceOverride(upstream_model="b", reasoning_effort="high")

    assert old.merge(new) == InferenceOverride(
        upstream_model="b", temperature=0.5, max_tokens=100, reasoning_effort="high"
    )
    assert old.merge(InferenceOverride()) == old


def test_merging_takes_a_zero_for_a_value() -> None:
    """01/C-14: only null is silent."""
    merged = InferenceOverride(temperature=0.5).merge(InferenceOverride(temperature=0.0))

    assert merged.temperature == 0.0


@pytest.mark.parametrize("key", ["model", "fallback_models", "temprature"])
def test_unknown_override_keys_are_refused(key: str) -> None:
    """01/C-14: unknown keys are rejected, so is the old `model`."""
    with pytest.raises(msgspec.ValidationError, match=key):
        from_json({key: "x"}, InferenceOverride)


def test_overrides_are_written_as_null_when_absent() -> None:
    """01/C-14: every field is written."""
    assert to_json(InferenceOverride(top_p=0.9)) == {
        "upstream_model": None,
        "temperature": None,
        "max_tokens": None,
        "top_p": 0.9,
        "reasoning_effort": None,
    }


def test_an_override_knows_whether_it_says_anything() -> None:
    assert InferenceOverride().is_empty()
    assert not InferenceOverride(temperature=0.0).is_empty()


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (StreamResult(content=(TEXT,), stop_reason=StopReason.END_TURN), False),
        (StreamResult(tool_calls=(CALL,), stop_reason=StopReason.MAX_TOKENS), False),
        (
            StreamResult(content=(TEXT,), tool_calls=(CALL,), stop_reason=StopReason.MAX_TOKENS),
            False,
        ),
        (StreamResult(stop_reason=StopReason.MAX_TOKENS), False),
        (StreamResult(content=(Text(text=""),), stop_reason=StopReason.MAX_TOKENS), False),
        (
            StreamResult(
                content=(Image(source=UrlSource(url="https://x.org/a.png")),),
                stop_reason=StopReason.MAX_TOKENS,
            ),
            False,
        ),
        (StreamResult(content=(TEXT,), stop_reason=StopReason.MAX_TOKENS), True),
        (StreamResult(stop_reason=StopReason.MAX_TOKENS, has_incomplete_tool_calls=True), True),
        (
            StreamResult(
                tool_calls=(CALL,),
                stop_reason=StopReason.MAX_TOKENS,
                has_incomplete_tool_calls=True,
            ),
            True,
        ),
        (StreamResult(stop_reason=StopReason.END_TURN, has_incomplete_tool_calls=True), False),
        (StreamResult(content=(TEXT,)), False),
    ],
)
def test_truncated_answers_are_recovered(result: StreamResult, expected: bool) -> None:
    """01/C-15: end of turn no; max tokens with complete calls or with nothing no; with text yes;
    with incomplete calls yes."""
    assert result.needs_truncation_recovery is expected


def test_an_answer_with_calls_needs_tools() -> None:
    assert StreamResult(tool_calls=(CALL,)).needs_tools
    assert not StreamResult(content=(TEXT,)).needs_tools


def test_an_answers_text_joins_its_text_blocks() -> None:
    picture = Image(source=UrlSource(url="https://x.org/a.png"))

    assert StreamResult(content=(Text(text="a"), picture, Text(text="b"))).text() == "ab"


@pytest.mark.parametrize("effort", ["none", "low", "medium", "high", "max", {"budget": 4096}])
def test_reasoning_effort_round_trips(effort: object) -> None:
    read = from_json(effort, ReasoningEffort)

    assert to_json(read) == effort
    assert read == (ReasoningBudget(budget=4096) if isinstance(effort, dict) else effort)


def test_a_context_policy_needs_its_first_four_fields() -> None:
    four = {
        "max_context_tokens": 4096,
        "max_output_tokens": 512,
        "min_recent_messages": 4,
        "enable_prompt_cache": False,
    }

    assert to_json(from_json(four, ContextWindowPolicy)) == four | {
        "compaction_mode": "keep_recent_raw_suffix",
        "compaction_raw_suffix_messages": 2,
    }
    for missing in four:
        with pytest.raises(msgspec.ValidationError, match=missing):
            from_json({k: v for k, v in four.items() if k != missing}, ContextWindowPolicy)


def test_the_default_context_policy() -> None:
    assert ContextWindowPolicy.default() == ContextWindowPolicy(
        max_context_tokens=200_000,
        max_output_tokens=16_384,
        min_recent_messages=10,
        enable_prompt_cache=True,
        autocompact_threshold=None,
        compaction_mode=CompactionMode.KEEP_RECENT_RAW_SUFFIX,
        compaction_raw_suffix_messages=2,
    )


def test_a_submission_keeps_the_stored_name_of_its_settings() -> None:
    """Stores have submissions and records of earlier versions, which called them overrides."""
    settings = InferenceOverride(temperature=0.5)
    submission = Submission(thread_id="t", run_id="r", agent_id="a", settings=settings)
    assert loads(dumps(submission))["overrides"]["temperature"] == 0.5
    assert loads(dumps(submission), Submission) == submission
    extras = submission.extras()
    assert isinstance(extras, dict)
    assert extras["overrides"]["temperature"] == 0.5
