"""The local model itself, asked through its executor and through the front door.

Not part of the normal suite: it needs the extra `local` and the weights. `make test-llm` runs it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from awaken import Agent, Runtime
from awaken.core.answer_builder import StreamAccumulator
from awaken.core.event import TextDelta
from awaken.core.inference import InferenceOverride, OutputFormat, StopReason, StreamResult
from awaken.core.llm import ContextOverflow, InferenceRequest, LlmStreamEvent
from awaken.core.message import Message
from awaken.models.local import LocalModel, open_local

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

FRANCE = Message.user("What is the capital of France?")
PERSON = OutputFormat(
    name="person",
    schema={
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 20},
            "age": {"type": "integer", "minimum": 0, "maximum": 120},
        },
        "required": ["name", "age"],
        "additionalProperties": False,
    },
)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def model(anyio_backend: str) -> AsyncIterator[LocalModel]:
    executor = open_local()
    yield executor
    await executor.aclose()


def request(*messages: Message, max_tokens: int = 40, **more: Any) -> InferenceRequest:
    overrides = InferenceOverride(max_tokens=max_tokens, temperature=0.0)
    return InferenceRequest(upstream_model="local", messages=messages, overrides=overrides, **more)


async def events(executor: LocalModel, asked: InferenceRequest) -> list[LlmStreamEvent]:
    return [event async for event in executor.execute_stream(asked)]


async def answer(executor: LocalModel, asked: InferenceRequest) -> StreamResult:
    collected = StreamAccumulator()
    for event in await events(executor, asked):
        collected.push(event)
    return collected.finish()


async def test_it_answers_in_pieces_and_counts_its_tokens(model: LocalModel) -> None:
    asked = request(Message.system("Be brief."), FRANCE)
    pieces = [e for e in await events(model, asked) if isinstance(e, TextDelta)]
    assert len(pieces) > 2
    result = await answer(model, asked)
    assert "Paris" in result.text()
    assert result.usage is not None
    assert result.usage.prompt_tokens
    assert result.usage.completion_tokens


async def test_it_knows_what_was_said_before(model: LocalModel) -> None:
    paris = Message.assistant("The capital of France is Paris.")
    result = await answer(model, request(FRANCE, paris, Message.user("And of Italy?")))
    assert "Rome" in result.text()


async def test_a_limit_ends_the_answer(model: LocalModel) -> None:
    result = await answer(model, request(Message.user("Tell me a long story."), max_tokens=5))
    assert result.stop_reason is StopReason.MAX_TOKENS


async def test_it_keeps_to_a_schema(model: LocalModel) -> None:
    asked = request(Message.user("Invent a person."), max_tokens=100, output=PERSON)
    person = json.loads((await answer(model, asked)).text())
    assert set(person) == {"name", "age"}
    assert isinstance(person["age"], int)


async def test_too_long_a_conversation_is_an_overflow(model: LocalModel) -> None:
    with pytest.raises(ContextOverflow):
        await answer(model, request(Message.user("word " * 9_000)))


async def test_leaving_an_answer_frees_the_model_for_the_next(model: LocalModel) -> None:
    came: asyncio.Queue[LlmStreamEvent] = asyncio.Queue()

    async def listen() -> None:
        asked = request(Message.user("Count to a thousand."), max_tokens=4_000)
        async for event in model.execute_stream(asked):
            came.put_nowait(event)

    asking = asyncio.ensure_future(listen())
    await came.get()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (await answer(model, request(Message.user("Say hi."), max_tokens=5))).text()


async def test_an_agent_talks_with_it_over_two_turns() -> None:
    model = LocalModel(max_tokens=20)
    agent = Agent("chat", model=model, system_prompt="Be brief.")
    async with Runtime([agent], store="memory:") as runtime:
        first = await runtime.run("chat", "What is the capital of France?", thread="t")
        second = await runtime.run("chat", "And of Italy?", thread="t")
    await model.aclose()
    assert first.response
    assert second.response
