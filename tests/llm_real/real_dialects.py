"""Our adapters against llama.cpp, an outside implementation of three providers' APIs.

Not part of the normal suite: it needs the extra `local` and the weights. `make test-llm` runs it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, Protocol

import pytest

from awaken.core.answer_builder import StreamAccumulator
from awaken.core.event import TextDelta
from awaken.core.inference import InferenceOverride, OutputFormat, StopReason, StreamResult
from awaken.core.llm import (
    ContextOverflow,
    InferenceExecutionError,
    InferenceRequest,
    LlmExecutor,
    LlmStreamEvent,
    Unauthorized,
)
from awaken.core.message import Message, Text
from awaken.core.secret import RedactedString
from awaken.models.anthropic import AnthropicMessages
from awaken.models.local.executor import ONE_REQUEST_EACH
from awaken.models.local.process import ModelProcess, find_bundled_model
from awaken.models.openai import OpenAIChat, OpenAIResponses

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

DIALECTS = ("chat", "responses", "messages")
ANSWER = OutputFormat(
    name="answer",
    schema={
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}, "sure": {"type": "boolean"}},
        "required": ["city", "sure"],
        "additionalProperties": False,
    },
)


class Closing(LlmExecutor, Protocol):
    async def aclose(self) -> None: ...


@pytest.fixture(scope="module")
def server() -> Iterator[ModelProcess]:
    process = ModelProcess(find_bundled_model(), context=2_048, threads=1)
    process.start()
    yield process
    process.stop()


def opened(dialect: str, url: str, key: RedactedString) -> Closing:
    if dialect == "chat":
        return OpenAIChat(base_url=f"{url}/v1", api_key=key, default_headers=ONE_REQUEST_EACH)
    if dialect == "responses":
        return OpenAIResponses(
            base_url=f"{url}/v1",
            api_key=key,
            default_headers=ONE_REQUEST_EACH,
            reasoning_summary=None,
            encrypted_reasoning=False,
        )
    return AnthropicMessages(base_url=url, api_key=key, default_headers=ONE_REQUEST_EACH)


@pytest.fixture(params=DIALECTS)
async def executor(request: pytest.FixtureRequest, server: ModelProcess) -> AsyncIterator[Closing]:
    made = opened(request.param, server.start(), server.key)
    yield made
    await made.aclose()


def question(*messages: Message, max_tokens: int = 40, **more: Any) -> InferenceRequest:
    return InferenceRequest(
        upstream_model="local",
        messages=messages,
        overrides=InferenceOverride(max_tokens=max_tokens, temperature=0.0),
        **more,
    )


async def events(executor: Closing, asked: InferenceRequest) -> list[LlmStreamEvent]:
    return [event async for event in executor.execute_stream(asked)]


async def answer(executor: Closing, asked: InferenceRequest) -> StreamResult:
    collected = StreamAccumulator()
    for event in await events(executor, asked):
        collected.push(event)
    return collected.finish()


async def test_text_comes_in_pieces_and_ends_with_its_usage(executor: Closing) -> None:
    asked = question(
        Message.user("What is the capital of France?"), system=(Text(text="Be brief."),)
    )
    seen = await events(executor, asked)
    pieces = [event.delta for event in seen if isinstance(event, TextDelta)]
    assert len(pieces) > 2
    assert "Paris" in "".join(pieces)
    result = await answer(executor, asked)
    assert result.stop_reason is StopReason.END_TURN
    assert result.usage is not None
    assert (result.usage.prompt_tokens or 0) > 5
    assert (result.usage.completion_tokens or 0) > 2


async def test_earlier_turns_are_understood(executor: Closing) -> None:
    asked = question(
        Message.user("What is the capital of France?"),
        Message.assistant("The capital of France is Paris."),
        Message.user("And of Italy?"),
    )
    assert "Rome" in (await answer(executor, asked)).text()


# llama.cpp says of every answer of the Responses API that it is complete.
@pytest.mark.parametrize("executor", ["chat", "messages"], indirect=True)
async def test_a_limit_ends_the_answer(executor: Closing) -> None:
    result = await answer(executor, question(Message.user("Tell me a story."), max_tokens=5))
    assert result.stop_reason is StopReason.MAX_TOKENS


# In the other two dialects llama.cpp does not look at the schema.
@pytest.mark.parametrize("executor", ["chat"], indirect=True)
async def test_a_schema_is_kept_to(executor: Closing) -> None:
    asked = question(
        Message.user("What is the capital of France? As JSON."), max_tokens=100, output=ANSWER
    )
    assert set(json.loads((await answer(executor, asked)).text())) == {"city", "sure"}


async def test_too_long_a_question_is_an_overflow(executor: Closing) -> None:
    with pytest.raises(ContextOverflow):
        await events(executor, question(Message.user("word " * 3_000)))


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_wrong_key_is_refused(server: ModelProcess, dialect: str) -> None:
    stranger = opened(dialect, server.start(), RedactedString("not-the-key"))
    with pytest.raises(InferenceExecutionError) as refused:
        await events(stranger, question(Message.user("hi")))
    assert isinstance(refused.value, Unauthorized)
    assert "not-the-key" not in str(refused.value)
    await stranger.aclose()
