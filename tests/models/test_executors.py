"""What holds for every provider's connection, whatever its API looks like."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mock_server import Answer, WireServer, amazon_frame, sse

from awaken.core.event import TextDelta
from awaken.core.llm import InferenceRequest, InferenceTimeout, ProviderError
from awaken.core.message import Message
from awaken.models.anthropic import AnthropicMessages
from awaken.models.bedrock import BedrockConverse
from awaken.models.google import GoogleGemini
from awaken.models.openai import OpenAIChat, OpenAIResponses

pytestmark = pytest.mark.anyio

ASKED = InferenceRequest(upstream_model="m", messages=[Message.user("Hi")])

PROVIDERS: dict[str, tuple[Callable[..., Any], dict[str, Any], str, tuple[bytes, ...]]] = {
    "anthropic": (
        AnthropicMessages,
        {},
        "",
        sse(
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "text", "text": ""},
            },
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": "Well"},
            },
            names=True,
        ),
    ),
    "bedrock": (
        BedrockConverse,
        {"region": "eu-west-1"},
        "",
        (amazon_frame("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Well"}}),),
    ),
    "google": (
        GoogleGemini,
        {},
        "",
        sse(
            {
                "candidates": [
                    {"index": 0, "content": {"role": "model", "parts": [{"text": "Well"}]}}
                ]
            }
        ),
    ),
    "openai chat": (
        OpenAIChat,
        {},
        "/v1",
        sse({"choices": [{"index": 0, "delta": {"content": "Well"}, "finish_reason": None}]}),
    ),
    "openai responses": (
        OpenAIResponses,
        {},
        "/v1",
        sse({"type": "response.output_text.delta", "output_index": 0, "delta": "Well"}, names=True),
    ),
}
"""How each executor is made, the path of its API, and the beginning of an answer: "Well"."""


class Talk:
    """One executor, and a server that begins an answer and then holds it."""

    def __init__(self, provider: str, server: WireServer, **options: Any) -> None:
        make, fixed, path, _ = PROVIDERS[provider]
        self.server = server
        self.executor = make(api_key="key-1", base_url=server.url + path, **fixed, **options)
        self.stream = self.executor.execute_stream(ASKED)

    async def read(self, heard: list[str], began: asyncio.Event | None = None) -> None:
        """Read all of the answer; its text goes to `heard`."""
        async for event in self.stream:
            if isinstance(event, TextDelta):
                heard.append(event.delta)
                if began is not None:
                    began.set()


@asynccontextmanager
async def talking(provider: str, *, pieces: int = 2, **options: Any) -> AsyncIterator[Talk]:
    answer = Answer(pieces=PROVIDERS[provider][3][:pieces], held=True)
    async with WireServer([answer]) as server, asyncio.timeout(30):
        talk = Talk(provider, server, **options)
        try:
            yield talk
        finally:
            await talk.executor.aclose()


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_leaving_an_answer_closes_its_connection(provider: str) -> None:
    async with talking(provider) as talk:
        while not isinstance(event := await anext(talk.stream), TextDelta):
            pass
        assert event.delta == "Well"
        await talk.stream.aclose()
        await talk.server.left.wait()


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_cancelling_closes_the_connection(provider: str) -> None:
    async with talking(provider) as talk:
        began = asyncio.Event()
        task = asyncio.ensure_future(talk.read([], began))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await talk.server.left.wait()


@pytest.mark.parametrize("pieces", [0, 2], ids=["from the beginning", "in mid-stream"])
@pytest.mark.parametrize("provider", PROVIDERS)
async def test_silence_is_a_timeout(provider: str, pieces: int) -> None:
    heard: list[str] = []
    async with talking(provider, pieces=pieces, timeout=0.05) as talk:
        with pytest.raises(InferenceTimeout, match="silent for" if "openai" in provider else None):
            await talk.read(heard)
    assert heard == ["Well"] * (pieces > 0)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_nobody_there_is_a_connection_error(provider: str) -> None:
    async with WireServer() as server:
        talk = Talk(provider, server)
    with pytest.raises(ProviderError, match="connection error") as caught:
        await talk.read([])
    await talk.executor.aclose()
    assert type(caught.value) is ProviderError
