"""Requests to OpenAI's two APIs, built without a socket."""

from __future__ import annotations

import re
from typing import Any

import pytest

from awaken.core.inference import InferenceOverride, OutputFormat, ReasoningBudget, ReasoningEffort
from awaken.core.llm import InferenceRequest, InvalidRequest, RoutingKey
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
    ToolResultBlock,
    ToolUse,
    UrlSource,
    Video,
)
from awaken.core.tool import ToolDescriptor
from awaken.models.openai.chat_request import chat_body
from awaken.models.openai.providers import COMPATIBLE, OPENAI, ChatDialect
from awaken.models.openai.responses_request import ResponsesOptions, responses_body

PNG = Image(source=Base64Source(media_type="image/png", data="aWNvbg=="))
PHOTO = Image(source=UrlSource(url="https://example.org/photo.jpg"))
PDF = Document(source=Base64Source(media_type="application/pdf", data="JVBERi0="), title="report")
LINKED_PDF = Document(source=UrlSource(url="https://example.org/report.pdf"))
WAV = Audio(source=Base64Source(media_type="audio/wav", data="UklGRg=="))
VIDEO = Video(source=UrlSource(url="https://example.org/film.mp4"))
CALL = ToolCall(id="call_1", name="weather", arguments={"city": "Paris"})
WEATHER = ToolDescriptor(
    id="weather",
    name="Weather",
    description="The weather in a city.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
)


def asking(*messages: Message, model: str = "gpt-5.6", **fields: Any) -> InferenceRequest:
    return InferenceRequest(upstream_model=model, messages=messages, **fields)


def chat(
    *messages: Message, dialect: ChatDialect = COMPATIBLE, origin: str = "here", **fields: Any
) -> dict[str, Any]:
    return chat_body(asking(*messages, **fields), dialect, origin)


def responses(
    *messages: Message, options: ResponsesOptions | None = None, **fields: Any
) -> dict[str, Any]:
    return responses_body(asking(*messages, **fields), options or ResponsesOptions(), "openai")


def assistant(*content: ContentBlock, calls: tuple[ToolCall, ...] = ()) -> Message:
    return Message(role=Role.ASSISTANT, content=content, tool_calls=calls or None)


# -- chat -------------------------------------------------------------------------------------


def test_chat_tells_a_turn_with_a_tool_in_order() -> None:
    body = chat(
        Message.user("Weather?"),
        Message.assistant_with_tool_calls("Let me look.", [CALL]),
        Message.tool("call_1", "21°C"),
        system=(Text(text="Be brief."),),
        tools=(WEATHER,),
    )
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": "Let me look.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"city":"Paris"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "21°C"},
    ]
    assert body["tools"] == [
        {
            "type": "function",
            "function": {
                "name": "weather",
                "description": "The weather in a city.",
                "parameters": WEATHER.parameters,
            },
        }
    ]
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}


def test_leading_system_messages_join_the_prompt_and_later_ones_stay() -> None:
    messages = (
        Message.system("You know Rome."),
        Message.user("Hi"),
        Message.system("It is late."),
    )
    prompt = (Text(text="Be brief."),)
    body = chat(*messages, system=prompt)
    assert [(m["role"], m["content"]) for m in body["messages"]] == [
        ("system", "Be brief.\n\nYou know Rome."),
        ("user", "Hi"),
        ("system", "It is late."),
    ]
    dialect = ChatDialect(system_role="developer", later_system_role="user")
    body = chat(*messages, system=prompt, dialect=dialect)
    assert [m["role"] for m in body["messages"]] == ["developer", "user", "user"]


def test_null_arguments_are_an_empty_object() -> None:
    """02/§6.1: empty args give null, sent upstream as `{}`."""
    call = ToolCall(id="c", name="now", arguments=None)
    [message] = chat(assistant(calls=(call,)))["messages"]
    assert message["content"] is None
    assert message["tool_calls"][0]["function"]["arguments"] == "{}"
    [item] = responses(assistant(calls=(call,)))["input"]
    assert item["arguments"] == "{}"


def test_chat_carries_media() -> None:
    text = Text(text="What is this?")
    body = chat(Message.user_with_content([text, PNG, PHOTO, PDF, WAV]))
    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aWNvbg=="}},
        {"type": "image_url", "image_url": {"url": "https://example.org/photo.jpg"}},
        {
            "type": "file",
            "file": {
                "filename": "report.pdf",
                "file_data": "data:application/pdf;base64,JVBERi0=",
            },
        },
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
    ]


def test_media_in_tool_results_follow_all_results_of_the_turn() -> None:
    other = ToolCall(id="call_2", name="now", arguments={})
    body = chat(
        assistant(calls=(CALL, other)),
        Message.tool_with_content("call_1", [Text(text="a map"), PNG]),
        Message.tool("call_2", "noon"),
        Message.user("Thanks"),
    )
    assert [m["role"] for m in body["messages"]] == ["assistant", "tool", "tool", "user", "user"]
    told, _, attached, _ = body["messages"][1:]
    assert told["content"] == "a map\n\n[1 attached below]"
    assert [part["type"] for part in attached["content"]] == ["text", "image_url"]
    assert "call_1" in attached["content"][0]["text"]


def test_calls_and_results_inside_the_content_are_told_as_such() -> None:
    use = ToolUse(id="call_1", name="weather", input={"city": "Paris"})
    result = ToolResultBlock(tool_use_id="call_1", content=(Text(text="21°C"),))
    messages = (assistant(use), Message.user_with_content([result, Text(text="And Rome?")]))
    told = chat(*messages)["messages"]
    assert [m["role"] for m in told] == ["assistant", "tool", "user"]
    assert told[0]["tool_calls"][0]["id"] == told[1]["tool_call_id"] == "call_1"
    items = responses(*messages)["input"]
    assert [item.get("type", item.get("role")) for item in items] == [
        "function_call",
        "function_call_output",
        "user",
    ]


@pytest.mark.parametrize(
    ("block", "kind"),
    [(VIDEO, "Video"), (LINKED_PDF, "Document"), (Audio(source=UrlSource(url="x")), "Audio")],
)
def test_chat_refuses_what_the_api_cannot_take(block: ContentBlock, kind: str) -> None:
    """02/§6.6: the place is named, and nothing is sent."""
    message = Message.user_with_content([Text(text="look"), block])
    text = f"model 'gpt-5.6' does not support {kind} input at messages[1].content[1]"
    with pytest.raises(InvalidRequest, match=re.escape(text)):
        chat(Message.user("Hi"), message)


def test_reasoning_goes_back_in_the_field_it_came_in() -> None:
    ours = Thinking(thinking="hm", origin="here", signature="reasoning")
    theirs = Thinking(thinking="ho", origin="elsewhere", signature="reasoning_content")
    details = Thinking(thinking="", origin="here", encrypted='[{"type":"reasoning.encrypted"}]')
    message = assistant(ours, theirs, details, Text(text="Yes"))
    assert chat(message)["messages"] == [
        {
            "role": "assistant",
            "content": "Yes",
            "reasoning": "hm",
            "reasoning_details": [{"type": "reasoning.encrypted"}],
        }
    ]
    silent = chat(message, dialect=ChatDialect(send_reasoning=False))
    assert silent["messages"] == [{"role": "assistant", "content": "Yes"}]


@pytest.mark.parametrize(
    ("effort", "words", "object_"),
    [
        ("none", "none", {"effort": "none"}),
        ("high", "high", {"effort": "high"}),
        ("max", "max", {"effort": "xhigh"}),
        (ReasoningBudget(budget=0), "none", {"max_tokens": 0}),
        (ReasoningBudget(budget=512), "low", {"max_tokens": 512}),
        (ReasoningBudget(budget=8000), "medium", {"max_tokens": 8000}),
        (ReasoningBudget(budget=32_000), "high", {"max_tokens": 32_000}),
    ],
)
def test_effort_is_said_in_each_dialect(
    effort: ReasoningEffort, words: str, object_: dict[str, Any]
) -> None:
    overrides = InferenceOverride(reasoning_effort=effort)
    user = Message.user("Hi")
    assert chat(user, overrides=overrides)["reasoning_effort"] == words
    router = chat(user, overrides=overrides, dialect=ChatDialect(effort="reasoning"))
    assert router["reasoning"] == object_
    assert responses(user, overrides=overrides)["reasoning"]["effort"] == words


def test_sampling_goes_by_each_apis_names() -> None:
    overrides = InferenceOverride(temperature=0.0, top_p=0.5, max_tokens=10)
    user = Message.user("Hi")
    shared = {"temperature": 0.0, "top_p": 0.5}
    for body, field in (
        (chat(user, overrides=overrides), "max_tokens"),
        (chat(user, overrides=overrides, dialect=OPENAI), "max_completion_tokens"),
        (responses(user, overrides=overrides), "max_output_tokens"),
    ):
        assert {**shared, field: 10}.items() <= body.items()


def test_an_output_format_is_strict_if_it_can_be() -> None:
    strict = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    output = OutputFormat(name="answer", schema=strict, description="what to say")
    asked = chat(Message.user("Hi"), output=output)["response_format"]
    assert asked["type"] == "json_schema"
    schema = asked["json_schema"]
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", schema["name"])
    assert schema["strict"] is True
    assert schema["schema"] == {**strict, "additionalProperties": False}
    assert schema["description"] == "what to say"
    asked = responses(Message.user("Hi"), output=output)["text"]["format"]
    assert asked == {"type": "json_schema", **schema}


def test_an_output_format_that_cannot_be_strict_is_sent_as_it_is() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    output = OutputFormat(name="counts", schema=schema)
    asked = responses(Message.user("Hi"), output=output)["text"]["format"]
    assert asked == {"type": "json_schema", "name": "counts", "schema": schema, "strict": False}


@pytest.mark.parametrize("thread", ["t1", "t" * 100])
def test_a_thread_keeps_to_one_cache(thread: str) -> None:
    key = RoutingKey(thread_id=thread)
    user = Message.user("Hi")
    body = responses(user, routing_key=key, enable_prompt_cache=True)
    assert len(body["prompt_cache_key"]) <= 64
    assert body["prompt_cache_key"] == thread or len(thread) > 64
    in_chat = chat(user, routing_key=key, enable_prompt_cache=True, dialect=OPENAI)
    assert in_chat["prompt_cache_key"] == body["prompt_cache_key"]
    for silent in (
        responses(user, routing_key=key),
        responses(user, enable_prompt_cache=True),
        chat(user, routing_key=key, enable_prompt_cache=True),
    ):
        assert "prompt_cache_key" not in silent


def test_names_and_ids_the_api_does_not_take_are_changed_alike_everywhere() -> None:
    tool = ToolDescriptor(id="files.read/all", name="Read", description="Reads.")
    call = ToolCall(id="x" * 50, name=tool.id, arguments={})
    messages = (assistant(calls=(call,)), Message.tool(call.id, "ok"))
    body = chat(*messages, tools=(tool,))
    name = body["tools"][0]["function"]["name"]
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
    told, result = body["messages"]
    assert told["tool_calls"][0]["function"]["name"] == name
    assert told["tool_calls"][0]["id"] == result["tool_call_id"]
    assert len(result["tool_call_id"]) <= 40
    items = responses(*messages, tools=(tool,))
    assert items["tools"][0]["name"] == items["input"][0]["name"] == name
    assert items["input"][0]["call_id"] == items["input"][1]["call_id"]


# -- responses --------------------------------------------------------------------------------


def test_responses_keep_nothing_at_the_provider() -> None:
    body = responses(Message.user("Hi"), system=(Text(text="Be brief."),), tools=(WEATHER,))
    assert body == {
        "model": "gpt-5.6",
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "tools": [
            {
                "type": "function",
                "name": "weather",
                "description": "The weather in a city.",
                "parameters": WEATHER.parameters,
                "strict": False,
            }
        ],
    }


def said(text: str) -> dict[str, Any]:
    """An assistant's text as the API takes it, and llama.cpp too."""
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "content": content}


@pytest.mark.parametrize("model", ["gpt-4o-mini", "gpt-4.1", "ft:gpt-4o:me", "gpt-5-chat-latest"])
def test_models_without_reasoning_are_not_spoken_to_of_it(model: str) -> None:
    thought = Thinking(thinking="", id="rs_1", encrypted="x", origin="openai")
    body = responses(assistant(thought, Text(text="Hi")), model=model)
    assert "include" not in body
    assert "reasoning" not in body
    assert body["input"] == [said("Hi")]


@pytest.mark.parametrize("model", ["o3", "gpt-5.2", "gpt-6-astra", "codex-mini", "gpt-5-mini"])
def test_models_with_reasoning_are_asked_for_it(model: str) -> None:
    assert responses(Message.user("Hi"), model=model)["include"]


def test_reasoning_goes_back_before_what_it_led_to() -> None:
    first = Thinking(thinking="look it up", id="rs_1", encrypted="AAA", origin="openai")
    second = Thinking(thinking="", id="rs_2", encrypted="BBB", origin="openai")
    body = responses(assistant(first, Text(text="One moment."), second, calls=(CALL,)))
    assert body["input"] == [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "look it up"}],
            "encrypted_content": "AAA",
        },
        said("One moment."),
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "BBB"},
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "weather",
            "arguments": '{"city":"Paris"}',
        },
    ]


def test_reasoning_between_calls_stays_between_them() -> None:
    def thought(id: str, before: str | None) -> Thinking:
        return Thinking(thinking="", id=id, encrypted=id, origin="openai", signature=before)

    calls = tuple(ToolCall(id=f"call_{n}", name="weather", arguments={}) for n in range(3))
    message = assistant(thought("rs_1", None), thought("rs_2", "1"), calls=calls)
    items = responses(message)["input"]
    assert [item.get("id") or item["call_id"] for item in items] == [
        "rs_1",
        "call_0",
        "rs_2",
        "call_1",
        "call_2",
    ]


@pytest.mark.parametrize(
    "thought",
    [
        Thinking(thinking="hm", id="rs_1", encrypted="AAA", origin="anthropic", signature="9"),
        Thinking(thinking="hm", id="rs_1", origin="openai"),
        Thinking(thinking="hm"),
    ],
    ids=["another provider's", "not encrypted", "nobody's"],
)
def test_reasoning_the_provider_could_not_read_is_left_out(thought: Thinking) -> None:
    assert len(responses(assistant(thought, Text(text="Hi"), calls=(CALL,)))["input"]) == 2


def test_reasoning_that_led_to_nothing_is_left_out() -> None:
    thought = Thinking(thinking="hm", id="rs_1", encrypted="AAA", origin="openai")
    assert responses(assistant(thought), Message.user("Go on"))["input"] == [
        {"role": "user", "content": "Go on"}
    ]


def test_plain_reasoning_goes_back_to_servers_that_give_it() -> None:
    thought = Thinking(thinking="hm", id="rs_1", origin="openai")
    options = ResponsesOptions(encrypted=False, summary=None)
    body = responses(assistant(thought, Text(text="Hi")), options=options)
    assert "include" not in body
    assert "reasoning" not in body
    assert body["input"][0] == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}],
    }


def test_responses_carry_media_also_in_tool_results() -> None:
    content: list[ContentBlock] = [Text(text="see"), PNG, PHOTO, PDF, LINKED_PDF]
    parts = [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "data:image/png;base64,aWNvbg==", "detail": "auto"},
        {"type": "input_image", "image_url": "https://example.org/photo.jpg", "detail": "auto"},
        {
            "type": "input_file",
            "filename": "report.pdf",
            "file_data": "data:application/pdf;base64,JVBERi0=",
        },
        {"type": "input_file", "file_url": "https://example.org/report.pdf"},
    ]
    body = responses(
        Message.user_with_content(content),
        assistant(calls=(CALL,)),
        Message.tool_with_content("call_1", content),
    )
    assert body["input"][0] == {"role": "user", "content": parts}
    assert body["input"][2] == {
        "type": "function_call_output",
        "call_id": "call_1",
        "output": parts,
    }


def test_system_messages_inside_the_conversation_keep_their_place() -> None:
    body = responses(Message.user("Hi"), Message.internal_system("It is late."))
    assert body["input"][1] == {"role": "developer", "content": "It is late."}


@pytest.mark.parametrize(("block", "kind"), [(WAV, "Audio"), (VIDEO, "Video")])
def test_responses_refuse_what_the_api_cannot_take(block: ContentBlock, kind: str) -> None:
    """02/§6.6: also inside tool results."""
    message = Message.tool_with_content("call_1", [block])
    text = f"model 'gpt-5.6' does not support {kind} input at messages[1].content[0]"
    with pytest.raises(InvalidRequest, match=re.escape(text)):
        responses(assistant(calls=(CALL,)), message)
