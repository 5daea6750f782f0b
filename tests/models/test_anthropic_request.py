"""What is sent to Claude: pure functions, no socket."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import pytest

from awaken.core.inference import InferenceOverride, OutputFormat, ReasoningBudget
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
    ToolResultBlock,
    ToolUse,
    UrlSource,
    Video,
)
from awaken.core.tool import ToolDescriptor
from awaken.models.anthropic.request import BINDING_BETA, CACHED, PreparedRequest, prepare

NEW = "claude-opus-5-5"
OLD = "claude-haiku-4-5"
PNG = Base64Source(media_type="image/png", data="aGk=")


def request(*messages: Message, model: str = OLD, **more: Any) -> InferenceRequest:
    return InferenceRequest(upstream_model=model, messages=messages, **more)


def body(*messages: Message, model: str = OLD, **more: Any) -> dict[str, Any]:
    return prepare(request(*messages, model=model, **more)).options


def sent(*messages: Message, model: str = OLD) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body(*messages, model=model)["messages"]
    return found


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def called(*calls: ToolCall, content: Sequence[ContentBlock] = ()) -> Message:
    return Message(role=Role.ASSISTANT, content=tuple(content), tool_calls=calls)


def call(id: str = "c1", name: str = "look", arguments: Any = None) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments)


def thought(said: str = "hm", **more: Any) -> Thinking:
    return Thinking(thinking=said, **{"origin": "anthropic", "signature": "sig", **more})


# -- messages -----------------------------------------------------------------------------------


def test_a_question_is_streamed_and_says_how_long_the_answer_may_be() -> None:
    assert body(Message.user("hi")) == {
        "model": OLD,
        "max_tokens": 32_768,
        "stream": True,
        "messages": [{"role": "user", "content": [text("hi")]}],
    }


def test_messages_of_one_role_are_one_turn_and_blank_text_is_left_out() -> None:
    assert sent(
        Message.user("a"), Message.user(" \n"), Message.user("b"), Message.assistant("c")
    ) == [
        {"role": "user", "content": [text("a"), text("b")]},
        {"role": "assistant", "content": [text("c")]},
    ]


def test_answers_that_follow_each_other_are_joined() -> None:
    assert sent(Message.user("a"), Message.assistant("b"), Message.assistant("c"))[1] == {
        "role": "assistant",
        "content": [text("b"), text("c")],
    }


def test_a_log_that_begins_with_an_answer_gets_a_user_ahead_of_it() -> None:
    roles = [message["role"] for message in sent(Message.assistant("b"), Message.user("c"))]
    assert roles == ["user", "assistant", "user"]


def test_results_come_first_in_the_turn_after_their_calls() -> None:
    messages = sent(
        Message.user("go"),
        called(call("a", arguments={"x": 1}), call("b")),
        Message.system("hurry"),
        Message.tool("a", "one"),
        Message.user("and?"),
        Message.tool("b", ""),
    )
    assert messages[1]["content"] == [
        {"type": "tool_use", "id": "a", "name": "look", "input": {"x": 1}},
        {"type": "tool_use", "id": "b", "name": "look", "input": {}},
    ]
    assert messages[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": [text("one")]},
        {"type": "tool_result", "tool_use_id": "b"},
        text("<system_message>\nhurry\n</system_message>"),
        text("and?"),
    ]


def test_ids_and_names_the_api_does_not_take_are_written_differently_and_match() -> None:
    messages = sent(
        Message.user("go"),
        called(call("x#2", name="srv.look"), call("ok-1")),
        Message.tool("x#2", "r"),
        Message.tool("ok-1", "r"),
    )
    odd, plain = messages[1]["content"]
    assert odd["id"].startswith("x_2_")
    assert odd["name"].startswith("srv_look_")
    assert plain["id"] == "ok-1"
    assert [block["tool_use_id"] for block in messages[2]["content"]] == [odd["id"], "ok-1"]


def test_an_id_that_is_used_again_becomes_another_one() -> None:
    turn = (called(call("c1")), Message.tool("c1", "r"))
    messages = sent(Message.user("go"), *turn, *turn)
    assert [m["content"][0]["id"] for m in messages if m["role"] == "assistant"] == ["c1", "c1_2"]
    assert [m["content"][0]["tool_use_id"] for m in messages[2::2]] == ["c1", "c1_2"]


def test_arguments_that_are_no_object_are_put_into_one() -> None:
    messages = sent(Message.user("go"), called(call(arguments=[1])), Message.tool("c1", "r"))
    assert messages[1]["content"][0]["input"] == {"arguments": [1]}


def test_calls_and_results_inside_the_content_are_kept_and_not_doubled() -> None:
    use = ToolUse(id="c1", name="look", input={"x": 1})
    result = ToolResultBlock(tool_use_id="c1", content=(Text(text="r"),))
    messages = sent(
        Message.user("go"),
        called(call("c1", arguments={"x": 1}), content=[use]),
        Message.user_with_content([result]),
    )
    assert [block["type"] for block in messages[1]["content"]] == ["tool_use"]
    assert messages[2]["content"][0]["tool_use_id"] == "c1"


# -- media --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "wire"),
    [
        (
            Image(source=PNG),
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
            },
        ),
        (
            Image(source=UrlSource(url="https://x/y.png")),
            {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
        ),
        (
            Image(source=UrlSource(url="data:image/png;base64,aGk=")),
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
            },
        ),
        (
            Document(
                source=Base64Source(media_type="application/pdf", data="aGk="), title="Report"
            ),
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="},
                "title": "Report",
            },
        ),
        (
            Document(source=UrlSource(url="https://x/y.pdf")),
            {"type": "document", "source": {"type": "url", "url": "https://x/y.pdf"}},
        ),
        (
            Document(
                source=Base64Source(
                    media_type="text/markdown; charset=utf-8",
                    data=b64encode("grüß".encode()).decode(),
                )
            ),
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "grüß"},
            },
        ),
        (
            Document(source=UrlSource(url="data:text/plain,a%20b")),
            {
                "type": "document",
                "source": {"type": "text", "media_type": "text/plain", "data": "a b"},
            },
        ),
    ],
    ids=["image", "image-url", "image-data-url", "pdf", "pdf-url", "text", "text-data-url"],
)
def test_pictures_and_documents_are_sent_to_the_model_and_in_results(
    block: ContentBlock, wire: dict[str, Any]
) -> None:
    assert sent(Message.user_with_content([block]))[0]["content"] == [wire]
    result = sent(Message.user("go"), called(call()), Message.tool_with_content("c1", [block]))[2][
        "content"
    ][0]
    assert result["content"] == [wire]


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            Message.user_with_content([Text(text="x"), Audio(source=PNG)]),
            "model 'claude-haiku-4-5' does not support Audio input at messages[1].content[1]",
        ),
        (
            Message.tool_with_content("c1", [Video(source=PNG)]),
            "model 'claude-haiku-4-5' does not support Video input at messages[1].content[0]",
        ),
        (
            Message.user_with_content(
                [Document(source=Base64Source(media_type="application/zip", data=""))]
            ),
            "model 'claude-haiku-4-5' does not support Document (application/zip) input at "
            "messages[1].content[0]",
        ),
        (
            Message(role=Role.ASSISTANT, content=(Image(source=PNG),)),
            "model 'claude-haiku-4-5' does not support Image (assistant) input at "
            "messages[1].content[0]",
        ),
        (
            Message.user_with_content([ToolUse(id="a", name="b", input={})]),
            "a ToolUse block has no place at messages[1].content[0]",
        ),
        (
            Message.user_with_content(
                [Document(source=Base64Source(media_type="text/plain", data="/w=="))]
            ),
            "the document at messages[1].content[0] is not base64 of UTF-8 text",
        ),
    ],
    ids=["audio", "video", "zip", "assistant-image", "tool-use", "no-text"],
)
def test_what_the_api_cannot_take_is_refused_before_anything_is_sent(
    message: Message, told: str
) -> None:
    """02 §6.6: the place is named."""
    with pytest.raises(InvalidRequest) as raised:
        body(Message.user("x"), message)
    assert raised.value.message == told


# -- system -------------------------------------------------------------------------------------


def test_the_system_prompt_and_leading_system_messages_come_first() -> None:
    options = body(Message.system("context"), Message.user("hi"), system=(Text(text="Be brief."),))
    assert options["system"] == [text("Be brief."), text("context")]
    assert len(options["messages"]) == 1


def test_later_system_messages_are_marked_for_models_that_do_not_know_them() -> None:
    messages = sent(Message.user("hi"), Message.system("note"))
    assert messages[0]["content"] == [
        text("hi"),
        text("<system_message>\nnote\n</system_message>"),
    ]


def test_later_system_messages_stay_where_the_model_takes_them() -> None:
    """After a user's turn, and before an answer or at the end."""
    messages = sent(
        Message.user("a"),
        Message.system("one"),
        Message.system("two"),
        Message.assistant("b"),
        Message.system("alone"),
        Message.assistant("c"),
        Message.system("between"),
        Message.user("d"),
        Message.system("end"),
        model=NEW,
    )
    assert [message["role"] for message in messages] == [
        "user", "system", "assistant", "user", "assistant", "user", "system",
    ]  # fmt: skip
    assert messages[1]["content"] == [text("one"), text("two")]
    assert messages[3]["content"] == [text("<system_message>\nalone\n</system_message>")]
    assert messages[5]["content"] == [
        text("<system_message>\nbetween\n</system_message>"),
        text("d"),
    ]


def test_the_clouds_are_told_system_messages_in_the_users_turn() -> None:
    asked = request(Message.user("a"), Message.system("note"), model=NEW)
    options = prepare(asked, platform="vertex").options
    assert [message["role"] for message in options["messages"]] == ["user"]


def test_a_picture_is_no_system_prompt() -> None:
    with pytest.raises(InvalidRequest, match=r"Image \(system\) input at system\[0\]"):
        body(Message.user("x"), system=(Image(source=PNG),))


# -- reasoning ----------------------------------------------------------------------------------


def test_reasoning_is_sent_back_in_its_order_and_only_our_own() -> None:
    answer = called(
        call(),
        content=[
            thought("first"),
            thought("", signature=None, encrypted="secret"),
            thought("foreign", origin="openai"),
            thought("unsigned", signature=None),
            Text(text="let me see"),
        ],
    )
    options = body(Message.user("go"), answer, Message.tool("c1", "r"), model=NEW)
    assert options["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "first", "signature": "sig"},
        {"type": "redacted_thinking", "data": "secret"},
        text("let me see"),
        {"type": "tool_use", "id": "c1", "name": "look", "input": {}},
    ]


def test_reasoning_that_no_longer_fits_may_be_dropped_by_models_that_check_it() -> None:
    log = [
        Message.user("go"),
        Message(role=Role.ASSISTANT, content=(thought(),)),
        Message.user("x"),
    ]
    options = prepare(request(*log, model=NEW), betas=["mine-2026-01-01"]).options
    assert options["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    assert options["extra_headers"] == {"anthropic-beta": f"mine-2026-01-01,{BINDING_BETA}"}
    assert "extra_headers" not in body(*log, model="claude-opus-5")
    assert "extra_headers" not in body(Message.user("go"), model=NEW)


def test_a_request_that_does_not_think_sends_no_reasoning() -> None:
    answer = Message(role=Role.ASSISTANT, content=(thought(), Text(text="so")))
    assert sent(Message.user("go"), answer)[1]["content"] == [text("so")]


def test_a_model_with_a_budget_does_not_go_on_thinking_where_another_began() -> None:
    effort = InferenceOverride(reasoning_effort="low")
    begun = called(call(), content=[thought()])
    blind = called(call(), content=[Text(text="hm")])
    result = Message.tool("c1", "r")
    assert "thinking" in body(Message.user("go"), begun, result, overrides=effort)
    assert "thinking" not in body(Message.user("go"), blind, result, overrides=effort)
    again = (Message.user("go"), blind, result, Message.user("more"))
    assert "thinking" in body(*again, overrides=effort)


def test_effort_goes_with_the_output_settings() -> None:
    options = body(
        Message.user("go"), model=NEW, overrides=InferenceOverride(reasoning_effort="max")
    )
    assert options["output_config"] == {"effort": "max"}
    assert options["thinking"] == {"type": "adaptive", "display": "summarized"}


# -- parameters ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("platform", "extra"),
    [
        (
            "anthropic",
            {
                "extra_body": {"temperature": 0.2, "top_p": 0.9},
                "extra_headers": {"anthropic-version": "2023-06-01"},
            },
        ),
        (
            "bedrock",
            {
                "extra_body": {
                    "temperature": 0.2,
                    "top_p": 0.9,
                    "anthropic_version": "bedrock-2023-05-31",
                }
            },
        ),
        (
            "vertex",
            {
                "extra_body": {
                    "temperature": 0.2,
                    "top_p": 0.9,
                    "anthropic_version": "vertex-2023-10-16",
                }
            },
        ),
    ],
)
def test_sampling_is_asked_of_the_api_version_that_has_it(
    platform: Any, extra: dict[str, Any]
) -> None:
    asked = request(
        Message.user("go"),
        model="claude-sonnet-4-0",
        overrides=InferenceOverride(temperature=0.2, top_p=0.9),
    )
    options = prepare(asked, platform=platform).options
    assert {name: part for name, part in options.items() if name.startswith("extra")} == extra


def test_older_models_on_bedrock_are_asked_in_its_older_version() -> None:
    older = prepare(
        request(Message.user("x"), model=f"us.anthropic.{OLD}-v1:0"), platform="bedrock"
    )
    newer = prepare(request(Message.user("x"), model=f"anthropic.{NEW}"), platform="bedrock")
    assert older.options["extra_body"] == {"anthropic_version": "bedrock-2023-05-31"}
    assert "extra_body" not in newer.options


def test_the_longest_answer_is_the_requests_then_the_executors_then_the_models() -> None:
    asked = request(Message.user("x"), overrides=InferenceOverride(max_tokens=7))
    assert prepare(asked, max_tokens=9).options["max_tokens"] == 7
    assert prepare(request(Message.user("x")), max_tokens=9).options["max_tokens"] == 9
    assert body(Message.user("x"), model="my-deployment")["max_tokens"] == 8_192


# -- tools --------------------------------------------------------------------------------------


def test_tools_are_described_and_odd_names_are_found_again() -> None:
    tools = (
        ToolDescriptor(id="look", name="Look", description="looks", parameters={"type": "object"}),
        ToolDescriptor(id="srv.look", name="Other", description="", parameters={"properties": {}}),
    )
    prepared: PreparedRequest = prepare(request(Message.user("go"), tools=tools))
    plain, odd = prepared.options["tools"]
    assert plain == {"name": "look", "description": "looks", "input_schema": {"type": "object"}}
    assert odd["input_schema"] == {"type": "object", "properties": {}}
    assert prepared.names == {odd["name"]: "srv.look"}


def test_the_cache_is_told_of_at_most_four_places() -> None:
    tools = tuple(ToolDescriptor(id=id, name=id, description=id) for id in ("a", "b"))
    log: list[Message] = []
    for number in range(6):
        log += [Message.user(f"q{number}"), Message.assistant("a")]
    options = body(
        *log,
        Message.user("last"),
        Message.system("changes every time"),
        system=(Text(text="one"), Text(text="two")),
        tools=tools,
        enable_prompt_cache=True,
    )
    blocks = [*options["tools"], *options["system"]]
    blocks += [block for message in options["messages"] for block in message["content"]]
    marked = [block for block in blocks if "cache_control" in block]
    assert all(block["cache_control"] == CACHED for block in marked)
    assert [block.get("name") or block["text"] for block in marked] == ["b", "two", "q5", "last"]


def test_nothing_is_marked_unless_the_cache_is_wanted() -> None:
    options = body(Message.user("x"), system=(Text(text="one"),))
    assert "cache_control" not in options["system"][0]
    assert "cache_control" not in options["messages"][0]["content"][0]


# -- structured output --------------------------------------------------------------------------


def test_a_schema_is_kept_natively() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    options = body(
        Message.user("x"),
        model=NEW,
        output=OutputFormat(name="number", schema=schema, description="A number."),
        overrides=InferenceOverride(reasoning_effort=ReasoningBudget(budget=2_000)),
    )
    assert options["output_config"] == {
        "effort": "low",
        "format": {
            "type": "json_schema",
            "schema": {**schema, "additionalProperties": False, "description": "A number."},
        },
    }
    assert "description" not in schema


def test_a_schema_that_cannot_be_kept_is_asked_for_in_words() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    options = body(Message.user("x"), output=OutputFormat(name="counts", schema=schema))
    assert "output_config" not in options
    assert (
        '{"type":"object","additionalProperties":{"type":"integer"}}'
        in (options["system"][-1]["text"])
    )
