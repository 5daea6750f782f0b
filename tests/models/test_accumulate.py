"""Putting streamed answers back together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from awaken.core.answer_builder import StreamAccumulator
from awaken.core.event import ReasoningDelta, TextDelta, ToolCallDelta, ToolCallStart
from awaken.core.inference import StopReason, StreamResult, TokenUsage
from awaken.core.llm import ContentBlockStop, LlmStreamEvent, Stop, Usage
from awaken.core.message import Text, Thinking, ToolCall
from awaken.testing import stream_of


def fed(*events: LlmStreamEvent) -> StreamAccumulator:
    accumulator = StreamAccumulator()
    for event in events:
        accumulator.push(event)
    return accumulator


def text(delta: str) -> TextDelta:
    return TextDelta(delta=delta)


def start(id: str, name: str = "tool") -> ToolCallStart:
    return ToolCallStart(id=id, name=name)


def args(id: str, delta: str) -> ToolCallDelta:
    return ToolCallDelta(id=id, args_delta=delta)


def test_text_joins_until_a_block_stops() -> None:
    result = fed(text("a"), text("b"), ContentBlockStop(), text("c"), ContentBlockStop()).finish()
    assert result.content == (Text(text="ab"), Text(text="c"))
    assert result.text() == "abc"


def test_blocks_without_text_leave_nothing() -> None:
    assert fed(ContentBlockStop(), text(""), ContentBlockStop()).finish().content == ()


def test_thinking_is_kept_before_the_text() -> None:
    result = fed(
        text("x"), ReasoningDelta(delta="let "), ReasoningDelta(delta="me"), text("y")
    ).finish()
    assert result.content == (Thinking(thinking="let me"), Text(text="xy"))


def test_calls_keep_the_order_of_their_starts() -> None:
    """02/E8"""
    result = fed(
        start("b", "two"), start("a", "one"), args("a", '{"n"'), args("b", "{}"), args("a", ":1}")
    ).finish()
    assert result.tool_calls == (
        ToolCall(id="b", name="two", arguments={}),
        ToolCall(id="a", name="one", arguments={"n": 1}),
    )
    assert not result.has_incomplete_tool_calls


def test_malformed_arguments_at_the_token_limit_drop_the_call_and_say_so() -> None:
    """02/E8"""
    result = fed(
        text("so"),
        start("a"),
        args("a", '{"path": "/tm'),
        start("b"),
        args("b", "{}"),
        Stop(reason=StopReason.MAX_TOKENS),
    ).finish()
    assert [call.id for call in result.tool_calls] == ["b"]
    assert result.has_incomplete_tool_calls
    assert result.needs_truncation_recovery


@pytest.mark.parametrize("written", ["", " \n"])
def test_no_arguments_are_an_empty_object(written: str) -> None:
    result = fed(start("a"), args("a", written)).finish()
    assert result.tool_calls[0].arguments == {}
    assert fed(start("a")).finish().tool_calls[0].arguments == {}


@pytest.mark.parametrize(("written", "value"), [("[1]", [1]), ("null", None), ('"x"', "x")])
def test_arguments_that_are_no_object_are_kept(written: str, value: object) -> None:
    assert fed(start("a"), args("a", written)).finish().tool_calls[0].arguments == value


@pytest.mark.parametrize("written", ["{", "\ud800", "[" * 100_000, "NaN"])
def test_nothing_a_model_writes_as_arguments_raises(written: str) -> None:
    result = fed(start("a"), args("a", written)).finish()
    assert result.tool_calls == ()
    assert result.has_incomplete_tool_calls


def test_arguments_of_a_call_that_never_started_are_an_incomplete_call() -> None:
    result = fed(args("ghost", "{}"), start("a")).finish()
    assert [call.id for call in result.tool_calls] == ["a"]
    assert result.has_incomplete_tool_calls


def test_a_call_without_a_name_is_incomplete() -> None:
    result = fed(start("a", ""), args("a", "{}")).finish()
    assert (result.tool_calls, result.has_incomplete_tool_calls) == ((), True)


def test_repeated_ids_make_separate_calls() -> None:
    result = fed(
        start("a"), args("a", "1"), start("a"), args("a", "2"), start("a"), args("a", "3")
    ).finish()
    assert [(call.id, call.arguments) for call in result.tool_calls] == [
        ("a", 1),
        ("a#2", 2),
        ("a#3", 3),
    ]


def test_a_made_up_id_never_meets_a_real_one() -> None:
    result = fed(start("a#2"), args("a#2", "1"), start("a"), start("a"), args("a", "2")).finish()
    assert [(call.id, call.arguments) for call in result.tool_calls] == [
        ("a#2", 1),
        ("a", {}),
        ("a#3", 2),
    ]


def test_the_last_word_on_each_token_count_wins() -> None:
    result = fed(
        Usage(usage=TokenUsage(prompt_tokens=10, completion_tokens=1)),
        Usage(usage=TokenUsage(completion_tokens=7, cache_read_tokens=3)),
    ).finish()
    assert result.usage == TokenUsage(prompt_tokens=10, completion_tokens=7, cache_read_tokens=3)


def test_negative_token_counts_add_nothing() -> None:
    result = fed(
        Usage(usage=TokenUsage(prompt_tokens=10, completion_tokens=-1)),
        Usage(usage=TokenUsage(prompt_tokens=-5)),
    ).finish()
    assert result.usage == TokenUsage(prompt_tokens=10, completion_tokens=0)


def test_an_answer_without_usage_or_stop_says_neither() -> None:
    result = fed(text("x"), Stop()).finish()
    assert (result.usage, result.stop_reason) == (None, None)


def test_a_cancelled_stream_keeps_its_text_and_no_calls() -> None:
    """02/E4, 6.1: it ends with EndTurn and no calls."""
    result = fed(text("half an ans"), start("a"), args("a", "{}")).finish_cancelled()
    assert result == StreamResult(
        content=(Text(text="half an ans"),), stop_reason=StopReason.END_TURN
    )


def test_a_snapshot_tells_completed_calls_from_the_one_in_flight() -> None:
    snapshot = fed(
        text("one "),
        ContentBlockStop(),
        text("two"),
        start("a", "x"),
        args("a", '{"n":1}'),
        start("b", "y"),
        args("b", '{"n'),
    ).snapshot()
    assert snapshot.text == "one two"
    assert snapshot.completed_calls == (("a", "x", '{"n":1}'),)
    assert snapshot.in_flight_call == ("b", "y", '{"n')


def test_a_call_that_has_written_nothing_yet_is_in_flight() -> None:
    assert fed(start("a", "x")).snapshot().in_flight_call == ("a", "x", "")


words = st.text(min_size=1, max_size=12)
json_objects = st.dictionaries(words, st.integers(-9, 9) | words | st.none(), max_size=3)


@given(
    texts=st.lists(words, max_size=3),
    thinking=st.text(max_size=12),
    arguments=st.lists(json_objects, max_size=3),
    incomplete=st.booleans(),
    stop=st.none() | st.sampled_from(StopReason),
    chunk=st.none() | st.integers(1, 5),
)
def test_streaming_a_result_and_accumulating_it_gives_it_back(
    texts: list[str],
    thinking: str,
    arguments: list[dict[str, object]],
    incomplete: bool,
    stop: StopReason | None,
    chunk: int | None,
) -> None:
    thoughts = (Thinking(thinking=thinking),) if thinking else ()
    result = StreamResult(
        content=(*thoughts, *(Text(text=text) for text in texts)),
        tool_calls=tuple(
            ToolCall(id=f"c{index}", name="tool", arguments=value)
            for index, value in enumerate(arguments)
        ),
        usage=TokenUsage(prompt_tokens=1),
        stop_reason=stop,
        has_incomplete_tool_calls=incomplete,
    )
    assert fed(*stream_of(result, chunk)).finish() == result
