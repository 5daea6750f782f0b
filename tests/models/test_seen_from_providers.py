"""What recordings of OpenAI's Responses API, Anthropic and Gemini have shown, by letter."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mock_server import Answer, WireServer, sse

from awaken.core.answer_builder import StreamAccumulator
from awaken.core.inference import EffortWord, InferenceOverride, StopReason, StreamResult
from awaken.core.llm import (
    ContentFiltered,
    ContextOverflow,
    InferenceExecutionError,
    InferenceRequest,
    InvalidRequest,
    LlmExecutor,
    NoCredit,
)
from awaken.core.message import (
    Audio,
    Base64Source,
    Citation,
    Image,
    Message,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolCall,
)
from awaken.core.tool import ToolDescriptor
from awaken.errors import ConfigError
from awaken.models.anthropic import AnthropicMessages
from awaken.models.google import GoogleGemini
from awaken.models.openai import OpenAIChat, OpenAIResponses
from awaken.models.provider_tools import CodeExecution, FileSearch, WebSearch

pytestmark = pytest.mark.anyio

HI = Message.user("Hi")


@asynccontextmanager
async def serving(make: Any, *answers: Answer, **options: Any) -> AsyncIterator[Any]:
    """A model, and the server that plays its answers."""
    async with WireServer(answers) as server:
        url = f"{server.url}/v1" if make is OpenAIResponses else server.url
        model = make(base_url=url, api_key="sk-1", **options)
        try:
            yield model, server
        finally:
            await model.aclose()


async def ask(model: LlmExecutor, *messages: Message, **fields: Any) -> StreamResult:
    request = InferenceRequest(
        upstream_model=fields.pop("upstream_model", "gpt-5"), messages=messages or (HI,), **fields
    )
    accumulator = StreamAccumulator()
    async for event in model.execute_stream(request):
        accumulator.push(event)
    return accumulator.finish()


def said(result: StreamResult) -> Message:
    """The answer as a message of the conversation."""
    return Message(
        role=Role.ASSISTANT, content=result.content, tool_calls=result.tool_calls or None
    )


def refusal(status: int, body: object) -> Answer:
    return Answer(status=status, pieces=[json.dumps(body).encode()])


# -- the providers' streams -------------------------------------------------------------------


def response(*events: dict[str, Any], **fields: Any) -> Answer:
    """A stream of the Responses API; items are added and done."""
    whole = [*events, {"type": "response.completed", "response": {"status": "completed", **fields}}]
    return Answer(pieces=sse(*whole, names=True))


def item(index: int, **fields: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": fields}


def spoken(index: int, text: str, **fields: Any) -> list[dict[str, Any]]:
    done = {"type": "message", "content": [{"type": "output_text", "text": text}], **fields}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": {"type": "message"}},
        {"type": "response.output_text.delta", "output_index": index, "delta": text},
        {"type": "response.output_item.done", "output_index": index, "item": done},
    ]


def claude(*blocks: tuple[dict[str, Any], list[dict[str, Any]]], stop: str = "end_turn") -> Answer:
    """A stream of the Messages API: blocks and their deltas."""
    usage = {"input_tokens": 5, "output_tokens": 1}
    events: list[dict[str, Any]] = [
        {
            "type": "message_start",
            "message": {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": [],
                "usage": usage,
            },
        }
    ]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": d} for d in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events += [
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    ]
    return Answer(pieces=sse(*events, names=True))


def words(text: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": text}]


def gemini(*parts: dict[str, Any], finish: str = "STOP", why: str = "") -> Answer:
    """A stream of Gemini, one part in each chunk."""
    chunks = [{"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts]
    end: dict[str, Any] = {"finishReason": finish, "content": {"role": "model"}}
    if why:
        end["finishMessage"] = why
    return Answer(pieces=sse(*chunks, {"candidates": [end]}))


# -- 5b: no money -----------------------------------------------------------------------------


async def test_5b_anthropic_says_in_a_bad_request_that_the_account_is_empty() -> None:
    told = "Your credit balance is too low to access the Anthropic API."
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": told}}
    async with serving(AnthropicMessages, refusal(400, body)) as (model, _):
        with pytest.raises(NoCredit, match="too low"):
            await ask(model)


# -- 5c: Gemini's reasons to stop -------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:MODEL_ARMOR is not a valid FinishReason")
@pytest.mark.parametrize(
    ("finish", "kind"),
    [("MODEL_ARMOR", ContentFiltered), ("UNEXPECTED_TOOL_CALL", InferenceExecutionError)],
)
async def test_5c_a_filter_and_a_wrong_call_end_the_answer_in_googles_words(
    finish: str, kind: type[InferenceExecutionError]
) -> None:
    stopped = gemini({"text": "So"}, finish=finish, why="Not so.")
    async with serving(GoogleGemini, stopped, vertex=True) as (model, _):
        with pytest.raises(kind, match=rf"\({finish}\): Not so\.") as raised:
            await ask(model, upstream_model="gemini-3-pro")
    assert type(raised.value) is kind
    assert not raised.value.retryable


# -- 5e: parts that are not understood --------------------------------------------------------


async def test_5e_items_of_openai_are_kept_sent_back_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    items = [
        {"type": "custom_tool_call", "id": "ct_1", "call_id": "c1", "name": "sql", "input": "x"},
        {"type": "mcp_approval_request", "id": "mcpr_1", "name": "rm", "arguments": "{}"},
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "iVBO"},
    ]
    first = response(*(item(at, **each) for at, each in enumerate(items)))
    async with serving(
        OpenAIResponses, first, response(*spoken(0, "Ok")), response(output=items), name="odd"
    ) as (model, server):
        with caplog.at_level(logging.WARNING, logger="awaken.llm"):
            answer = await ask(model)
            again = Message.user_with_content(
                [Opaque(origin="odd", kind="custom_tool_call_output", data={"call_id": "c1"})]
            )
            await ask(model, HI, said(answer), again)
            assert (await ask(model)).content == answer.content  # all of it in the last event
    assert answer.content == tuple(
        Opaque(origin="odd", kind=str(each["type"]), data=each) for each in items
    )
    assert server.requests[1].body["input"][1:] == [*items, {"call_id": "c1"}]
    assert len(caplog.messages) == len(items)
    assert "'mcp_approval_request'" in caplog.messages[1]


async def test_5e_parts_go_back_to_their_own_provider_only() -> None:
    block = Opaque(origin="elsewhere", kind="x", data={"type": "x"})
    history = [HI, Message(role=Role.ASSISTANT, content=(Text(text="Ok"), block)), HI]
    for make in (OpenAIResponses, AnthropicMessages, GoogleGemini):
        async with serving(make) as (model, _):
            request = InferenceRequest(upstream_model="gemini-3-pro", messages=history)
            assert '"x"' not in json.dumps(model.preview(request))


async def test_5e_blocks_of_anthropic_are_kept_and_sent_back() -> None:
    use = {"type": "mcp_tool_use", "id": "mu_1", "name": "find", "server_name": "s", "input": {}}
    result = {"type": "mcp_tool_result", "tool_use_id": "mu_1", "content": [], "is_error": False}
    pieces = [
        {"type": "input_json_delta", "partial_json": '{"q": '},
        {"type": "input_json_delta", "partial_json": '"cats"}'},
    ]
    async with serving(
        AnthropicMessages, claude((use, pieces), (result, []), words("Cats.")), claude(words("Ok"))
    ) as (model, server):
        answer = await ask(model)
        assert answer.text() == "Cats."
        await ask(model, HI, said(answer), HI)
    assert server.requests[1].body["messages"][1]["content"] == [
        {**use, "input": {"q": "cats"}},
        result,
        {"type": "text", "text": "Cats."},
    ]


async def test_5e_parts_of_gemini_are_kept_and_sent_back() -> None:
    code = {"executableCode": {"code": "print(1)", "language": "PYTHON"}}
    picture = {
        "inlineData": {"mimeType": "image/png", "data": base64.b64encode(b"\xff\xfe").decode()}
    }
    async with serving(
        GoogleGemini, gemini(code, picture, {"text": "One."}), gemini({"text": "Ok"})
    ) as (model, server):
        answer = await ask(model, upstream_model="gemini-3-pro")
        assert [type(block) for block in answer.content] == [Opaque, Opaque, Text]
        await ask(model, HI, said(answer), HI, upstream_model="gemini-3-pro")
    assert server.requests[1].body["contents"][1]["parts"] == [
        code,
        {"inlineData": {"mime_type": "image/png", "data": "__4="}},
        {"text": "One."},
    ]


# -- 5g: OpenRouter's Responses, and OpenAI's phases ------------------------------------------


async def test_5g_openrouters_reasoning_comes_once_and_before_the_answer() -> None:
    open_item = {"type": "reasoning", "id": "rs_1"}
    whole = {**open_item, "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    events = [
        {"type": "response.output_item.added", "output_index": 0, "item": open_item},
        *(
            {"type": f"response.{kind}.delta", "output_index": 0, "item_id": "rs_1", "delta": "Hm."}
            for kind in ("reasoning_text", "reasoning_summary_text")
        ),
        *spoken(1, "Yes."),
        item(0, **whole),
    ]
    async with serving(OpenAIResponses, response(*events)) as (model, _):
        answer = await ask(model)
    assert answer.content == (
        Thinking(thinking="Hm.", id="rs_1", origin="openai"),
        Text(text="Yes."),
    )


async def test_5g_the_phase_of_a_message_goes_back_with_it() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    first = response(*spoken(0, "Let me see.", phase="commentary"), item(1, **call))
    async with serving(OpenAIResponses, first, response(*spoken(0, "Ok"))) as (model, server):
        answer = await ask(model)
        assert answer.text() == "Let me see."
        await ask(model, HI, said(answer), Message.tool("c1", "1"))
    sent = server.requests[1].body["input"]
    assert sent[1] == {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Let me see."}],
        "phase": "commentary",
    }
    assert sent[2]["type"] == "function_call"


# -- 5k: media in the results of calls --------------------------------------------------------


async def test_5k_gemini_gets_in_a_result_only_the_media_that_it_takes() -> None:
    png, wav = (
        Base64Source(media_type=kind, data=base64.b64encode(b"x").decode())
        for kind in ("image/png", "audio/wav")
    )
    calls = [ToolCall(id="c1", name="f", arguments={})]
    result = Message.tool_with_content("c1", [Image(source=png), Audio(source=wav)])
    async with serving(GoogleGemini, gemini({"text": "Ok"})) as (model, server):
        await ask(
            model,
            HI,
            Message.assistant_with_tool_calls("", calls),
            result,
            upstream_model="gemini-3-pro",
        )
    answered, after = server.requests[0].body["contents"][2]["parts"]
    inside = answered["functionResponse"]["parts"]
    assert [part["inline_data"]["mime_type"] for part in inside] == ["image/png"]
    assert after["inlineData"]["mime_type"] == "audio/wav"


# -- 5m: what failures say, calls in pieces ---------------------------------------------------


async def test_5m_anthropics_refusal_of_a_long_conversation_is_an_overflow() -> None:
    told = "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000"
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": told}}
    async with serving(AnthropicMessages, refusal(400, body)) as (model, _):
        with pytest.raises(ContextOverflow, match="context limit"):
            await ask(model)


async def test_5m_gemini_sends_the_arguments_of_a_call_in_pieces() -> None:
    pieces = [
        {"jsonPath": "$.city", "stringValue": "New ", "willContinue": True},
        {"jsonPath": "$.city", "stringValue": "York"},
        {"jsonPath": "$.days[0].at", "numberValue": 3},
        {"jsonPath": "$.days[1].at", "numberValue": 4.5},
        {"jsonPath": "$['in °C']", "boolValue": True},
        {"jsonPath": "$.note", "nullValue": "NULL_VALUE"},
    ]
    parts: list[dict[str, Any]] = [
        {"functionCall": {"id": "c1", "name": "weather", "willContinue": True}},
        *({"functionCall": {"partialArgs": [each], "willContinue": True}} for each in pieces),
        {"functionCall": {}},
        {"functionCall": {"id": "c2", "name": "time", "args": {"zone": "UTC"}}},
    ]
    async with serving(GoogleGemini, gemini(*parts)) as (model, _):
        answer = await ask(model, upstream_model="gemini-3-pro")
    assert [(call.name, call.arguments) for call in answer.tool_calls] == [
        (
            "weather",
            {
                "city": "New York",
                "days": [{"at": 3}, {"at": 4.5}],
                "in °C": True,
                "note": None,
            },
        ),
        ("time", {"zone": "UTC"}),
    ]


# -- 5l: parameters that models refuse --------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "wanted", "sent"),
    [
        ("gpt-4.1", {"reasoning_effort": "high", "temperature": 0.5}, {"temperature": 0.5}),
        ("gpt-5", {"reasoning_effort": "none", "temperature": 0.5}, {"effort": "minimal"}),
        ("o3", {"reasoning_effort": "none", "top_p": 0.5}, {"effort": "low"}),
        ("gpt-5.1", {"temperature": 0.5}, {"temperature": 0.5}),
        ("gpt-5.1", {"reasoning_effort": "max", "temperature": 0.5}, {"effort": "high"}),
        (
            "gpt-5.1",
            {"reasoning_effort": "none", "temperature": 0.5},
            {"effort": "none", "temperature": 0.5},
        ),
    ],
)
async def test_5l_openais_models_get_only_the_parameters_that_they_take(
    model: str, wanted: dict[str, Any], sent: dict[str, Any]
) -> None:
    overrides = InferenceOverride(**wanted)
    request = InferenceRequest(upstream_model=model, messages=[HI], overrides=overrides)
    async with serving(OpenAIResponses) as (responses, _):
        body = responses.preview(request)
        found = {name: body[name] for name in ("temperature", "top_p") if name in body}
        assert {**found, **body.get("reasoning", {})} == sent
    chat = OpenAIChat(api_key="sk-1").preview(request)
    expected = {"reasoning_effort" if k == "effort" else k: v for k, v in sent.items()}
    names = ("temperature", "top_p", "reasoning_effort")
    assert {name: chat[name] for name in names if name in chat} == expected


async def test_5l_a_dropped_parameter_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    overrides = InferenceOverride(temperature=0.5, reasoning_effort="none")
    request = InferenceRequest(upstream_model="o4-told", messages=[HI], overrides=overrides)
    async with serving(OpenAIResponses) as (model, _):
        for _ in range(2):
            model.preview(request)
    assert caplog.messages == [
        "model o4-told has no setting temperature: it is not sent",
        "model o4-told has no reasoning_effort 'none': 'low' is sent",
    ]


@pytest.mark.parametrize(
    ("make", "model"),
    [
        (AnthropicMessages, "claude-3-haiku-20240307"),
        (GoogleGemini, "gemini-2.0-flash"),
        (OpenAIResponses, "gpt-4.1"),
    ],
)
async def test_5l_a_model_that_does_not_reason_is_asked_for_no_effort(
    make: Any, model: str
) -> None:
    async with serving(make) as (asked, _):
        plain, hard = (
            asked.preview(InferenceRequest(upstream_model=model, messages=[HI], overrides=each))
            for each in (InferenceOverride(), InferenceOverride(reasoning_effort="high"))
        )
    assert plain == hard


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [
        ("claude-haiku-4-5", "none", {"temperature"}),  # one of the two
        ("claude-haiku-4-5", "high", set()),
        ("claude-opus-4-6", None, {"temperature"}),
        ("claude-opus-4-6", "high", set()),
        ("claude-opus-4-7", "none", set()),  # and all later ones
        ("claude-sonnet-5", "none", set()),
        ("claude-sonnet-5-5", "none", set()),
    ],
)
async def test_5l_claude_gets_no_temperature_while_it_thinks_nor_from_4_7_on(
    model: str, effort: EffortWord | None, sent: set[str]
) -> None:
    overrides = InferenceOverride(temperature=0.5, top_p=0.9, reasoning_effort=effort)
    async with serving(AnthropicMessages) as (asked, _):
        body = asked.preview(
            InferenceRequest(upstream_model=model, messages=[HI], overrides=overrides)
        )
    assert {"temperature", "top_p"} & body.keys() == sent


@pytest.mark.parametrize(
    ("model", "thinking"),
    [
        ("claude-haiku-4-5", None),  # it cannot think before a call that it is forced to
        ("claude-opus-4-6", None),
        ("claude-sonnet-5", "adaptive"),
        ("claude-opus-5-5", "refused"),
        ("claude-sonnet-5-5", "refused"),
        ("claude-fable-5-1", "refused"),
    ],
)
async def test_5l_claude_is_forced_to_a_call_only_where_that_is_possible(
    model: str, thinking: str | None
) -> None:
    overrides = InferenceOverride(tool_choice="look", reasoning_effort="high")
    tools = (ToolDescriptor(id="look", name="look", description="Look."),)
    request = InferenceRequest(
        upstream_model=model, messages=[HI], tools=tools, overrides=overrides
    )
    async with serving(AnthropicMessages) as (asked, _):
        if thinking == "refused":
            with pytest.raises(InvalidRequest, match="cannot obey tool_choice"):
                asked.preview(request)
            return
        body = asked.preview(request)
    assert body["tool_choice"] == {"type": "tool", "name": "look"}
    assert body.get("thinking", {}).get("type") == thinking


# -- 5m, 5n: pauses, the providers' own tools, and citations ----------------------------------

SUMMARY = {"type": "compaction", "content": None}
SUMMARISED = ({**SUMMARY}, [{"type": "compaction_delta", "content": "They said hi."}])
USE = {"type": "server_tool_use", "id": "su_1", "name": "web_search", "input": {}}
QUERY = [{"type": "input_json_delta", "partial_json": '{"query": "cats"}'}]
RESULT = {"type": "web_search_tool_result", "tool_use_id": "su_1", "content": []}


@pytest.mark.parametrize(
    ("stop", "first", "sent"),
    [
        pytest.param(
            "compaction",
            SUMMARISED,
            {"type": "compaction", "content": "They said hi."},
            id="5m: a summary",
        ),
        pytest.param(
            "pause_turn", (USE, QUERY), {**USE, "input": {"query": "cats"}}, id="5n: a pause"
        ),
    ],
)
async def test_5m_5n_anthropic_goes_on_after_a_summary_and_after_a_pause(
    stop: str, first: Any, sent: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    second = (
        claude((RESULT, []), words("Cats.")) if stop == "pause_turn" else claude(words("Cats."))
    )
    async with serving(
        AnthropicMessages, claude(first, stop=stop), second, native=[WebSearch(max_uses=3)]
    ) as (model, server):
        answer = await ask(model)
    assert answer.text() == "Cats."
    assert answer.stop_reason is StopReason.END_TURN
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (10, 6)
    begun, again = (request.body for request in server.requests)
    assert begun["tools"] == [{"type": "web_search_20250305", "name": "web_search", "max_uses": 3}]
    assert again["messages"][1:] == [{"role": "assistant", "content": [sent]}]
    assert not caplog.messages


async def test_5n_an_answer_may_pause_several_times() -> None:
    more = {**USE, "id": "su_2"}
    async with serving(
        AnthropicMessages,
        claude((USE, QUERY), stop="pause_turn"),
        claude((RESULT, []), (more, QUERY), stop="pause_turn"),
        claude(({**RESULT, "tool_use_id": "su_2"}, []), words("Cats.")),
        native=[WebSearch()],
    ) as (model, server):
        assert (await ask(model)).text() == "Cats."
    (sent,) = server.requests[2].body["messages"][1:]
    kinds = [block["type"] for block in sent["content"]]
    assert kinds == ["server_tool_use", "web_search_tool_result", "server_tool_use"]


async def test_5n_a_call_without_its_result_is_left_out_of_later_requests() -> None:
    broken = Opaque(origin="anthropic", kind="server_tool_use", data=USE)
    history = [HI, Message(role=Role.ASSISTANT, content=(broken, Text(text="So"))), HI]
    async with serving(AnthropicMessages) as (model, _):
        body = model.preview(InferenceRequest(upstream_model="m", messages=history))
    assert [block["type"] for block in body["messages"][1]["content"]] == ["text"]


async def test_5n_anthropics_citations_are_blocks_and_go_back() -> None:
    source = {
        "type": "web_search_result_location",
        "cited_text": "Cats sleep.",
        "url": "https://cats.example",
        "title": "Cats",
        "encrypted_index": "Eo8",
    }
    block, deltas = words("They sleep.")
    cited = (block, [*deltas, {"type": "citations_delta", "citation": source}])
    async with serving(AnthropicMessages, claude(cited, words(" Much.")), claude(words("Ok"))) as (
        model,
        server,
    ):
        answer = await ask(model)
        await ask(model, HI, said(answer), HI)
    assert answer.content == (
        Text(text="They sleep."),
        Citation(
            origin="anthropic",
            data=source,
            url="https://cats.example",
            title="Cats",
            quote="Cats sleep.",
        ),
        Text(text=" Much."),
    )
    sent = server.requests[1].body["messages"][1]["content"]
    assert sent[0] == {"type": "text", "text": "They sleep.", "citations": [source]}


async def test_5n_openais_own_tools_and_annotations_go_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}}
    note = {
        "type": "url_citation",
        "url": "https://cats.example",
        "title": "Cats",
        "start_index": 0,
        "end_index": 5,
    }
    content = [{"type": "output_text", "text": "Cats.", "annotations": [note]}]
    first = response(item(0, **search), *spoken(1, "Cats.", content=content))
    async with serving(
        OpenAIResponses, first, response(*spoken(0, "Ok")), native=[WebSearch(), CodeExecution()]
    ) as (model, server):
        answer = await ask(model)
        await ask(model, HI, said(answer), HI)
    assert [type(block) for block in answer.content] == [Opaque, Text, Citation]
    cited = answer.content[-1]
    assert isinstance(cited, Citation)
    assert (cited.url, cited.start, cited.end) == ("https://cats.example", 0, 5)
    assert server.requests[1].body["input"][1:3] == [
        search,
        {"type": "message", "role": "assistant", "content": content},
    ]
    types = [tool["type"] for tool in server.requests[0].body["tools"]]
    assert types == ["web_search", "code_interpreter"]
    assert not caplog.messages


async def test_5n_geminis_sources_are_citations() -> None:
    sources = {
        "groundingChunks": [{"web": {"uri": "https://cats.example", "title": "Cats"}}],
        "groundingSupports": [
            {"segment": {"endIndex": 5, "text": "Cats."}, "groundingChunkIndices": [0]}
        ],
    }
    candidate = {
        "content": {"role": "model", "parts": [{"text": "Cats."}]},
        "finishReason": "STOP",
        "groundingMetadata": sources,
    }
    plain = Answer(pieces=sse({"candidates": [candidate]}))
    async with serving(GoogleGemini, plain, native=[WebSearch()]) as (model, server):
        answer = await ask(model, upstream_model="gemini-3-pro")
    text, cited = answer.content
    assert text == Text(text="Cats.")
    assert isinstance(cited, Citation)
    assert (cited.url, cited.title) == ("https://cats.example", "Cats")
    assert server.requests[0].body["tools"] == [{"googleSearch": {}}]


async def test_5n_annotations_of_a_chat_are_citations() -> None:
    note = {"type": "url_citation", "url_citation": {"url": "https://cats.example", "title": "C"}}
    chunks = [
        {"choices": [{"delta": {"content": "Cats."}}]},
        {"choices": [{"delta": {"annotations": [note]}, "finish_reason": "stop"}]},
    ]
    async with WireServer([Answer(pieces=sse(*chunks, "[DONE]"))]) as server:
        model = OpenAIChat(base_url=f"{server.url}/v1", api_key="sk-1")
        answer = await ask(model)
        await model.aclose()
    assert answer.content == (
        Text(text="Cats."),
        Citation(origin="openai-chat", data=note, url="https://cats.example", title="C"),
    )


@pytest.mark.parametrize(
    ("make", "tool", "sent"),
    [
        (
            OpenAIResponses,
            WebSearch(allowed_domains=("a.example",)),
            {"type": "web_search", "filters": {"allowed_domains": ["a.example"]}},
        ),
        (
            OpenAIResponses,
            CodeExecution(),
            {"type": "code_interpreter", "container": {"type": "auto"}},
        ),
        (
            OpenAIResponses,
            FileSearch(stores=("vs_1",)),
            {"type": "file_search", "vector_store_ids": ["vs_1"]},
        ),
        (
            AnthropicMessages,
            WebSearch(blocked_domains=("b.example",), max_uses=2),
            {
                "type": "web_search_20250305",
                "name": "web_search",
                "blocked_domains": ["b.example"],
                "max_uses": 2,
            },
        ),
        (
            AnthropicMessages,
            CodeExecution(),
            {"type": "code_execution_20250825", "name": "code_execution"},
        ),
        (GoogleGemini, CodeExecution(), {"codeExecution": {}}),
        (
            GoogleGemini,
            FileSearch(stores=("fileSearchStores/s",)),
            {"fileSearch": {"file_search_store_names": ["fileSearchStores/s"]}},
        ),
    ],
)
async def test_5n_a_providers_own_tool_is_on_the_wire_beside_the_agents(
    make: Any, tool: Any, sent: dict[str, Any]
) -> None:
    mine = (ToolDescriptor(id="look", name="look", description="Look."),)
    async with serving(make, refusal(400, {"error": {"message": "enough"}}), native=[tool]) as (
        model,
        server,
    ):
        with pytest.raises(InferenceExecutionError, match="enough"):
            await ask(model, upstream_model="gemini-3-pro", tools=mine)
    tools = server.requests[0].body["tools"]
    assert sent in tools
    assert "look" in json.dumps(tools)


@pytest.mark.parametrize(
    ("make", "tool", "why"),
    [
        (AnthropicMessages, FileSearch(stores=("s",)), "native tools are WebSearch"),
        (OpenAIResponses, WebSearch(max_uses=1), "cannot obey max_uses of WebSearch"),
        (GoogleGemini, WebSearch(allowed_domains=("a",)), "cannot obey allowed_domains"),
    ],
)
def test_5n_a_tool_that_a_provider_does_not_have_is_refused(make: Any, tool: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        make(api_key="sk-1", native=[tool])
