"""What recordings of real chat completions servers have shown; each test has its letter."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pytest
from mock_server import Answer, WireServer, sse

from awaken import Agent, ModelSettings, Runtime, tool
from awaken.core.answer_builder import StreamAccumulator
from awaken.core.inference import (
    InferenceOverride,
    OutputFormat,
    StopReason,
    StreamResult,
    TokenUsage,
)
from awaken.core.llm import (
    ContextOverflow,
    InferenceExecutionError,
    InferenceRequest,
    InvalidRequest,
    NoCredit,
    ProviderError,
)
from awaken.core.message import Image, Message, Opaque, Role, Text, Thinking, ToolCall, UrlSource
from awaken.core.tool import ToolDescriptor
from awaken.errors import InferenceFailed
from awaken.models.anthropic import AnthropicMessages
from awaken.models.bedrock import BedrockConverse
from awaken.models.google import GoogleGemini
from awaken.models.openai import ChatDialect, OpenAIChat, OpenAIResponses
from awaken.models.openai.providers import CHAT_PROVIDERS
from awaken.models.output_tool import OutputTool

pytestmark = pytest.mark.anyio


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "nothing"


LOOK = ToolDescriptor(id="look", name="look", description="Look.")
USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def answer(*events: object, **options: Any) -> Answer:
    return Answer(pieces=sse(*events), **options)


def refusal(status: int, body: object) -> Answer:
    return Answer(status=status, pieces=[json.dumps(body).encode()])


@asynccontextmanager
async def serving(
    *answers: Answer, name: str = "lab", dialect: ChatDialect | None = None, **options: Any
) -> AsyncIterator[tuple[OpenAIChat, WireServer]]:
    async with WireServer(answers) as server:
        model = OpenAIChat(
            name=name, base_url=f"{server.url}/v1", api_key="sk-1", dialect=dialect, **options
        )
        try:
            yield model, server
        finally:
            await model.aclose()


async def ask(model: OpenAIChat, *messages: Message, **fields: Any) -> StreamResult:
    request = InferenceRequest(
        upstream_model=fields.pop("upstream_model", "big"),
        messages=messages or (Message.user("Hi"),),
        **fields,
    )
    accumulator = StreamAccumulator()
    async for event in model.execute_stream(request):
        accumulator.push(event)
    return accumulator.finish()


# -- 5a: the end of a stream ------------------------------------------------------------------


async def test_5a_a_stream_with_usage_and_end_mark_is_complete_without_a_finish_reason() -> None:
    call = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{}"}}
    usage = {"choices": [], "usage": USAGE}
    async with serving(
        answer(chunk(content="Hello"), usage, "[DONE]"),
        answer(chunk(tool_calls=[call]), usage, "[DONE]", cut=True),
    ) as (model, _):
        said = await ask(model)
        assert (said.text(), said.stop_reason) == ("Hello", StopReason.END_TURN)
        assert said.usage is not None
        assert said.usage.total_tokens == 10
        called = await ask(model)
        assert called.stop_reason is StopReason.TOOL_USE


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([chunk(content="Hel")], id="neither"),
        pytest.param([chunk(content="Hel"), "[DONE]"], id="no usage"),
        # Some servers report usage with every chunk, so it does not show the end.
        pytest.param([{**chunk(content="Hel"), "usage": USAGE}], id="no end mark"),
        pytest.param(
            [{**chunk(content="\ndata: [DONE]"), "usage": USAGE}], id="the mark only in the text"
        ),
    ],
)
async def test_5a_a_stream_without_any_sign_of_its_end_is_cut_off(events: list[Any]) -> None:
    async with serving(answer(*events, unframed=True)) as (model, _):
        with pytest.raises(ProviderError, match="ended early"):
            await ask(model)


# -- 5e: parts that are not understood --------------------------------------------------------


async def test_5e_pictures_and_custom_calls_of_a_chat_are_kept_and_sent_back() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}
    reference = {"type": "reference", "reference_ids": [1]}
    custom = {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "sql", "input": "sel"}}
    rest = {"index": 0, "custom": {"input": "ect"}}
    first = answer(
        chunk(content=[{"type": "text", "text": ""}, reference], images=[picture]),
        chunk(tool_calls=[custom]),
        chunk("tool_calls", tool_calls=[rest]),
        "[DONE]",
    )
    async with serving(first, answer(chunk("stop", content="Ok"), "[DONE]")) as (model, server):
        said = await ask(model)
        history = Message(role=Role.ASSISTANT, content=said.content)
        await ask(model, Message.user("Hi"), history, Message.user("So?"))
    assert [type(block) for block in said.content] == [Opaque] * 3
    whole = {"type": "custom", "id": "c1", "custom": {"name": "sql", "input": "select"}}
    assert server.requests[1].body["messages"][1] == {
        "role": "assistant",
        "content": [reference],
        "images": [picture],
        "tool_calls": [whole],
    }


# -- 5f: reasoning between tags ---------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3, 100])
async def test_5f_tags_at_the_beginning_become_reasoning(size: int) -> None:
    text = "\n<think>\nTwo < three, </b> no </thin\n\nyes.\n</think>\n\nIt is <think>two</think>."
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    stream = [*(chunk(content=piece) for piece in pieces), chunk("stop"), "[DONE]"]
    async with serving(answer(*stream), answer(chunk("stop", content="Ok"), "[DONE]")) as (
        model,
        server,
    ):
        said = await ask(model)
        thought, spoken = said.content
        assert isinstance(thought, Thinking)
        assert thought.thinking == "Two < three, </b> no </thin\n\nyes."
        assert spoken == Text(text="It is <think>two</think>.")
        history = Message(role=Role.ASSISTANT, content=said.content)
        await ask(model, Message.user("Hi"), history, Message.user("Sure?"))
        # The makers of such models advise against sending their reasoning back.
        assert server.requests[1].body["messages"][1] == {
            "role": "assistant",
            "content": "It is <think>two</think>.",
        }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("<think>\n\n</think>\n\nYes.", (Text(text="Yes."),), id="without a thought"),
        pytest.param("<thi", (Text(text="<thi"),), id="no tag"),
        pytest.param("  <b>So</b>", (Text(text="  <b>So</b>"),), id="another tag"),
        pytest.param(" " * 300 + "So", (Text(text=" " * 300 + "So"),), id="much space"),
    ],
)
async def test_5f_text_without_reasoning_stays_as_it_is(text: str, expected: object) -> None:
    stream = [*(chunk(content=letter) for letter in text), chunk("stop"), "[DONE]"]
    async with serving(answer(*stream)) as (model, _):
        assert (await ask(model)).content == expected


async def test_5f_reasoning_that_is_cut_short_is_no_answer() -> None:
    async with serving(answer(chunk(content="<think>Hm"), chunk("length"), "[DONE]")) as (model, _):
        said = await ask(model)
        assert said.text() == ""
        assert said.stop_reason is StopReason.MAX_TOKENS


# -- 5h: usage under other names --------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"usage": {**USAGE, "num_cached_tokens": 4}}, id="Mistral"),
        pytest.param({"usage": {**USAGE, "cached_tokens": 4}}, id="Moonshot, Together, HF"),
        pytest.param({"usage": {**USAGE, "prompt_cache_hit_tokens": 4}}, id="DeepSeek"),
        pytest.param(
            {"usage": {**USAGE, "prompt_tokens_details": {"cached_tokens": 4}}}, id="OpenAI"
        ),
        pytest.param(
            {"x_groq": {"usage": {**USAGE, "prompt_tokens_details": {"cached_tokens": 4}}}},
            id="Groq",
        ),
    ],
)
async def test_5h_usage_is_read_under_every_name(fields: dict[str, Any]) -> None:
    stream = [chunk(content="Hi"), {**chunk("stop"), **fields}, "[DONE]"]
    async with serving(answer(*stream)) as (model, _):
        assert (await ask(model)).usage == TokenUsage(
            prompt_tokens=7, completion_tokens=3, total_tokens=10, cache_read_tokens=4
        )


# -- 5b: no money -----------------------------------------------------------------------------

NO_MONEY = [
    pytest.param(402, {"error": {"message": "Insufficient Balance"}}, id="DeepSeek"),
    pytest.param(
        402, {"error": {"message": "This request requires more credits"}}, id="OpenRouter"
    ),
    pytest.param(402, {"detail": "Payment required"}, id="Mistral"),
    pytest.param(
        429, {"error": {"code": "1113", "message": "Insufficient balance, recharge"}}, id="z.ai"
    ),
]


@pytest.mark.parametrize(("status", "body"), NO_MONEY)
async def test_5b_an_empty_account_fails_over_at_once(status: int, body: object) -> None:
    rich = serving(answer(chunk("stop", content="Here."), "[DONE]"), name="rich")
    async with serving(refusal(status, body), name="poor") as (poor, server), rich as (other, _):
        agent = Agent("helper", model=["poor:big", "rich:big"])
        async with Runtime([agent], models={"poor:big": poor, "rich:big": other}) as runtime:
            assert (await runtime.run("helper", "Hi")).response == "Here."
        assert len(server.requests) == 1


async def test_5b_an_empty_account_is_told_in_the_middle_of_a_stream_too() -> None:
    broke = {"error": {"code": 402, "message": "Insufficient credits"}}
    async with serving(answer(chunk(content="Hel"), broke)) as (model, _):
        with pytest.raises(NoCredit, match="Insufficient credits"):
            await ask(model)


# -- 5m: what failures say --------------------------------------------------------------------

RAW = {
    "message": "Provider returned error",
    "code": 400,
    "metadata": {
        "raw": json.dumps({"error": {"message": "This model's maximum context length is 8"}}),
        "provider_name": "Novita",
    },
}
MALFORMED = {
    "message": "Failed to call a function.",
    "type": "invalid_request_error",
    "code": "tool_use_failed",
    "failed_generation": "<function=f>{",
}


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        pytest.param(RAW, ContextOverflow, "Novita: This model's maximum", id="OpenRouter"),
        pytest.param(MALFORMED, ProviderError, "a function.: <function=f>{", id="Groq"),
        pytest.param(
            {"code": "1261", "message": "Prompt exceeds max length"},
            ContextOverflow,
            "Prompt exceeds",
            id="z.ai",
        ),
        pytest.param(
            {"message": "Invalid request: Your request exceeded model token limit: 8192"},
            ContextOverflow,
            "token limit",
            id="Moonshot",
        ),
    ],
)
async def test_5m_a_failure_is_the_same_in_a_body_and_in_a_stream(
    error: dict[str, Any], kind: type[InferenceExecutionError], said: str
) -> None:
    body = {"error": error}
    async with serving(refusal(400, body), answer(chunk(content="Hel"), body)) as (model, _):
        for _ in ("body", "stream"):
            with pytest.raises(kind, match=said) as raised:
                await ask(model)
            assert type(raised.value) is kind


# -- 5g: ids of calls that a provider uses again ----------------------------------------------


def turn(id: str, at: str) -> list[Message]:
    """A call and its result."""
    call = ToolCall(id=id, name="f", arguments={"at": at})
    return [Message.assistant_with_tool_calls("", [call]), Message.tool(id, at)]


BEDROCK = partial(BedrockConverse, region="eu-west-1")


@pytest.mark.parametrize(
    ("make", "call", "result"),
    [
        (OpenAIChat, '"tool_calls": [{"id": "', '"tool_call_id": "'),
        (OpenAIResponses, '"function_call", "call_id": "', '"function_call_output", "call_id": "'),
        (AnthropicMessages, '"tool_use", "id": "', '"tool_use_id": "'),
        (BEDROCK, '"toolUse": {"toolUseId": "', '"toolResult": {"toolUseId": "'),
    ],
)
async def test_5g_ids_that_come_again_are_made_unique(make: Any, call: str, result: str) -> None:
    history = [Message.user("Hi"), *turn("call_0", "a"), *turn("call_0", "b")]
    model = make(base_url="http://localhost:1", api_key="sk-1")
    body = model.preview(InferenceRequest(upstream_model="m", messages=history))
    calls, results = (
        re.findall(rf"{re.escape(before)}(\w+)", json.dumps(body)) for before in (call, result)
    )
    assert calls == results
    assert calls[0] == "call_0" != calls[1]


# -- 5k: Mistral, and Gemini at Google's OpenAI endpoint --------------------------------------

MISTRAL = CHAT_PROVIDERS["mistral"].dialect
GOOGLE = CHAT_PROVIDERS["google-openai"].dialect


async def test_5k_mistrals_thinking_goes_back_as_it_came() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    first = answer(chunk(content=[thought]), chunk(content="Yes."), chunk("stop"), "[DONE]")
    async with serving(
        first, answer(chunk("stop", content="Ok"), "[DONE]"), name="mistral", dialect=MISTRAL
    ) as (model, server):
        said = await ask(model)
        history = Message(role=Role.ASSISTANT, content=said.content)
        await ask(model, Message.user("Hi"), history, Message.user("Sure?"))
    assert server.requests[1].body["messages"][1] == {
        "role": "assistant",
        "content": [thought, {"type": "text", "text": "Yes."}],
    }


async def test_5k_mistral_gets_short_ids_and_an_answer_before_the_user_speaks() -> None:
    history = [Message.user("Hi"), *turn("toolu_01A", "a"), *turn("abcdefgh1", "b")]
    image = Image(source=UrlSource(url="https://example.com/cat.png"))
    history += [*turn("x", "c")[:1], Message.tool_with_content("x", [image])]
    async with serving(answer(chunk("stop", content="Ok"), "[DONE]"), dialect=MISTRAL) as (
        model,
        server,
    ):
        await ask(model, *history, Message.user("So?"))
    sent = server.requests[0].body["messages"]
    ids = [message["tool_call_id"] for message in sent if message["role"] == "tool"]
    assert ids[1] == "abcdefgh1"
    assert all(len(id) == 9 and id.isalnum() for id in ids)
    roles = [message["role"] for message in sent]
    assert roles[-4:] == ["tool", "assistant", "user", "user"]
    assert sent[-3]["content"]


async def test_5k_google_gets_the_signatures_of_its_calls_back() -> None:
    signed = {"google": {"thought_signature": "c2ln"}}
    call = {
        "index": 0,
        "id": "c1",
        "type": "function",
        "function": {"name": "f", "arguments": "{}"},
        "extra_content": signed,
    }
    first = answer(chunk("tool_calls", tool_calls=[call]), "[DONE]")
    ok = answer(chunk("stop", content="Ok"), "[DONE]")
    async with serving(first, ok, dialect=GOOGLE) as (model, server):
        said = await ask(model)
        again = Message(role=Role.ASSISTANT, content=(), tool_calls=said.tool_calls)
        await ask(model, Message.user("Hi"), again, Message.tool("c1", "1"))
        assert server.requests[1].body["messages"][1]["tool_calls"][0]["extra_content"] == signed
    other = OpenAIChat(base_url="http://localhost:1", api_key="sk-1")
    request = InferenceRequest(upstream_model="m", messages=[Message.user("Hi"), again])
    assert "extra_content" not in str(other.preview(request))


@pytest.mark.parametrize("name", sorted(CHAT_PROVIDERS))
def test_a_server_of_the_table_is_known_by_its_address(name: str) -> None:
    known = CHAT_PROVIDERS[name]
    model = OpenAIChat(base_url=known.url, api_key="sk-1")
    request = InferenceRequest(
        upstream_model="m", messages=[Message.user("Hi")], overrides=InferenceOverride(max_tokens=5)
    )
    assert model.preview(request)[known.dialect.max_tokens_field] == 5
    assert model.abilities("m").native_output is known.dialect.native_output


@pytest.mark.parametrize(
    ("name", "model", "effort", "allowed"),
    [
        # These models reason unless they are told not to, and cannot be forced meanwhile.
        ("deepseek", "deepseek-v4-flash", None, ["none"]),
        ("deepseek", "deepseek-v4-flash", "none", ["none", "required", "look"]),
        ("deepseek", "deepseek-chat", None, ["none", "required", "look"]),
        ("moonshot", "kimi-k2.6", None, ["none"]),
        ("moonshot", "kimi-k2.6", "none", ["none", "required", "look"]),
        ("moonshot", "kimi-k3", None, ["none", "required", "look"]),
        ("zai", "glm-5.3", None, []),
    ],
)
def test_5l_a_call_is_forced_only_where_the_model_takes_that(
    name: str, model: str, effort: Any, allowed: list[str]
) -> None:
    asked = OpenAIChat(base_url=CHAT_PROVIDERS[name].url, api_key="sk-1")
    for choice in ("none", "required", "look"):
        overrides = InferenceOverride(tool_choice=choice, reasoning_effort=effort, temperature=0.5)
        request = InferenceRequest(
            upstream_model=model, messages=[Message.user("Hi")], tools=(LOOK,), overrides=overrides
        )
        if choice not in allowed:
            with pytest.raises(InvalidRequest, match="cannot obey tool_choice"):
                asked.preview(request)
        else:
            assert "tool_choice" in asked.preview(request)


# -- 5d, 5i, 5j -------------------------------------------------------------------------------

SEARCH = {"type": "web_search"}


@pytest.mark.parametrize("make", [OpenAIChat, OpenAIResponses, AnthropicMessages])
def test_5d_tools_of_extra_body_and_of_settings_are_added(make: Any) -> None:
    model = make(base_url="http://localhost:1", api_key="sk-1", extra_body={"tools": [SEARCH]})
    settings = InferenceOverride(extra={"tools": [{"type": "code"}]})
    request = InferenceRequest(
        upstream_model="m", messages=[Message.user("Hi")], tools=(LOOK,), overrides=settings
    )
    types = [tool.get("type", "custom") for tool in model.preview(request)["tools"]]
    assert sorted(types[1:]) == ["code", "web_search"]
    assert types[0] in ("function", "custom")


def test_5d_tools_of_geminis_config_and_of_settings_are_added() -> None:
    model = GoogleGemini(api_key="sk-1", config={"tools": [{"google_search": {}}]})
    settings = InferenceOverride(extra={"tools": [{"code_execution": {}}]})
    request = InferenceRequest(
        upstream_model="gemini-3-pro",
        messages=[Message.user("Hi")],
        tools=(LOOK,),
        overrides=settings,
    )
    body: Any = model.preview(request)
    names = [next(iter(tool)) for tool in body["config"]["tools"]]
    assert names == ["google_search", "function_declarations", "code_execution"]


async def test_5d_anthropics_tools_are_on_the_wire() -> None:
    async with WireServer([refusal(400, {"error": {"message": "enough"}})]) as server:
        model = AnthropicMessages(
            base_url=server.url, api_key="sk-1", extra_body={"tools": [SEARCH], "top_k": 5}
        )
        with pytest.raises(InvalidRequest, match="enough"):
            async for _ in model.execute_stream(
                InferenceRequest(upstream_model="m", messages=[Message.user("Hi")], tools=(LOOK,))
            ):
                pass
        await model.aclose()
    body = server.requests[0].body
    assert [tool.get("name") for tool in body["tools"]] == ["look", None]
    assert body["top_k"] == 5


async def test_5i_a_model_that_may_not_stream_answers_at_once() -> None:
    call = {"id": "c1", "function": {"name": "look", "arguments": "{}"}}
    message = {"role": "assistant", "content": "Let me see.", "tool_calls": [call]}
    whole = {"choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": USAGE}
    output = [
        {"type": "message", "content": [{"type": "output_text", "text": "Let me see."}]},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
    ]
    usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    response = {"status": "completed", "output": output, "usage": usage}
    for make, body in ((OpenAIChat, whole), (OpenAIResponses, response)):
        plain = Answer(
            pieces=[json.dumps(body).encode()], headers={"content-type": "application/json"}
        )
        async with WireServer([plain]) as server:
            model: Any = make(base_url=f"{server.url}/v1", api_key="sk-1", stream=False)
            said = await ask(model)
            await model.aclose()
        assert (said.text(), said.stop_reason) == ("Let me see.", StopReason.TOOL_USE)
        assert said.tool_calls == (ToolCall(id="c1", name="look", arguments={}),)
        assert said.usage is not None
        assert said.usage.total_tokens == 10
        assert not {"stream", "stream_options"} & server.requests[0].body.keys()


def test_5i_a_summary_of_reasoning_is_asked_for_only_if_it_is_wanted() -> None:
    request = InferenceRequest(upstream_model="gpt-5", messages=[Message.user("Hi")])
    assert "reasoning" not in OpenAIResponses(api_key="sk-1").preview(request)
    wanted = OpenAIResponses(api_key="sk-1", reasoning_summary="auto")
    assert wanted.preview(request)["reasoning"] == {"summary": "auto"}


async def test_5j_a_server_that_refuses_schemas_gets_a_tool_and_is_asked_once() -> None:
    class City(msgspec.Struct):
        name: str

    call = {"index": 0, "id": "c1", "function": {"name": "final_answer", "arguments": '{"name":'}}
    rest = {"index": 0, "function": {"arguments": '"Rome"}'}}
    told = answer(chunk(tool_calls=[call]), chunk(tool_calls=[rest]), chunk("tool_calls"), "[DONE]")
    refused = refusal(400, {"error": {"message": "This response_format type is unavailable now"}})
    async with serving(refused, told, told) as (model, server):
        agent = Agent("guide", model="lab:big", output=City)
        async with Runtime([agent], models={"lab:big": model}) as runtime:
            for _ in range(2):
                assert (await runtime.run("guide", "Where?")).output == City(name="Rome")
    first, *others = [request.body for request in server.requests]
    assert first["response_format"]["type"] == "json_schema"
    for body in others:
        assert "response_format" not in body
        assert body["tools"][0]["function"]["name"] == "final_answer"


async def test_5j_another_refusal_is_not_taken_for_one_of_schemas() -> None:
    async with serving(refusal(400, {"error": {"message": "too many cooks"}})) as (model, server):
        request = InferenceRequest(
            upstream_model="big",
            messages=[Message.user("Hi")],
            output=OutputFormat(name="city", schema={"type": "object"}),
        )
        with pytest.raises(InvalidRequest, match="cooks"):
            async for _ in OutputTool(model).execute_stream(request):
                pass
        assert len(server.requests) == 1


# -- models that the table does not know yet --------------------------------------------------


REFUSALS = [
    ("temperature", "Unsupported parameter: 'temperature' is not supported with this model."),
    ("temperature", "Unsupported value: 'temperature' does not support 0.2 with this model."),
    ("temperature", "`temperature` is deprecated for this model."),
    ("top_p", "`top_p` cannot be specified for this model"),
    ("seed", "seed: Extra inputs are not permitted"),
    ("parallel_tool_calls", "Unsupported parameter: 'parallel_tool_calls'"),
    ("reasoning_effort", "Unrecognized request argument supplied: reasoning_effort"),
]


@pytest.mark.parametrize(("name", "words"), REFUSALS)
async def test_a_setting_that_a_new_model_refuses_is_left_out_from_then_on(
    name: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ModelSettings(
        temperature=0.2, top_p=0.5, seed=7, parallel_tool_calls=False, reasoning_effort="low"
    )
    hello = answer(chunk(content="Hello"), chunk("stop"), "[DONE]")
    refused = refusal(400, {"error": {"message": words, "type": "invalid_request_error"}})
    async with serving(refused, hello, hello) as (model, server):
        agent = Agent("a", model="lab:gpt-9", settings=settings, tools=[look])
        async with Runtime([agent], models={"lab:gpt-9": model}) as runtime:
            for _ in range(2):
                assert (await runtime.run("a", "Hi")).response == "Hello"

    first, *others = [request.body for request in server.requests]
    assert len(others) == 2
    for body in others:
        assert first.keys() - body.keys() == {name}
    (warning,) = [text for text in caplog.messages if "refuses" in text]
    assert warning.startswith(f"model gpt-9 refuses {name}, which is left out now: ")


async def test_several_refused_settings_are_learned_one_by_one() -> None:
    def refused(name: str) -> Answer:
        return refusal(400, {"error": {"message": f"Unsupported parameter: '{name}'"}})

    hello = answer(chunk(content="Hello"), chunk("stop"), "[DONE]")
    async with serving(refused("top_p"), refused("temperature"), hello) as (model, server):
        agent = Agent("a", model="lab:x", settings=ModelSettings(temperature=0.2, top_p=0.5))
        async with Runtime([agent], models={"lab:x": model}) as runtime:
            assert (await runtime.run("a", "Hi")).response == "Hello"
            last = {"temperature", "top_p"} & server.requests[-1].body.keys()
            shown: Any = runtime.preview("a", await _last_request(runtime))

    assert not last
    assert not {"temperature", "top_p"} & shown.keys()


async def _last_request(runtime: Runtime) -> InferenceRequest:
    (thread,) = (await runtime.list_threads()).items
    message = (await runtime.messages(thread.id))[-1]
    return await runtime.load_request(thread.id, message.id or "")


@pytest.mark.parametrize(
    "words",
    ["temperature must be between 0 and 2", "'tool_choice' is not supported with this model"],
)
async def test_a_wrong_value_and_a_setting_with_a_meaning_are_not_left_out(words: str) -> None:
    async with serving(refusal(400, {"error": {"message": words}})) as (model, server):
        agent = Agent(
            "a",
            model="lab:x",
            settings=ModelSettings(temperature=5, tool_choice="look"),
            tools=[look],
        )
        async with Runtime([agent], models={"lab:x": model}) as runtime:
            with pytest.raises(InferenceFailed, match=re.escape(words)):
                await runtime.run("a", "Hi")
    assert len(server.requests) == 1


@pytest.mark.parametrize("name", ["deepseek", "groq"])
def test_5j_the_table_knows_servers_without_schemas(name: str) -> None:
    model = OpenAIChat(base_url=CHAT_PROVIDERS[name].url, api_key="sk-1")
    assert not model.abilities("any").native_output
