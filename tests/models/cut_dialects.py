"""The dialects: how each is opened and asked, and how its requests and answers read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Protocol

from awaken.models.anthropic import AnthropicMessages
from awaken.models.bedrock import BedrockConverse
from awaken.models.google import GoogleGemini
from awaken.models.openai import OpenAIChat, OpenAIResponses

KEY = "sk-test-0123456789"

Line = tuple[str, str]
"""Who (`user`, `model`, `call` or `result`), and what: a text, or the id of a call."""
Executor = OpenAIChat | OpenAIResponses | AnthropicMessages | GoogleGemini | BedrockConverse


class Dialect(Protocol):
    """How one API is spoken; `model` is the name of a model behind it, `path` where it is asked."""

    @property
    def model(self) -> str: ...

    @property
    def path(self) -> str: ...

    def open(self, url: str) -> Executor: ...

    def question(self, text: str) -> dict[str, Any]:
        """A request with one question in it."""
        ...

    def lines(self, body: Any) -> Iterator[Line]:
        """The conversation in a request."""
        ...

    def events(self, answer: bytes) -> list[bytes]:
        """The events of an answer, each whole."""
        ...


class _ServerSent:
    def events(self, answer: bytes) -> list[bytes]:
        return [event + b"\n\n" for event in answer.split(b"\n\n") if event]


class Chat(_ServerSent):
    """OpenAI's chat completions, and everybody's like them."""

    model = "openai-chat:gpt-4.1"
    path = "/v1/chat/completions"

    def open(self, url: str) -> Executor:
        return OpenAIChat(base_url=f"{url}/v1", api_key=KEY)

    def question(self, text: str) -> dict[str, Any]:
        options = {"stream": True, "stream_options": {"include_usage": True}}
        return {"model": "m", "messages": [{"role": "user", "content": text}], **options}

    def lines(self, body: Any) -> Iterator[Line]:
        for message in body["messages"]:
            if message["role"] == "tool":
                yield "result", message["tool_call_id"]
            elif text := _text(message.get("content")):
                yield _WHO[message["role"]], text
            for call in message.get("tool_calls") or ():
                yield "call", call["id"]


class Responses(_ServerSent):
    """OpenAI's responses."""

    model = "openai:gpt-5"
    path = "/v1/responses"

    def open(self, url: str) -> Executor:
        return OpenAIResponses(base_url=f"{url}/v1", api_key=KEY)

    def question(self, text: str) -> dict[str, Any]:
        return {"model": "m", "input": [{"role": "user", "content": text}], "stream": True}

    def lines(self, body: Any) -> Iterator[Line]:
        for item in body["input"]:
            match item.get("type", "message"):
                case "message":
                    yield _WHO[item["role"]], _text(item["content"])
                case "function_call":
                    yield "call", item["call_id"]
                case "function_call_output":
                    yield "result", item["call_id"]


class Messages(_ServerSent):
    """Anthropic's messages."""

    model = "anthropic:claude-opus-5-5"
    path = "/v1/messages"

    def open(self, url: str) -> Executor:
        return AnthropicMessages(api_key=KEY, base_url=url)

    def question(self, text: str) -> dict[str, Any]:
        options = {"stream": True, "max_tokens": 1_000}
        return {"model": "m", "messages": [{"role": "user", "content": text}], **options}

    def lines(self, body: Any) -> Iterator[Line]:
        for message in body["messages"]:
            for block in message["content"]:
                match block["type"]:
                    case "text":
                        yield _WHO[message["role"]], block["text"]
                    case "tool_use":
                        yield "call", block["id"]
                    case "tool_result":
                        yield "result", block["tool_use_id"]


class Gemini(_ServerSent):
    """Google's contents."""

    model = "google:gemini-3-pro"
    path = "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"

    def open(self, url: str) -> Executor:
        return GoogleGemini(api_key=KEY, base_url=url, api_version="v1beta")

    def question(self, text: str) -> dict[str, Any]:
        return {"contents": [{"role": "user", "parts": [{"text": text}]}]}

    def lines(self, body: Any) -> Iterator[Line]:
        for content in body["contents"]:
            for part in content["parts"]:
                if "functionCall" in part:
                    yield "call", part["functionCall"]["id"]
                elif "functionResponse" in part:
                    yield "result", part["functionResponse"]["id"]
                elif not part.get("thought"):
                    yield _WHO[content["role"]], part["text"]


class Converse:
    """Amazon's conversations, in frames."""

    model = "bedrock-converse:amazon.nova-pro-v1:0"
    path = "/model/amazon.nova-pro-v1%3A0/converse-stream"

    def open(self, url: str) -> Executor:
        return BedrockConverse(base_url=url, region="eu-west-1", api_key=KEY)

    def question(self, text: str) -> dict[str, Any]:
        return {"messages": [{"role": "user", "content": [{"text": text}]}]}

    def lines(self, body: Any) -> Iterator[Line]:
        for message in body["messages"]:
            for block in message["content"]:
                if "toolUse" in block:
                    yield "call", block["toolUse"]["toolUseId"]
                elif "toolResult" in block:
                    yield "result", block["toolResult"]["toolUseId"]
                elif "text" in block:
                    yield _WHO[message["role"]], block["text"]

    def events(self, answer: bytes) -> list[bytes]:
        frames: list[bytes] = []
        while answer:
            (length,) = struct.unpack("!I", answer[:4])
            frames.append(answer[:length])
            answer = answer[length:]
        return frames


DIALECTS: dict[str, Dialect] = {
    "chat": Chat(),
    "responses": Responses(),
    "anthropic": Messages(),
    "gemini": Gemini(),
}
BROKEN: dict[str, Dialect] = {**DIALECTS, "converse": Converse()}
"""Those whose streams are broken off in every place."""

_WHO = {"user": "user", "assistant": "model", "model": "model"}


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part["text"] for part in content)
