"""The Converse API of Amazon Bedrock, over a real socket, in Amazon's binary frames."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mock_server import Answer, WireServer
from mock_server import amazon_frame as frame

from awaken.core.answer_builder import StreamAccumulator
from awaken.core.inference import InferenceOverride, StopReason, StreamResult, TokenUsage
from awaken.core.llm import (
    ContentFiltered,
    ContextOverflow,
    InferenceExecutionError,
    InferenceRequest,
    InvalidRequest,
    ModelMissing,
    ProviderError,
    RateLimited,
    Unauthorized,
)
from awaken.core.message import (
    Base64Source,
    Citation,
    Document,
    Image,
    Message,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolCall,
    UrlSource,
)
from awaken.core.tool import ToolDescriptor
from awaken.models.bedrock import BedrockConverse
from awaken.models.wire import wire_name

pytestmark = pytest.mark.anyio

NOVA = "us.amazon.nova-pro-v1:0"
LOOK = ToolDescriptor(id="look", name="look", description="Look.")
HI = Message.user("Hi")


def delta(index: int, **fields: Any) -> bytes:
    return frame("contentBlockDelta", {"contentBlockIndex": index, "delta": fields})


def end(index: int) -> bytes:
    return frame("contentBlockStop", {"contentBlockIndex": index})


def stop(reason: str) -> bytes:
    return frame("messageStop", {"stopReason": reason})


def refusal(status: int, message: str) -> Answer:
    return Answer(status=status, pieces=[json.dumps({"message": message}).encode()])


def start_of(name: str) -> dict[str, Any]:
    return {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "t1", "name": name}}}


CALLED = (
    frame("messageStart", {"role": "assistant"}),
    delta(0, reasoningContent={"text": "Hm."}),
    delta(0, reasoningContent={"signature": "c2ln"}),
    end(0),
    delta(1, text="Let me "),
    delta(1, text="see."),
    end(1),
    frame("contentBlockStart", start_of("look")),
    delta(2, toolUse={"input": '{"at": '}),
    delta(2, toolUse={"input": '"sea"}'}),
    end(2),
    stop("tool_use"),
    frame("metadata", {"usage": {"inputTokens": 5, "outputTokens": 7, "totalTokens": 12}}),
)
SAID = (delta(0, text="Ok"), end(0), stop("end_turn"))


@asynccontextmanager
async def serving(*answers: Answer, **options: Any) -> AsyncIterator[tuple[Any, WireServer]]:
    async with WireServer(answers) as server:
        options = {"api_key": "key-1", **options}
        model = BedrockConverse(base_url=server.url, region="eu-west-1", **options)
        try:
            yield model, server
        finally:
            await model.aclose()


async def ask(model: BedrockConverse, *messages: Message, **fields: Any) -> StreamResult:
    accumulator = StreamAccumulator()
    request = InferenceRequest(upstream_model=NOVA, messages=messages or (HI,), **fields)
    async for event in model.execute_stream(request):
        accumulator.push(event)
    return accumulator.finish()


async def test_text_reasoning_calls_and_usage_are_read_and_go_back() -> None:
    whole = b"".join(CALLED)
    # The frames arrive in pieces that do not fit them.
    pieces = [whole[at : at + 37] for at in range(0, len(whole), 37)]
    async with serving(Answer(pieces=pieces), Answer(pieces=SAID)) as (model, server):
        answer = await ask(model, tools=(LOOK,))
        assert answer.content == (
            Thinking(thinking="Hm.", signature="c2ln", origin="bedrock"),
            Text(text="Let me see."),
        )
        assert answer.tool_calls == (ToolCall(id="t1", name="look", arguments={"at": "sea"}),)
        assert answer.stop_reason is StopReason.TOOL_USE
        assert answer.usage == TokenUsage(prompt_tokens=5, completion_tokens=7, total_tokens=12)
        history = Message(role=Role.ASSISTANT, content=answer.content, tool_calls=answer.tool_calls)
        said = await ask(model, HI, history, Message.tool("t1", "Waves."), tools=(LOOK,))
        assert said.text() == "Ok"
    first, second = server.requests
    assert first.path == "/model/us.amazon.nova-pro-v1%3A0/converse-stream"
    assert first.headers["authorization"] == "Bearer key-1"
    assert first.body["toolConfig"]["tools"][0]["toolSpec"]["name"] == "look"
    thought = {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}
    assert second.body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": thought},
                {"text": "Let me see."},
                {"toolUse": {"toolUseId": "t1", "name": "look", "input": {"at": "sea"}}},
            ],
        },
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "t1", "content": [{"text": "Waves."}]}}],
        },
    ]


async def test_a_name_that_is_refused_is_another_on_the_wire_alone() -> None:
    """08/EX-6"""
    long = "shop." * 20 + "look"
    wire = wire_name(long)
    assert len(wire) <= 64
    called = b"".join(CALLED).replace(frame("contentBlockStart", start_of("look")), b"")
    at = called.index(delta(2, toolUse={"input": '{"at": '}))
    called = called[:at] + frame("contentBlockStart", start_of(wire)) + called[at:]
    tools = (ToolDescriptor(id=long, name=long, description="Look."),)
    async with serving(Answer(pieces=[called]), Answer(pieces=SAID)) as (model, server):
        answer = await ask(model, tools=tools)
        assert [call.name for call in answer.tool_calls] == [long]
        history = Message(role=Role.ASSISTANT, content=answer.content, tool_calls=answer.tool_calls)
        await ask(model, HI, history, Message.tool("t1", "Waves."), tools=tools)
    first, second = server.requests
    assert first.body["toolConfig"]["tools"][0]["toolSpec"]["name"] == wire
    assert second.body["messages"][1]["content"][-1]["toolUse"]["name"] == wire


async def test_requests_are_signed_with_the_credentials_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    async with serving(Answer(pieces=SAID), api_key=None) as (model, server):
        await ask(model)
    signed = server.requests[0].headers["authorization"]
    assert signed.startswith("AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/")
    assert "/eu-west-1/bedrock/aws4_request" in signed


def test_settings_media_and_system_messages_have_their_places() -> None:
    png = Base64Source(media_type="image/png", data="iVBO")
    pdf = Document(source=Base64Source(media_type="application/pdf", data="JVBE"), title="a.b.pdf")
    overrides = InferenceOverride(
        max_tokens=9, temperature=0.5, top_p=0.9, stop=["END"], tool_choice="look", extra={"k": 1}
    )
    body = BedrockConverse(region="eu-west-1", api_key="key-1").preview(
        InferenceRequest(
            upstream_model=NOVA,
            messages=[
                Message.system("Be kind."),
                Message.user_with_content([Text(text="See"), Image(source=png), pdf]),
                Message.system("Be brief."),
                Message.user("So?"),
            ],
            system=(Text(text="Be good."),),
            tools=(LOOK,),
            overrides=overrides,
        )
    )
    assert body["system"] == [{"text": "Be good."}, {"text": "Be kind."}]
    assert body["inferenceConfig"] == {
        "maxTokens": 9,
        "temperature": 0.5,
        "topP": 0.9,
        "stopSequences": ["END"],
    }
    assert body["toolConfig"]["toolChoice"] == {"tool": {"name": "look"}}
    assert body["additionalModelRequestFields"] == {"k": 1}
    (only,) = body["messages"]
    assert only["content"] == [
        {"text": "See"},
        {"image": {"format": "png", "source": {"bytes": "iVBO"}}},
        {"document": {"format": "pdf", "source": {"bytes": "JVBE"}, "name": "a b pdf 1"}},
        {"text": "<system_message>\nBe brief.\n</system_message>"},
        {"text": "So?"},
    ]


@pytest.mark.parametrize(
    ("message", "overrides", "why"),
    [
        (
            Message.user_with_content([Image(source=UrlSource(url="https://a.example/b.png"))]),
            None,
            r"does not support Image input at messages\[0\]\.content\[0\]",
        ),
        (HI, InferenceOverride(tool_choice="none"), "cannot obey tool_choice"),
    ],
)
def test_what_the_api_cannot_take_is_refused(
    message: Message, overrides: InferenceOverride | None, why: str
) -> None:
    request = InferenceRequest(
        upstream_model=NOVA, messages=[message], tools=(LOOK,), overrides=overrides
    )
    with pytest.raises(InvalidRequest, match=why):
        BedrockConverse(region="eu-west-1", api_key="key-1").preview(request)


def test_a_conversation_with_calls_has_tools_even_if_none_is_offered() -> None:
    call = ToolCall(id="t1", name="gone", arguments={})
    history = [HI, Message.assistant_with_tool_calls("", [call]), Message.tool("t1", "1")]
    body = BedrockConverse(region="eu-west-1", api_key="key-1").preview(
        InferenceRequest(upstream_model=NOVA, messages=history)
    )
    assert [tool["toolSpec"]["name"] for tool in body["toolConfig"]["tools"]] == ["gone"]


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (refusal(403, "not allowed"), Unauthorized, "not allowed"),
        (refusal(429, "Too many requests"), RateLimited, "Too many"),
        (refusal(400, "The provided model identifier is invalid."), ModelMissing, "identifier"),
        (refusal(400, "Input is too long for requested model."), ContextOverflow, "too long"),
        (
            Answer(
                pieces=[
                    delta(0, text="So"),
                    frame("throttlingException", {"message": "slow down"}, "exception"),
                ]
            ),
            RateLimited,
            "throttlingException in mid-stream: slow down",
        ),
        (Answer(pieces=[delta(0, text="So")]), ProviderError, "ended early"),
        (Answer(pieces=[delta(0, text="So")[:-9]], cut=True), ProviderError, "connection reset"),
        (Answer(pieces=[stop("guardrail_intervened")]), ContentFiltered, "guardrail"),
        (Answer(pieces=[b"x" * 40]), ProviderError, "makes no sense"),
    ],
)
async def test_failures_are_told_by_their_kind(
    answer: Answer, kind: type[InferenceExecutionError], said: str
) -> None:
    async with serving(answer) as (model, _):
        with pytest.raises(kind, match=said) as raised:
            await ask(model)
    assert type(raised.value) is kind


def start(index: int, **fields: Any) -> bytes:
    return frame("contentBlockStart", {"contentBlockIndex": index, "start": fields})


async def test_5e_5n_amazons_own_tools_pictures_and_citations_are_kept_and_sent_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    use = {"toolUseId": "s1", "name": "nova_grounding", "type": "server_tool_use"}
    result = {"toolUseId": "s1", "type": "nova_grounding_result", "status": "success"}
    source = {"location": {"web": {"url": "https://a.example", "domain": "a.example"}}}
    first = (
        start(0, toolUse=use),
        delta(0, toolUse={"input": '{"query": '}),
        delta(0, toolUse={"input": '"cats"}'}),
        end(0),
        start(1, toolResult=result),
        delta(1, toolResult=[{"json": {"found": 1}}]),
        delta(1, toolResult=[{"text": "Cats."}]),
        end(1),
        delta(2, text="Cats."),
        delta(2, citation=source),
        end(2),
        start(3, image={"format": "png"}),
        delta(3, image={"source": {"bytes": "iVBO"}}),
        end(3),
        stop("end_turn"),
    )
    async with serving(Answer(pieces=first), Answer(pieces=SAID)) as (model, server):
        answer = await ask(model)
        history = Message(role=Role.ASSISTANT, content=answer.content)
        await ask(model, HI, history, HI)
    kinds = [block.kind if isinstance(block, Opaque) else type(block) for block in answer.content]
    assert kinds == ["toolUse", "toolResult", Text, Citation, "image"]
    assert answer.content[3] == Citation(origin="bedrock", data=source, url="https://a.example")
    assert server.requests[1].body["messages"][1]["content"] == [
        {"toolUse": {**use, "input": {"query": "cats"}}},
        {"toolResult": {**result, "content": [{"json": {"found": 1}}, {"text": "Cats."}]}},
        {"text": "Cats."},
        {"image": {"format": "png", "source": {"bytes": "iVBO"}}},
    ]
    assert ["'image'" in text for text in caplog.messages] == [True]
