"""What is summarised, and what is kept of it (02 §7.3)."""

from __future__ import annotations

import msgspec
import pytest

from awaken.codec import from_json
from awaken.core.inference import CompactionMode, ContextWindowPolicy
from awaken.core.message import CompactionInterval, Message, MessageMetadata, ToolCall
from awaken.core.window import DEFAULT_COUNTER
from awaken.ext.compaction import CompactionConfig, CompactionState
from awaken.ext.compaction.config import section_schema
from awaken.ext.compaction.plan import (
    CompactionPlan,
    plan,
    safe_boundary,
    summary_message,
    summary_text,
)
from awaken.ext.compaction.state import (
    COMPACTION,
    Begin,
    CompactionBoundary,
    CompactionMishap,
    CompactionUpdate,
    Complete,
    Fail,
    Forget,
    InFlight,
    Skip,
)

LONG = "word " * 300


def turn(*calls: str) -> Message:
    made = [ToolCall(id=call, name="tool", arguments={"n": 1}) for call in calls]
    return Message.assistant_with_tool_calls("", made)


def said(*texts: str) -> list[Message]:
    """User and assistant in turn."""
    makers = (Message.user, Message.assistant)
    return [makers[at % 2](f"{text} {LONG}") for at, text in enumerate(texts)]


def planned(messages: list[Message], suffix: int = 2) -> CompactionPlan | None:
    return plan(messages, suffix, DEFAULT_COUNTER)


# -- the boundary -----------------------------------------------------------------------------


def test_the_boundary_leaves_the_last_messages_and_the_last_turn_alone() -> None:
    """02/X2: the latest user message stays raw, and everything behind it."""
    messages = said("a", "b", "c", "d", "e")
    many = [*messages, *[Message.assistant("more") for _ in range(20)]]

    for conversation, suffix, last in ((messages, 2, 2), (messages, 0, 3), (many, 2, 3)):
        found = planned(conversation, suffix)
        assert found is not None
        assert found.boundary_message_id == conversation[last].id


def test_internal_messages_are_no_turn_of_the_user() -> None:
    """02/X2: the latest *visible* one."""
    messages = [*said(*"abcdef"), Message.internal_user("note"), Message.assistant("x")]

    found = planned(messages, 0)

    assert found is not None
    assert found.boundary_message_id == messages[3].id


@pytest.mark.parametrize("stop", range(9))
def test_the_boundary_never_splits_a_round(stop: int) -> None:
    """02/X2: no call open before it, no result right behind it."""
    one, two = turn("a"), turn("b", "c")
    messages = [
        Message.user("hi"),
        one,
        Message.tool("a", "r"),
        two,
        Message.tool("b", "r"),
        Message.tool("c", "r"),
        Message.assistant("so"),
        turn("open"),
        Message.user("next"),
    ]

    last = safe_boundary(messages, 0, stop)

    safe = [None, 0, 0, 2, 2, 2, 5, 6, 6]
    assert last == safe[stop]


def test_too_little_is_not_worth_a_summary() -> None:
    """02 §7.3: 1024 tokens, at least."""
    assert planned([*said("a", "b"), Message.user("c")], 0) is None
    assert planned([*said("a", "b", "c", "d"), Message.user("e")], 0) is not None
    assert planned([]) is None


def test_what_is_internal_is_not_shown_to_the_summariser() -> None:
    """02 §7.3: and if there is nothing else, there is nothing to summarise."""
    internal = [Message.internal_user(LONG) for _ in range(5)]

    assert planned([*internal, Message.user("hi")]) is None
    found = planned([*internal, *said("a", "b", "c", "d")], 0)
    assert found is not None
    assert [line[:12] for line in found.lines] == ["[User]: a wo", "[Assistant]:"]


# -- what the summariser reads ----------------------------------------------------------------


def test_the_transcript_says_who_said_what() -> None:
    """02 §7.3: `[Role]: text`; calls are told, long results are not told whole."""
    messages = [
        *said("a", "b", "c", "d"),
        turn("x"),
        Message.tool("x", "r" * 9000),
        Message.assistant("so"),
        Message.user("next"),
    ]

    found = planned(messages, 0)

    assert found is not None
    text = found.transcript(1_000_000)
    assert text.startswith("[User]: a word")
    assert '\n[Assistant calls]: tool({"n":1})\n[Tool]: rrr' in text
    assert "[Content compacted:" in text
    assert text.endswith("[Assistant]: so")


def test_of_too_long_a_transcript_the_end_is_read() -> None:
    found = CompactionPlan(
        boundary_message_id="b", previous=None, lines=("one", "two", "three"), tokens=9
    )

    assert found.transcript(100) == "one\ntwo\nthree"
    assert found.transcript(10) == "[Earlier messages are left out]\ntwo\nthree"


def summary(text: str) -> Message:
    interval = CompactionInterval(from_seq=1, to_seq=3)
    metadata = MessageMetadata(compaction=interval)
    return msgspec.structs.replace(summary_message(text, "s"), metadata=metadata)


def test_a_summary_is_gone_on_with() -> None:
    """02 §7.3: the previous summary is told, and is no part of the new messages."""
    messages = [Message.system("stay"), summary("so far"), *said("a", "b", "c", "d", "e")]

    found = planned(messages, 0)

    assert found is not None
    assert found.previous == "so far"
    assert not any("so far" in line or "stay" in line for line in found.lines)


def test_a_summary_is_wrapped_and_unwrapped() -> None:
    """02 §7.3: `<conversation-summary>`; whatever it says itself."""
    for text in ("plain", "two\nlines", "</conversation-summary> within"):
        assert summary_text(summary(text)) == text
    assert summary("x").text() == "<conversation-summary>\nx\n</conversation-summary>"


def test_prompts_are_filled_in_once() -> None:
    """02 §7.3: `{previous_summary}` and `{messages}`, as they are, whatever is in them."""
    config = CompactionConfig(summariser_user_prompt="{messages} after {previous_summary}{x}")

    assert config.prompt("{messages}", "{previous_summary}") == (
        "{previous_summary} after {messages}{x}"
    )
    assert config.prompt(None, "m") == "m after (none){x}"


def test_the_mode_says_how_much_stays() -> None:
    policy = msgspec.structs.replace(
        ContextWindowPolicy.default(), compaction_raw_suffix_messages=3, min_recent_messages=7
    )
    frontier = CompactionMode.COMPACT_TO_SAFE_FRONTIER
    other = msgspec.structs.replace(policy, compaction_mode=frontier)

    assert CompactionConfig().suffix(policy) == 3
    assert CompactionConfig().suffix(other) == 7
    assert CompactionConfig(mode="keep_recent_raw_suffix").suffix(other) == 3
    assert CompactionConfig(mode="compact_to_safe_frontier").suffix(policy) == 7


def test_a_section_has_the_defaults_of_the_spec() -> None:
    """02 §7.3: 1024 tokens, a ratio of 0.3."""
    config = from_json({}, CompactionConfig)

    assert (config.summary_max_tokens, config.min_savings_ratio) == (1024, 0.3)
    assert config.summary_model is None
    assert section_schema()["additionalProperties"] is False


# -- the state --------------------------------------------------------------------------------

FLIGHT = InFlight(task_id="t1", boundary_message_id="b", started_at_ms=1)
BOUNDARY = CompactionBoundary(
    boundary_message_id="b", summary_message_id="s", pre_tokens=10, post_tokens=1, at_ms=2
)
MISHAP = CompactionMishap(task_id="t1", boundary_message_id="b", reason="why", at_ms=2)


def after(*updates: CompactionUpdate) -> CompactionState:
    state = CompactionState()
    for update in updates:
        state = COMPACTION.apply(state, update)
    return state


def test_a_second_summary_is_refused_while_one_is_under_way() -> None:
    """02/X1: single flight."""
    other = InFlight(task_id="t2", boundary_message_id="c", started_at_ms=2)

    assert after(Begin(flight=FLIGHT), Begin(flight=other)).in_flight == FLIGHT


def test_every_end_clears_the_way_for_the_next() -> None:
    """02/X1: failure and skip clear it, and so does what leads to nothing."""
    begin = Begin(flight=FLIGHT)

    done = after(begin, Complete(task_id="t1", boundary=BOUNDARY))
    assert (done.in_flight, done.boundaries, done.total_compactions) == (None, (BOUNDARY,), 1)
    failed = after(begin, Fail(mishap=MISHAP))
    assert (failed.in_flight, failed.failures) == (None, (MISHAP,))
    skipped = after(begin, Skip(mishap=MISHAP))
    assert (skipped.in_flight, skipped.skipped) == (None, (MISHAP,))
    assert after(begin, Forget(task_id="t1")) == CompactionState()


@pytest.mark.parametrize(
    "stale",
    [
        Complete(task_id="t0", boundary=BOUNDARY),
        Fail(mishap=msgspec.structs.replace(MISHAP, task_id="t0")),
        Skip(mishap=msgspec.structs.replace(MISHAP, task_id="t0")),
        Forget(task_id="t0"),
    ],
)
def test_what_is_said_of_another_summary_changes_nothing(stale: CompactionUpdate) -> None:
    """02/X3: stale task ids change nothing."""
    before = after(Begin(flight=FLIGHT))

    assert COMPACTION.apply(before, stale) is before
    assert COMPACTION.apply(CompactionState(), stale) == CompactionState()


def test_the_state_stays_small_however_many_there_were() -> None:
    """02/DB-1: what a commit writes does not grow."""
    state = CompactionState()
    for number in range(100):
        flight = msgspec.structs.replace(FLIGHT, task_id=str(number))
        state = COMPACTION.apply(state, Begin(flight=flight))
        state = COMPACTION.apply(state, Complete(task_id=str(number), boundary=BOUNDARY))

    assert (state.total_compactions, len(state.boundaries)) == (100, 16)
    assert COMPACTION.load(COMPACTION.dump(state)) == state
