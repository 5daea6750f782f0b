"""Streams of OpenAI's two APIs, read without a socket; also those of servers that are odd."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from awaken.core.answer_builder import StreamAccumulator
from awaken.core.event import ReasoningDelta, TextDelta, ToolCallStart
from awaken.core.inference import StopReason, StreamResult, TokenUsage
from awaken.core.llm import (
    ContentFiltered,
    InferenceExecutionError,
    LlmStreamEvent,
    NoCredit,
    Overloaded,
    ProviderError,
    RateLimited,
    ReasoningDone,
    Stop,
    Usage,
)
from awaken.core.message import Opaque, Text, Thinking, ToolCall
from awaken.ids import SequentialIds
from awaken.models.openai.chat_stream import ChatReader
from awaken.models.openai.executor import AnswerReader
from awaken.models.openai.responses_stream import ResponsesReader

MADE_UP = "call_00000000000070008000000000000001"


def everything(reader: AnswerReader, events: Iterable[Any]) -> list[LlmStreamEvent]:
    heard: list[LlmStreamEvent] = []
    for event in events:
        heard += reader.read(event)
    return heard + reader.finish()


def whole(heard: Iterable[LlmStreamEvent]) -> StreamResult:
    accumulator = StreamAccumulator()
    for event in heard:
        accumulator.push(event)
    return accumulator.finish()


# -- chat -------------------------------------------------------------------------------------


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def chat(*chunks: Any) -> list[LlmStreamEvent]:
    return everything(ChatReader("here", ids=SequentialIds()), chunks)


def calling(*pieces: dict[str, Any]) -> tuple[ToolCall, ...]:
    """The calls that these pieces make, one in a chunk."""
    chunks = [delta(tool_calls=[piece]) for piece in pieces]
    return whole(chat(*chunks, delta("tool_calls"))).tool_calls


def piece(name: str | None = None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {**fields, "function": {k: v for k, v in function.items() if v is not None}}


def test_chat_text_and_usage() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 30,
        "total_tokens": 130,
        "prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 16},
        "completion_tokens_details": {"reasoning_tokens": 20},
    }
    heard = chat(
        delta(role="assistant", content=""),
        delta(content="Hel"),
        delta(content="lo"),
        delta("stop"),
        {"choices": [], "usage": usage},
    )
    assert heard == [
        TextDelta(delta="Hel"),
        TextDelta(delta="lo"),
        Usage(
            usage=TokenUsage(
                prompt_tokens=100,
                completion_tokens=30,
                total_tokens=130,
                cache_read_tokens=64,
                cache_creation_tokens=16,
                thinking_tokens=20,
            )
        ),
        Stop(reason=StopReason.END_TURN),
    ]


def test_reasoning_counted_beside_the_answer_is_counted_within() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 35,
        "completion_tokens_details": {"reasoning_tokens": 20},
    }
    result = whole(chat(delta("stop", content="Hi"), {"usage": usage}))
    assert result.usage is not None
    assert result.usage.completion_tokens == 25


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("stop", StopReason.END_TURN),
        ("length", StopReason.MAX_TOKENS),
        ("tool_calls", StopReason.END_TURN),
        ("eos", StopReason.END_TURN),
    ],
)
def test_why_chat_stopped(finish: str, reason: StopReason) -> None:
    assert chat(delta(content="Hi"), delta(finish))[-1] == Stop(reason=reason)


def test_calls_stop_for_tools_whatever_the_server_says() -> None:
    assert chat(delta("stop", tool_calls=[piece("now", "{}", id="a")]))[-1] == Stop(
        reason=StopReason.TOOL_USE
    )


def test_calls_in_pieces_side_by_side() -> None:
    assert calling(
        piece("weather", "", index=0, id="a"),
        piece("now", "", index=1, id="b"),
        piece(None, '{"city":', index=0),
        piece(None, "{}", index=1),
        piece(None, '"Paris"}', index=0),
    ) == (
        ToolCall(id="a", name="weather", arguments={"city": "Paris"}),
        ToolCall(id="b", name="now", arguments={}),
    )


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(
            [piece("f", '{"n":1}', id="a"), piece("f", '{"n":2}', id="b")],
            id="whole, without an index",
        ),
        pytest.param(
            [piece("f", '{"n":1}', index=0, id="a"), piece("f", '{"n":2}', index=0, id="b")],
            id="all numbered zero",
        ),
        pytest.param(
            [
                piece("f", '{"n"', id="a"),
                piece(None, ":1}"),
                piece("f", '{"n"', id="b"),
                piece(None, ":2}", id="b"),
            ],
            id="in pieces, without an index",
        ),
        pytest.param(
            [
                piece("f", None, index=0, id="a"),
                piece("f", '{"n":1}', index=0, id="a"),
                piece("f", None, index=1, id="b"),
                piece("f", '{"n":2}', index=1, id="b"),
            ],
            id="with names said again",
        ),
        pytest.param(
            [
                piece(None, '{"n":', index=0, id="a"),
                piece("f", "1}", index=0),
                piece("f", {"n": 2}, index=1, id="b"),
            ],
            id="with a late name, with arguments that are no text",
        ),
    ],
)
def test_calls_as_odd_servers_tell_them(pieces: list[dict[str, Any]]) -> None:
    assert calling(*pieces) == (
        ToolCall(id="a", name="f", arguments={"n": 1}),
        ToolCall(id="b", name="f", arguments={"n": 2}),
    )


def test_calls_without_an_id_get_one() -> None:
    assert calling(piece("f", '{"n":1}'), piece("f", '{"n":2}', id="b")) == (
        ToolCall(id=MADE_UP, name="f", arguments={"n": 1}),
        ToolCall(id="b", name="f", arguments={"n": 2}),
    )


@pytest.mark.parametrize("index", [{}, {"index": 1}])
def test_an_id_given_twice_is_used_once(index: dict[str, int]) -> None:
    first = piece("f", '{"n":1}', id="a", **({"index": 0} if index else {}))
    second = piece("f", '{"n":2}', id="a", **index)
    assert calling(first, second) == (
        ToolCall(id="a", name="f", arguments={"n": 1}),
        ToolCall(id=MADE_UP, name="f", arguments={"n": 2}),
    )


def test_a_call_without_a_name_is_no_call() -> None:
    result = whole(chat(delta("stop", tool_calls=[piece(None, "{}", index=0, id="a")])))
    assert result.tool_calls == ()
    assert result.has_incomplete_tool_calls


def test_tools_are_called_by_their_own_names_again() -> None:
    reader = ChatReader("here", {"files_read": "files.read"})
    heard = everything(
        reader, [delta("tool_calls", tool_calls=[piece("files_read", "{}", id="a")])]
    )
    assert heard[0] == ToolCallStart(id="a", name="files.read")


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_ends_where_the_answer_begins(field: str) -> None:
    heard = chat(
        delta(**{field: "Let me", "content": None}),
        delta(**{field: " see."}),
        delta(content="Yes"),
        delta("stop"),
    )
    assert heard[:4] == [
        ReasoningDelta(delta="Let me"),
        ReasoningDelta(delta=" see."),
        ReasoningDone(origin="here", signature=field),
        TextDelta(delta="Yes"),
    ]


def test_reasoning_told_in_both_fields_is_told_once() -> None:
    heard = chat(delta("stop", reasoning="hm", reasoning_content="hm", content="Yes"))
    assert [event.delta for event in heard if isinstance(event, ReasoningDelta)] == ["hm"]
    assert whole(heard).content == (
        Thinking(thinking="hm", origin="here", signature="reasoning_content"),
        Text(text="Yes"),
    )


def test_reasoning_details_are_put_together_and_kept() -> None:
    def detail(**fields: Any) -> list[dict[str, Any]]:
        return [{"type": "reasoning.text", "index": 0, **fields}]

    heard = chat(
        delta(reasoning="Let me", reasoning_details=detail(text="Let me")),
        delta(reasoning=" see.", reasoning_details=detail(text=" see.")),
        delta(reasoning_details=detail(signature="SIG", text=None)),
        delta(tool_calls=[piece("f", "{}", id="a")]),
        delta(reasoning_details=[{"type": "reasoning.encrypted", "index": 1, "data": "X"}]),
        delta("tool_calls"),
    )
    assert [event.encrypted for event in heard if isinstance(event, ReasoningDone)] == [
        '[{"type":"reasoning.text","index":0,"text":"Let me see.","signature":"SIG"}]',
        '[{"type":"reasoning.encrypted","index":1,"data":"X"}]',
    ]


def test_content_in_parts_is_read() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "Yes"},
    ]
    result = whole(chat(delta("stop", content=parts)))
    assert result.text() == "Yes"
    assert isinstance(result.content[0], Thinking)


def test_an_answer_in_one_message_is_read() -> None:
    message = {"role": "assistant", "content": "Hi"}
    chunk = {"choices": [{"message": message, "finish_reason": "stop"}]}
    assert whole(chat(chunk)).text() == "Hi"


@pytest.mark.parametrize("chunks", [[], [delta(content="Hel")], [{"choices": None}]])
def test_chat_that_ends_early_says_so(chunks: list[dict[str, Any]]) -> None:
    with pytest.raises(ProviderError, match=r"connection reset: the stream ended early"):
        chat(*chunks)


def test_an_error_inside_a_choice_keeps_its_class() -> None:
    error = {"code": 502, "message": "upstream went away"}
    chunk = {"choices": [{"delta": {}, "error": error, "finish_reason": "error"}]}
    with pytest.raises(ProviderError, match="HTTP 502: upstream went away"):
        chat(delta(content="Hel"), chunk)
    with pytest.raises(ProviderError, match="gave up"):
        chat(delta("error", content="Hel"))


@pytest.mark.parametrize("said", [[], [delta(content="how to")]])
def test_a_filtered_answer_is_an_error_whatever_was_said(said: list[dict[str, Any]]) -> None:
    with pytest.raises(ContentFiltered):
        chat(*said, delta("content_filter"))


def test_a_refusal_is_an_error_if_nothing_else_was_said() -> None:
    with pytest.raises(ContentFiltered, match="I cannot help with that"):
        chat(delta(refusal="I cannot "), delta("stop", refusal="help with that"))


# -- responses --------------------------------------------------------------------------------


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **fields}


def added(index: int, **item: Any) -> dict[str, Any]:
    return event("output_item.added", output_index=index, item=item)


def done(index: int, **item: Any) -> dict[str, Any]:
    return event("output_item.done", output_index=index, item=item)


def completed(**response: Any) -> dict[str, Any]:
    return event("completed", response=response)


def responses(*events: Any) -> list[LlmStreamEvent]:
    return everything(ResponsesReader("openai"), events)


def function_call(id: str, arguments: str = "") -> dict[str, Any]:
    return {"type": "function_call", "call_id": id, "name": "f", "arguments": arguments}


def test_a_response_with_reasoning_text_and_calls() -> None:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 16},
        "output_tokens": 30,
        "output_tokens_details": {"reasoning_tokens": 20},
        "total_tokens": 130,
    }
    heard = responses(
        event("created", response={}),
        added(0, type="reasoning", id="rs_1", summary=[]),
        event("reasoning_summary_part.added", output_index=0),
        event("reasoning_summary_text.delta", output_index=0, delta="First"),
        event("reasoning_summary_part.added", output_index=0),
        event("reasoning_summary_text.delta", output_index=0, delta="Second"),
        done(0, type="reasoning", id="rs_1", encrypted_content="AAA", summary=[]),
        added(1, type="message", content=[]),
        event("output_text.delta", output_index=1, delta="Hello"),
        done(1, type="message", content=[{"type": "output_text", "text": "Hello"}]),
        added(2, **function_call("a")),
        event("function_call_arguments.delta", output_index=2, delta='{"n":'),
        event("function_call_arguments.delta", output_index=2, delta="1}"),
        done(2, **function_call("a", '{"n":1}')),
        completed(usage=usage),
    )
    result = whole(heard)
    assert result.content == (
        Thinking(thinking="First\n\nSecond", id="rs_1", encrypted="AAA", origin="openai"),
        Text(text="Hello"),
    )
    assert result.tool_calls == (ToolCall(id="a", name="f", arguments={"n": 1}),)
    assert result.stop_reason is StopReason.TOOL_USE
    assert result.usage == TokenUsage(
        prompt_tokens=100,
        completion_tokens=30,
        total_tokens=130,
        cache_read_tokens=64,
        cache_creation_tokens=16,
        thinking_tokens=20,
    )


def test_reasoning_without_text_is_kept_with_its_place_among_the_calls() -> None:
    heard = responses(
        done(0, type="reasoning", id="rs_1", encrypted_content="AAA"),
        added(1, **function_call("a", "")),
        done(1, **function_call("a", "{}")),
        done(2, type="reasoning", id="rs_2", encrypted_content="BBB"),
        added(3, **function_call("b", "")),
        done(3, **function_call("b", "{}")),
        completed(),
    )
    assert [event for event in heard if isinstance(event, ReasoningDone)] == [
        ReasoningDone(origin="openai", id="rs_1", encrypted="AAA"),
        ReasoningDone(origin="openai", id="rs_2", encrypted="BBB", signature="1"),
    ]


def test_what_was_not_streamed_is_taken_from_the_finished_items() -> None:
    heard = responses(
        done(0, type="reasoning", id="rs_1", summary=[{"text": "hm"}]),
        done(1, type="message", content=[{"type": "output_text", "text": "Hi"}]),
        done(2, **function_call("a", '{"n":1}')),
        completed(),
    )
    result = whole(heard)
    assert result.text() == "Hi"
    assert result.tool_calls == (ToolCall(id="a", name="f", arguments={"n": 1}),)
    assert [event.delta for event in heard if isinstance(event, ReasoningDelta)] == ["hm"]


def test_an_answer_told_only_at_its_end_is_told() -> None:
    text = {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}
    result = whole(responses(completed(output=[text, function_call("a", "{}")])))
    assert result.text() == "Hi"
    assert [call.id for call in result.tool_calls] == ["a"]
    assert result.stop_reason is StopReason.TOOL_USE


def test_a_streamed_answer_is_not_told_again_at_its_end() -> None:
    text = {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}
    heard = responses(
        event("output_text.delta", output_index=0, delta="Hi"), completed(output=[text])
    )
    assert whole(heard).text() == "Hi"


def test_plain_reasoning_is_read() -> None:
    heard = responses(
        added(0, type="reasoning", id="rs_1"),
        event("reasoning_text.delta", output_index=0, delta="hm"),
        done(0, type="reasoning", id="rs_1", content=[{"text": "hm"}]),
        event("output_text.delta", output_index=1, delta="Hi"),
        completed(),
    )
    assert whole(heard).content[0] == Thinking(thinking="hm", id="rs_1", origin="openai")


def test_an_answer_cut_at_its_limit_stops_for_tokens() -> None:
    limit = {"reason": "max_output_tokens"}
    heard = responses(
        event("output_text.delta", output_index=0, delta="Hel"),
        event("incomplete", response={"incomplete_details": limit}),
    )
    assert heard[-1] == Stop(reason=StopReason.MAX_TOKENS)


def test_a_filtered_response_is_an_error_whatever_was_said() -> None:
    filtered = event("incomplete", response={"incomplete_details": {"reason": "content_filter"}})
    with pytest.raises(ContentFiltered):
        responses(filtered)
    with pytest.raises(ContentFiltered):
        responses(event("output_text.delta", output_index=0, delta="Hel"), filtered)
    with pytest.raises(ContentFiltered, match="I cannot"):
        responses(event("refusal.delta", output_index=0, delta="I cannot"), completed())


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        ("server_error", "oops", ProviderError),
        ("rate_limit_exceeded", "slow down", RateLimited),
        ("insufficient_quota", "You exceeded your current quota", NoCredit),
        ("invalid_prompt", "it may violate our usage policy", ContentFiltered),
        ("bio_policy", "no", ContentFiltered),
        (None, "the engine is overloaded", Overloaded),
    ],
)
def test_a_failed_response_keeps_its_class(
    code: str | None, message: str, kind: type[InferenceExecutionError]
) -> None:
    failed = event("failed", response={"error": {"code": code, "message": message}})
    with pytest.raises(kind, match=message):
        responses(event("output_text.delta", output_index=0, delta="Hel"), failed)
    with pytest.raises(kind, match=message):
        responses({"type": "error", "code": code, "message": message})


def test_a_response_that_ends_early_says_so() -> None:
    with pytest.raises(ProviderError, match=r"connection reset: the stream ended early"):
        responses(event("output_text.delta", output_index=0, delta="Hel"))


def test_unknown_events_are_ignored_and_unknown_items_kept() -> None:
    assert responses(event("hologram.delta", delta="?"), done(0, type="hologram"), completed()) == [
        Opaque(origin="openai", kind="hologram", data={"type": "hologram"}),
        Stop(reason=StopReason.END_TURN),
    ]
