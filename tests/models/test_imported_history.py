"""Conversations of other libraries, as messages to begin a thread with (09 §2.7)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import TextBlock, ToolUseBlock
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import ResponseFunctionToolCall

from awaken import Agent, Message, Runtime, ToolCall
from awaken.errors import ConfigError
from awaken.events import TextDelta
from awaken.models import (
    Audio,
    Base64Source,
    Document,
    Image,
    InferenceRequest,
    LlmStreamEvent,
    Stop,
    StopReason,
    Text,
    UrlSource,
    import_history,
)
from awaken.testing import FunctionModel

PNG = "iVBORw0KGgo="

CHAT: list[Any] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Weather in Rome and Paris?"},
    ChatCompletionMessage.model_validate(
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [
                {
                    "id": id,
                    "type": "function",
                    "function": {"name": "weather", "arguments": f'{{"city":"{city}"}}'},
                }
                for id, city in [("c1", "Rome"), ("c2", "Paris")]
            ],
        }
    ),
    {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "rainy"}]},
    {"role": "assistant", "content": "Sunny, and rainy."},
]
RESPONSES: list[Any] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": [{"type": "input_text", "text": "Weather in Rome and Paris?"}]},
    {"type": "reasoning", "id": "r1", "summary": []},
    {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}],
    },
    ResponseFunctionToolCall(
        type="function_call", call_id="c1", name="weather", arguments='{"city":"Rome"}'
    ),
    {"type": "function_call", "call_id": "c2", "name": "weather", "arguments": '{"city":"Paris"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
    {
        "type": "function_call_output",
        "call_id": "c2",
        "output": [{"type": "input_text", "text": "rainy"}],
    },
    {"type": "web_search_call", "id": "w1", "status": "completed"},
    {"role": "assistant", "content": "Sunny, and rainy."},
]
MESSAGES: list[Any] = [
    {"role": "user", "content": "Weather in Rome and Paris?"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            TextBlock(type="text", text="Let me see."),
            ToolUseBlock(type="tool_use", id="c1", name="weather", input={"city": "Rome"}),
            {"type": "tool_use", "id": "c2", "name": "weather", "input": {"city": "Paris"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "sunny"},
            {
                "type": "tool_result",
                "tool_use_id": "c2",
                "content": [{"type": "text", "text": "rainy"}],
            },
        ],
    },
    {"role": "assistant", "content": "Sunny, and rainy."},
]
PYDANTIC_AI = b"""[
{"parts": [{"content": "Be brief.", "part_kind": "system-prompt"},
           {"content": ["Weather in Rome and Paris?"], "part_kind": "user-prompt"}],
 "instructions": "Kindly.", "kind": "request"},
{"parts": [{"content": "hm", "part_kind": "thinking"},
           {"content": "Let me see.", "part_kind": "text"},
           {"tool_name": "weather", "args": {"city": "Rome"}, "tool_call_id": "c1",
            "part_kind": "tool-call"},
           {"tool_name": "weather", "args": "{\\"city\\":\\"Paris\\"}", "tool_call_id": "c2",
            "part_kind": "tool-call"}],
 "usage": {"input_tokens": 59}, "kind": "response"},
{"parts": [{"tool_name": "weather", "content": "sunny", "tool_call_id": "c1",
            "part_kind": "tool-return"},
           {"tool_name": "weather", "content": "rainy", "tool_call_id": "c2",
            "part_kind": "retry-prompt"}],
 "kind": "request"},
{"parts": [{"content": "Sunny, and rainy.", "part_kind": "text"}], "kind": "response"}
]"""

HISTORIES = [
    pytest.param(CHAT, "openai", id="chat"),
    pytest.param(RESPONSES, "openai", id="responses"),
    pytest.param(MESSAGES, "anthropic", id="anthropic"),
    pytest.param(PYDANTIC_AI, "pydantic-ai", id="pydantic-ai"),
]


def shown(messages: Sequence[Message]) -> list[tuple[str, str, Any]]:
    return [
        (
            message.role.value,
            message.text(),
            message.tool_call_id or [(one.id, one.arguments) for one in message.tool_calls or ()],
        )
        for message in messages
    ]


SHOWN = [
    ("user", "Weather in Rome and Paris?", []),
    ("assistant", "Let me see.", [("c1", {"city": "Rome"}), ("c2", {"city": "Paris"})]),
    ("tool", "sunny", "c1"),
    ("tool", "rainy", "c2"),
    ("assistant", "Sunny, and rainy.", []),
]


@pytest.mark.parametrize(("history", "dialect"), HISTORIES)
def test_what_was_said_asked_and_answered_is_read(history: Any, dialect: Any) -> None:
    assert shown(import_history(history, dialect)) == SHOWN


@pytest.mark.anyio
@pytest.mark.parametrize(("history", "dialect"), HISTORIES)
async def test_a_thread_goes_on_from_it(history: Any, dialect: Any, tmp_path: Path) -> None:
    seen: list[InferenceRequest] = []

    async def speak(request: InferenceRequest) -> AsyncIterator[LlmStreamEvent]:
        seen.append(request)
        yield TextDelta(delta="Still so.")
        yield Stop(reason=StopReason.END_TURN)

    agent = Agent("helper", model=FunctionModel(speak), system_prompt="Mine.")
    asked: list[Message | str] = [*import_history(history, dialect), "And now?"]
    async with Runtime([agent], store=f"sqlite:///{tmp_path / 'a.db'}") as runtime:
        result = await runtime.run("helper", asked, thread="ann")
        await runtime.run("helper", "And later?", thread="ann")
        kept = await runtime.messages("ann")

    assert result.response == "Still so."
    assert shown(seen[0].messages) == [*SHOWN, ("user", "And now?", [])]
    assert shown(kept)[:6] == [*SHOWN, ("user", "And now?", [])]
    assert shown(seen[1].messages)[-3:] == [
        ("user", "And now?", []),
        ("assistant", "Still so.", []),
        ("user", "And later?", []),
    ]


def base64(data: str, media_type: str = "image/png") -> Base64Source:
    return Base64Source(media_type=media_type, data=data)


PDF = base64("JVBERg==", "application/pdf")


@pytest.mark.parametrize(
    ("dialect", "message", "content"),
    [
        (
            "openai",
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "See"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                    {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}},
                    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                    {
                        "type": "file",
                        "file": {
                            "file_data": "data:application/pdf;base64,JVBERg==",
                            "filename": "a.pdf",
                        },
                    },
                ],
            },
            [
                Text(text="See"),
                Image(source=base64(PNG)),
                Image(source=UrlSource(url="https://x.example/a.png")),
                Audio(source=base64("AAAA", "audio/wav")),
                Document(source=PDF, title="a.pdf"),
            ],
        ),
        (
            "openai",
            {
                "role": "user",
                "content": [
                    {"type": "input_image", "image_url": "https://x.example/a.png"},
                    {"type": "input_file", "file_url": "https://x.example/a.pdf"},
                ],
            },
            [
                Image(source=UrlSource(url="https://x.example/a.png")),
                Document(source=UrlSource(url="https://x.example/a.pdf")),
            ],
        ),
        (
            "anthropic",
            {
                "role": "user",
                "content": [
                    {
                        "type": "image",
                        "source": {"type": "base64", "media_type": "image/png", "data": PNG},
                    },
                    {
                        "type": "document",
                        "title": "A",
                        "source": {"type": "url", "url": "https://x.example/a.pdf"},
                    },
                    {
                        "type": "document",
                        "source": {"type": "text", "media_type": "text/plain", "data": "hi"},
                    },
                ],
            },
            [
                Image(source=base64(PNG)),
                Document(source=UrlSource(url="https://x.example/a.pdf"), title="A"),
                Document(source=base64("aGk=", "text/plain")),
            ],
        ),
        (
            "pydantic-ai",
            {
                "kind": "request",
                "parts": [
                    {
                        "part_kind": "user-prompt",
                        "content": [
                            "See",
                            {"kind": "image-url", "url": "https://x.example/a.png"},
                            {"kind": "document-url", "url": "https://x.example/a.pdf"},
                            {"kind": "binary", "media_type": "image/png", "data": "__777w=="},
                        ],
                    }
                ],
            },
            [
                Text(text="See"),
                Image(source=UrlSource(url="https://x.example/a.png")),
                Document(source=UrlSource(url="https://x.example/a.pdf")),
                Image(source=base64("//777w==")),
            ],
        ),
    ],
)
def test_pictures_and_files_are_read(dialect: Any, message: Any, content: list[Any]) -> None:
    [read] = import_history([message], dialect)

    assert list(read.content) == content


CALL = {"role": "assistant", "content": None, "tool_calls": CHAT[2].model_dump()["tool_calls"][:1]}


@pytest.mark.parametrize(
    ("history", "dialect", "says"),
    [
        ([], "gemini", r"dialect is one of 'openai', 'anthropic', 'pydantic-ai', not 'gemini'"),
        ("no json", "openai", "the history is text, but not JSON"),
        ({"role": "user"}, "openai", "the history is a list of messages"),
        (["hello"], "openai", "message 0 of the history is 'hello', not a message"),
        ([object()], "openai", "message 0 of the history is object, not data"),
        ([Message.user("x")], "pydantic-ai", r"message 0 .* neither a request nor a response"),
        ([{"role": "user", "content": 7}], "openai", "message 0 .* has no list in 'content'"),
        ([CHAT[1], {"role": "function"}], "openai", "message 1 .* has the role 'function'"),
        ([{"type": "surprise"}], "openai", "an item of the kind 'surprise', which cannot"),
        (
            [{"role": "user", "content": [{"type": "input_file", "file_id": "f-1"}]}],
            "openai",
            "refers to a file that OpenAI keeps, 'f-1': leave it out",
        ),
        ([CALL], "openai", "the call 'c1' of 'weather' has no result in the history: add one"),
        ([CALL, CHAT[1]], "openai", "the call 'c1' of 'weather' has no result"),
        ([CHAT[3]], "openai", "a result for the call 'c1', which is not in it"),
        (
            [{"type": "function_call", "call_id": "c", "name": "n", "arguments": "{"}],
            "openai",
            "a call whose arguments are no JSON",
        ),
        ([{"role": "robot"}], "anthropic", "has the role 'robot'"),
        (
            [{"role": "user", "content": [{"type": "image", "source": {"type": "file"}}]}],
            "anthropic",
            "refers to a file that Anthropic keeps",
        ),
        (
            [{"kind": "request", "parts": [{"part_kind": "surprise"}]}],
            "pydantic-ai",
            "a part of the kind 'surprise'",
        ),
    ],
)
def test_what_cannot_be_read_is_named(history: Any, dialect: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        import_history(history, dialect)


def test_an_answer_that_was_only_thought_leaves_nothing() -> None:
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}

    assert import_history([thought], "anthropic") == []


def test_calls_keep_their_arguments_as_data() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "now", "arguments": ""}
    result = {"type": "function_call_output", "call_id": "c", "output": "noon"}

    [asked, _] = import_history([call, result], "openai")

    assert asked.tool_calls == (ToolCall(id="c", name="now", arguments={}),)
