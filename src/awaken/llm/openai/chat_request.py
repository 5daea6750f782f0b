"""Requests to the chat completions API. Pure: a request in, a plain dict out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from awaken.codec import loads
from awaken.contract.llm import InferenceRequest
from awaken.domain.inference import InferenceOverride, ReasoningBudget
from awaken.domain.message import (
    Audio,
    Base64Source,
    ContentBlock,
    Document,
    Image,
    Message,
    Role,
    Text,
    Thinking,
    ToolResultBlock,
)
from awaken.domain.value import Value
from awaken.llm.openai.content import (
    arguments_text,
    cache_key,
    calls_of,
    effort_name,
    effort_of,
    file_name,
    flat,
    json_format,
    media_url,
    sampling,
    texts,
    unsupported,
    wire_call_id,
    wire_name,
)
from awaken.llm.openai.schema import object_schema
from awaken.llm.settings import choice_of, extra_of

REASONING_FIELDS = ("reasoning_content", "reasoning")
"""The fields for reasoning: DeepSeek and llama.cpp use the first, OpenRouter and vLLM both."""

_AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}


class ChatDialect(Value, frozen=True, kw_only=True):
    """The differences between servers with a chat completions API.

    Args:
        max_tokens_field: the name of the field for the most tokens of an answer.
        system_role: the role of the system prompt.
        later_system_role: the role of system messages within the conversation. The prompt templates
            of some models take a system message only at the beginning, and need `user` here.
        effort: the field for reasoning effort: `reasoning_effort`, or OpenRouter's `reasoning`.
        send_reasoning: whether a server's reasoning is sent back to it, in the field it came in.
        include_usage: whether to ask for usage at the end of the stream.
        prompt_cache_key: whether to send the thread's id, so that its requests share a cache.
        native_output: whether answers keep to a requested JSON schema.
    """

    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system_role: Literal["system", "developer"] = "system"
    later_system_role: Literal["system", "developer", "user"] = "system"
    effort: Literal["reasoning_effort", "reasoning"] = "reasoning_effort"
    send_reasoning: bool = True
    include_usage: bool = True
    prompt_cache_key: bool = False
    native_output: bool = True


OPENAI = ChatDialect(max_tokens_field="max_completion_tokens", prompt_cache_key=True)
COMPATIBLE = ChatDialect()


def chat_body(request: InferenceRequest, dialect: ChatDialect, origin: str) -> dict[str, Any]:
    """The body of a streamed chat completion.

    Args:
        origin: the provider; only reasoning that came from it is sent to it.

    Raises:
        InvalidRequest: this API cannot take a part of the request.
    """
    body: dict[str, Any] = {
        "model": request.upstream_model,
        "messages": _messages(request, dialect, origin),
        "stream": True,
        **sampling(request, dialect.max_tokens_field),
    }
    if dialect.include_usage:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": wire_name(tool.id),
                    "description": tool.description,
                    "parameters": object_schema(tool.parameters),
                },
            }
            for tool in request.tools
        ]
    if request.output is not None:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": json_format(request.output),
        }
    if dialect.prompt_cache_key and (key := cache_key(request)) is not None:
        body["prompt_cache_key"] = key
    body.update(_effort(request, dialect))
    if request.overrides is not None:
        body.update(_settings(request, request.overrides))
    return body


def _settings(request: InferenceRequest, overrides: InferenceOverride) -> dict[str, Any]:
    choice = choice_of(request)
    given = {
        "seed": overrides.seed,
        "stop": list(overrides.stop) if overrides.stop else None,
        "parallel_tool_calls": overrides.parallel_tool_calls if request.tools else None,
        "tool_choice": choice
        if choice in (None, "none", "required")
        else {"type": "function", "function": {"name": wire_name(choice)}},
    }
    fields = {name: value for name, value in given.items() if value is not None}
    return {**fields, **extra_of(overrides)}


def _effort(request: InferenceRequest, dialect: ChatDialect) -> dict[str, Any]:
    effort = effort_of(request)
    if effort is None:
        return {}
    if dialect.effort == "reasoning_effort":
        return {"reasoning_effort": effort_name(effort)}
    if isinstance(effort, ReasoningBudget):
        return {"reasoning": {"max_tokens": effort.budget}}
    # OpenRouter calls the highest effort by OpenAI's former name.
    return {"reasoning": {"effort": "xhigh" if effort == "max" else effort}}


# -- messages ---------------------------------------------------------------------------------


def _messages(request: InferenceRequest, dialect: ChatDialect, origin: str) -> list[dict[str, Any]]:
    """All messages, in order; the system prompt and the system messages after it become one."""
    model = request.upstream_model
    prompt = [texts(request.system, model, "system")]
    writer = _Writer(model, dialect, origin)
    leading = True
    for index, message in enumerate(request.messages):
        leading = leading and message.role is Role.SYSTEM
        if leading:
            prompt.append(texts(message.content, model, f"messages[{index}].content"))
        else:
            writer.add(index, message)
    written = writer.finish()
    if said := "\n\n".join(filter(None, prompt)):
        written.insert(0, {"role": dialect.system_role, "content": said})
    return written


class _Writer:
    """Writes messages one after the other.

    Media in tool results are not possible in this API: they follow as a user message after all
    results of the step.
    """

    def __init__(self, model: str, dialect: ChatDialect, origin: str) -> None:
        self._model, self._dialect, self._origin = model, dialect, origin
        self._written: list[dict[str, Any]] = []
        self._attached: list[dict[str, Any]] = []

    def add(self, index: int, message: Message) -> None:
        if message.role is not Role.TOOL:
            self._attach()
        _BY_ROLE[message.role](self, index, message)

    def finish(self) -> list[dict[str, Any]]:
        self._attach()
        return self._written

    def _system(self, index: int, message: Message) -> None:
        said = texts(message.content, self._model, f"messages[{index}].content")
        self._written.append({"role": self._dialect.later_system_role, "content": said})

    def _user(self, index: int, message: Message) -> None:
        parts: list[dict[str, Any]] = []
        for place, block in enumerate(message.content):
            if isinstance(block, ToolResultBlock):
                self._result(index, block.tool_use_id, block.content)
            elif not isinstance(block, Thinking):
                parts.append(self._part(block, index, place))
        self._attach()
        if len(parts) == 1 and parts[0]["type"] == "text":
            self._written.append({"role": "user", "content": parts[0]["text"]})
        elif parts or not message.content:
            self._written.append({"role": "user", "content": parts or ""})

    def _assistant(self, index: int, message: Message) -> None:
        said = texts(message.content, self._model, f"messages[{index}].content")
        written: dict[str, Any] = {"role": "assistant", "content": said}
        if self._dialect.send_reasoning:
            written.update(_reasoning(message.content, self._origin))
        if calls := calls_of(message.content, message.tool_calls):
            written["content"] = said or None
            written["tool_calls"] = [
                {
                    "id": wire_call_id(call.id),
                    "type": "function",
                    "function": {
                        "name": wire_name(call.name),
                        "arguments": arguments_text(call.arguments),
                    },
                }
                for call in calls
            ]
        self._written.append(written)

    def _tool(self, index: int, message: Message) -> None:
        self._result(index, message.tool_call_id or "", message.content)

    def _result(self, index: int, call_id: str, content: tuple[ContentBlock, ...]) -> None:
        said: list[str] = []
        media: list[dict[str, Any]] = []
        for place, block in enumerate(flat(content)):
            if isinstance(block, Text):
                said.append(block.text)
            elif not isinstance(block, Thinking):
                media.append(self._part(block, index, place))
        id = wire_call_id(call_id)
        if media:
            said.append(f"[{len(media)} attached below]")
            self._attached += [_text(f"Attached to the result of {id}:"), *media]
        self._written.append({"role": "tool", "tool_call_id": id, "content": "\n\n".join(said)})

    def _attach(self) -> None:
        if self._attached:
            self._written.append({"role": "user", "content": self._attached})
            self._attached = []

    def _part(self, block: ContentBlock, index: int, place: int) -> dict[str, Any]:
        write = _PARTS.get(type(block))
        part = write(block) if write is not None else None
        if part is None:
            raise unsupported(self._model, block, f"messages[{index}].content[{place}]")
        return part


_BY_ROLE: Mapping[Role, Callable[[_Writer, int, Message], None]] = {
    Role.SYSTEM: _Writer._system,
    Role.USER: _Writer._user,
    Role.ASSISTANT: _Writer._assistant,
    Role.TOOL: _Writer._tool,
}


def _reasoning(content: tuple[ContentBlock, ...], origin: str) -> dict[str, Any]:
    """The reasoning of a message, in the fields it came in; see `ChatReader`."""
    fields: dict[str, Any] = {}
    details: list[Any] = []
    for block in content:
        if not isinstance(block, Thinking) or block.origin != origin:
            continue
        if block.signature in REASONING_FIELDS and block.thinking:
            fields[block.signature] = fields.get(block.signature, "") + block.thinking
        if block.encrypted is not None:
            details += _details(block.encrypted)
    return {**fields, "reasoning_details": details} if details else fields


def _details(encrypted: str) -> list[Any]:
    try:
        details = loads(encrypted)
    except msgspec.DecodeError:
        return []
    return details if isinstance(details, list) else []


# -- content parts ----------------------------------------------------------------------------


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image(block: Image) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": media_url(block.source)}}


def _audio(block: Audio) -> dict[str, Any] | None:
    source = block.source
    if not isinstance(source, Base64Source) or source.media_type not in _AUDIO_FORMATS:
        return None
    sound = {"data": source.data, "format": _AUDIO_FORMATS[source.media_type]}
    return {"type": "input_audio", "input_audio": sound}


def _document(block: Document) -> dict[str, Any] | None:
    source = block.source
    if not isinstance(source, Base64Source):
        return None
    file = {"filename": file_name(block.title, source), "file_data": media_url(source)}
    return {"type": "file", "file": file}


_PARTS: Mapping[type, Callable[[Any], dict[str, Any] | None]] = {
    Text: lambda block: _text(block.text),
    Image: _image,
    Audio: _audio,
    Document: _document,
}
