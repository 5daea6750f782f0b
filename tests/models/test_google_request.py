"""What Gemini is asked: pure functions, no SDK and no socket."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from awaken.core.inference import InferenceOverride, OutputFormat, ReasoningBudget, ReasoningEffort
from awaken.core.llm import InferenceRequest, InvalidRequest
from awaken.core.message import (
    Audio,
    Base64Source,
    ContentBlock,
    Document,
    Image,
    Message,
    Role,
    Text,
    Thinking,
    ToolCall,
    UrlSource,
    Video,
)
from awaken.core.tool import ToolDescriptor
from awaken.models.google.model_names import abilities
from awaken.models.google.request import gemini_request, output_schema, thinking_config

MODEL = "gemini-3-pro"
SIGNATURE = b64encode(b"signed").decode()
PNG = Base64Source(media_type="image/png", data=b64encode(b"png").decode())
CALL = ToolCall(id="c1", name="weather", arguments={"city": "Rome"}, signature=SIGNATURE)


def asked(*messages: Message, model: str = MODEL, **more: Any) -> dict[str, Any]:
    return gemini_request(InferenceRequest(upstream_model=model, messages=messages, **more))


def contents(*messages: Message, model: str = MODEL) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = asked(*messages, model=model)["contents"]
    return found


def config(**more: Any) -> dict[str, Any]:
    found: dict[str, Any] = asked(Message.user("hi"), **more)["config"]
    return found


def said(*content: ContentBlock, calls: tuple[ToolCall, ...] = ()) -> Message:
    return Message(role=Role.ASSISTANT, content=content, tool_calls=calls or None)


def test_system_text_and_the_first_system_messages_stand_over_the_conversation() -> None:
    request = asked(Message.system("two"), Message.user("hi"), system=(Text(text="one"),))
    assert request["config"]["system_instruction"] == {"parts": [{"text": "one"}, {"text": "two"}]}
    assert request["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]


def test_a_later_system_message_keeps_its_place() -> None:
    assert contents(Message.user("a"), Message.assistant("b"), Message.system("c")) == [
        {"role": "user", "parts": [{"text": "a"}]},
        {"role": "model", "parts": [{"text": "b"}]},
        {"role": "user", "parts": [{"text": "<system>\nc\n</system>"}]},
    ]


def test_calls_get_their_results_right_after_them() -> None:
    other = ToolCall(id="c2", name="time", arguments=None)
    assert contents(
        Message.user("a"),
        Message.assistant_with_tool_calls("", [CALL, other]),
        Message.tool("c1", "sunny"),
        Message.system("in between"),
        Message.tool("c2", "noon"),
        Message.user("b"),
    )[1:] == [
        {
            "role": "model",
            "parts": [
                {
                    "function_call": {"id": "c1", "name": "weather", "args": {"city": "Rome"}},
                    "thought_signature": b"signed",
                },
                {"function_call": {"id": "c2", "name": "time", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {
                    "function_response": {
                        "id": "c1",
                        "name": "weather",
                        "response": {"output": "sunny"},
                    }
                },
                {"function_response": {"id": "c2", "name": "time", "response": {"output": "noon"}}},
                {"text": "<system>\nin between\n</system>"},
                {"text": "b"},
            ],
        },
    ]


@pytest.mark.parametrize(
    ("model", "this_turn", "signature"),
    [
        ("gemini-3-flash", True, b"skip_thought_signature_validator"),
        ("gemini-flash-latest", True, b"skip_thought_signature_validator"),
        ("gemini-2.5-flash", True, None),
        ("gemini-3-flash", False, None),
    ],
)
def test_calls_of_another_model_are_marked_where_gemini_wants_a_signature(
    model: str, this_turn: bool, signature: bytes | None
) -> None:
    call = ToolCall(id="c1", name="weather", arguments={})
    more = () if this_turn else (Message.user("next"),)
    found = contents(
        Message.user("a"),
        Message.assistant_with_tool_calls("", [call, call]),
        Message.tool("c1", "sunny"),
        *more,
        model=model,
    )
    first, second = found[1]["parts"]
    assert first.get("thought_signature") == signature
    assert "thought_signature" not in second


def test_thoughts_go_back_as_they_came_and_only_those_of_gemini() -> None:
    message = said(
        Thinking(thinking="hm", origin="google", signature=SIGNATURE),
        Thinking(thinking="claude's", origin="anthropic", signature="xyz"),
        Thinking(thinking="nobody's"),
        Text(text="Hi"),
        Thinking(thinking="", origin="google", signature=SIGNATURE),
        calls=(CALL,),
    )
    assert contents(Message.user("a"), message)[1]["parts"] == [
        {"text": "hm", "thought": True, "thought_signature": b"signed"},
        {"text": "Hi", "thought_signature": b"signed"},
        {
            "function_call": {"id": "c1", "name": "weather", "args": {"city": "Rome"}},
            "thought_signature": b"signed",
        },
    ]


def test_a_signature_without_a_text_before_it_is_a_part_of_its_own() -> None:
    message = said(Thinking(thinking="", origin="google", signature=SIGNATURE))
    assert contents(Message.user("a"), message)[1]["parts"] == [
        {"text": "", "thought_signature": b"signed"}
    ]


@pytest.mark.parametrize(
    ("block", "part"),
    [
        (Image(source=PNG), {"inline_data": {"mime_type": "image/png", "data": b"png"}}),
        (
            Video(source=UrlSource(url="https://youtu.be/x")),
            {"file_data": {"file_uri": "https://youtu.be/x"}},
        ),
        (
            Document(source=UrlSource(url="gs://bucket/a.pdf?x=1")),
            {"file_data": {"file_uri": "gs://bucket/a.pdf?x=1", "mime_type": "application/pdf"}},
        ),
        (
            Audio(source=UrlSource(url="data:audio/wav;base64,UklGRg==")),
            {"inline_data": {"mime_type": "audio/wav", "data": b"RIFF"}},
        ),
    ],
)
def test_media_are_sent_as_bytes_or_by_address(block: ContentBlock, part: dict[str, Any]) -> None:
    assert contents(Message.user_with_content([block]))[0]["parts"] == [part]


@pytest.mark.parametrize("older", [False, True])
def test_media_of_a_result_go_into_it_or_after_it(older: bool) -> None:
    result = Message.tool_with_content("c1", (Text(text="a map"), Image(source=PNG)))
    model = "gemini-2.5-pro" if older else MODEL
    parts = contents(
        Message.user("a"), Message.assistant_with_tool_calls("", [CALL]), result, model=model
    )[2]["parts"]
    image = {"inline_data": {"mime_type": "image/png", "data": b"png"}}
    response = parts[0]["function_response"]
    assert response["response"] == {"output": "a map"}
    assert response.get("parts") == (None if older else [image])
    assert parts[1:] == ([image] if older else [])


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            Message(role=Role.SYSTEM, content=(Image(source=PNG),)),
            "does not support Image input at messages[1].content[0]",
        ),
        (
            Message.user_with_content(
                [Text(text="x"), Image(source=Base64Source(media_type="image/png", data="?"))]
            ),
            "messages[1].content[1] should be base64",
        ),
        (Message.system("only this"), "no user message"),
    ],
)
def test_what_gemini_cannot_take_is_refused_before_it_is_sent(message: Message, words: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        asked(Message.system("first"), message)
    assert words in str(refused.value)


def test_a_result_without_its_call_is_told_as_text() -> None:
    assert contents(Message.tool("gone", "sunny")) == [
        {"role": "user", "parts": [{"text": "sunny"}]}
    ]


@pytest.mark.parametrize(
    ("model", "effort", "expected"),
    [
        ("gemini-3-flash-preview", "none", {"thinking_level": "MINIMAL"}),
        # 5l: models that cannot be kept from reasoning, or have fewer levels.
        ("gemini-3-pro", "none", {"thinking_level": "LOW"}),
        ("gemini-3.7-flash", "none", {"thinking_level": "LOW"}),
        ("gemini-3-pro", "medium", {"thinking_level": "HIGH", "include_thoughts": True}),
        ("gemini-3.1-pro", "medium", {"thinking_level": "MEDIUM", "include_thoughts": True}),
        ("gemini-2.5-pro", "none", {"thinking_budget": 128}),
        (
            "gemini-2.5-pro",
            ReasoningBudget(budget=0),
            {"thinking_budget": 128, "include_thoughts": False},
        ),
        ("gemini-3-pro", "low", {"thinking_level": "LOW", "include_thoughts": True}),
        ("gemini-flash-latest", "max", {"thinking_level": "HIGH", "include_thoughts": True}),
        ("models/gemini-2.5-flash", "none", {"thinking_budget": 0}),
        ("gemini-2.5-flash", "medium", {"thinking_budget": 8192, "include_thoughts": True}),
        ("gemini-2.5-flash", "max", {"thinking_budget": 24576, "include_thoughts": True}),
        ("gemini-2.5-pro", "max", {"thinking_budget": 32768, "include_thoughts": True}),
        (
            "gemini-3-pro",
            ReasoningBudget(budget=500),
            {"thinking_budget": 500, "include_thoughts": True},
        ),
    ],
)
def test_effort_is_a_level_or_a_budget(
    model: str, effort: ReasoningEffort, expected: dict[str, Any]
) -> None:
    assert thinking_config(model, effort) == expected


def test_overrides_tools_and_output_are_fields_of_the_config() -> None:
    tool = ToolDescriptor(id="weather", name="Weather", description="The weather")
    found = config(
        tools=(tool,),
        output=OutputFormat(name="answer", schema={"type": "object"}),
        overrides=InferenceOverride(temperature=0.5, top_p=0.9, max_tokens=7),
    )
    assert found == {
        "automatic_function_calling": {"disable": True},
        "automatic_continuation": False,
        "tools": [
            {
                "function_declarations": [
                    {
                        "name": "weather",
                        "description": "The weather",
                        "parameters_json_schema": {"type": "object", "properties": {}},
                    }
                ]
            }
        ],
        "response_mime_type": "application/json",
        "response_json_schema": {"type": "object"},
        "temperature": 0.5,
        "top_p": 0.9,
        "max_output_tokens": 7,
    }


def test_defaults_hold_where_the_request_says_nothing() -> None:
    request = InferenceRequest(
        upstream_model=MODEL,
        messages=[Message.user("hi")],
        tools=(ToolDescriptor(id="weather", name="weather", description=""),),
        overrides=InferenceOverride(temperature=0.5),
    )
    defaults = {"temperature": 1.0, "seed": 7, "tools": [{"google_search": {}}]}
    found = gemini_request(request, defaults)["config"]
    assert (found["temperature"], found["seed"]) == (0.5, 7)
    assert [next(iter(tool)) for tool in found["tools"]] == [
        "google_search",
        "function_declarations",
    ]


def test_a_constant_is_written_as_an_enum_of_one() -> None:
    schema = {
        "anyOf": [{"properties": {"kind": {"const": "a"}, "const": {"type": "string"}}}],
        "x": {"const": 1},
    }
    assert output_schema(schema) == {
        "anyOf": [{"properties": {"kind": {"enum": ["a"]}, "const": {"type": "string"}}}],
        "x": {"const": 1},
    }


@pytest.mark.parametrize(
    ("model", "native", "window"),
    [
        ("gemini-3-pro-preview", True, 1_048_576),
        ("gemini-2.5-flash", False, 1_048_576),
        ("gemini-flash-latest", True, None),
        ("gemini-3-pro-image", True, None),
        ("gemma-3-27b-it", False, None),
    ],
)
def test_a_name_says_what_a_model_can_do(model: str, native: bool, window: int | None) -> None:
    known = abilities(model)
    assert (known.native_output, known.context_window) == (native, window)
    assert (known.input is None) is (window is None)
