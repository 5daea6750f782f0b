"""Requests to the chat completions API. Pure: a request in, a plain dict out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from awaken.codec import digest, loads
from awaken.core.inference import InferenceOverride, ReasoningBudget
from awaken.core.llm import InferenceRequest
from awaken.core.message import (
    Audio,
    Base64Source,
    Citation,
    ContentBlock,
    Document,
    Image,
    Message,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResultBlock,
)
from awaken.models.openai.content import (
    arguments_text,
    cache_key,
    calls_of,
    effort_name,
    effort_of,
    file_name,
    flatten_results,
    json_format,
    media_url,
    sampling,
    texts,
    wire_call_id,
)
from awaken.models.openai.providers import ChatDialect
from awaken.models.openai.schema import object_schema
from awaken.models.settings import (
    add_extra_fields,
    drop_unsupported,
    extra_fields,
    tool_choice_of,
    warn_dropped,
    warn_nearest,
)
from awaken.models.wire import CallIds, build_unsupported_error, wire_name

REASONING_FIELDS = ("reasoning_content", "reasoning")
"""The fields for reasoning: DeepSeek and llama.cpp use the first, OpenRouter and vLLM both."""

THINKING_PARTS = "thinking"
"""Marks reasoning that came in a part of the content, as Mistral sends it and wants it back."""

PICTURE, CUSTOM_CALL = "image", "custom_tool_call"
"""The kinds of parts that come beside the content: pictures of OpenRouter, and calls whose
arguments are text."""

_ACKNOWLEDGED = "Ok."

_AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}


def chat_body(request: InferenceRequest, dialect: ChatDialect, origin: str) -> dict[str, Any]:
    """The body of a streamed chat completion.

    Args:
        origin: the provider; only reasoning that came from it is sent to it.

    Raises:
        InvalidRequest: this API cannot take a part of the request.
    """
    request = drop_ignored_settings(request, dialect)
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
        body.update(_settings(request, request.overrides, dialect))
    return add_extra_fields(body, extra_fields(request.overrides))


def drop_ignored_settings(request: InferenceRequest, dialect: ChatDialect) -> InferenceRequest:
    """The request without the settings that the server ignores; see `drop_unsupported`."""
    dropped, refused = dialect.dropped, dialect.refused
    effort = effort_of(request)
    if dialect.reasons_unasked if effort is None else effort_name(effort) != "none":
        dropped += dialect.dropped_while_reasoning
        refused += dialect.refused_while_reasoning
    return drop_unsupported(request, dropped, refused)


def _settings(
    request: InferenceRequest, overrides: InferenceOverride, dialect: ChatDialect
) -> dict[str, Any]:
    choice = tool_choice_of(request)
    given = {
        dialect.seed_field: overrides.seed,
        "stop": list(overrides.stop) if overrides.stop else None,
        "parallel_tool_calls": overrides.parallel_tool_calls if request.tools else None,
        "tool_choice": choice
        if choice in (None, "none", "required")
        else {"type": "function", "function": {"name": wire_name(choice)}},
    }
    return {name: value for name, value in given.items() if value is not None}


def _effort(request: InferenceRequest, dialect: ChatDialect) -> dict[str, Any]:
    effort = effort_of(request)
    if effort is None:
        return {}
    if dialect.effort == "reasoning":
        if isinstance(effort, ReasoningBudget):
            return {"reasoning": {"max_tokens": effort.budget}}
        # OpenRouter calls the highest effort by OpenAI's former name.
        return {"reasoning": {"effort": "xhigh" if effort == "max" else effort}}
    word = effort_word(request, dialect)
    if word is None:
        return {}
    if dialect.effort == "reasoning_effort":
        return {"reasoning_effort": word}
    if word == "none":
        return {"thinking": {"type": "disabled"}}
    level = {"reasoning_effort": word} if word else {}
    return {"thinking": {"type": "enabled"}, **level}


def effort_word(request: InferenceRequest, dialect: ChatDialect) -> str | None:
    """The server's word for the wanted effort, or `None` if there is none to send."""
    effort = effort_of(request)
    if effort is None:
        return None
    word = effort_name(effort)
    if dialect.efforts is None:
        return word
    theirs = dialect.efforts.get(word)
    if theirs is None:
        warn_dropped(request, "reasoning_effort")
    elif theirs not in ("", word):
        warn_nearest(request.upstream_model, "reasoning_effort", word, theirs)
    return theirs


# -- messages ---------------------------------------------------------------------------------


def _messages(request: InferenceRequest, dialect: ChatDialect, origin: str) -> list[dict[str, Any]]:
    """All messages, in order; the system prompt and the system messages after it become one."""
    model = request.upstream_model
    prompt = [texts(request.system, model, "system")]
    writer = _RequestWriter(model, dialect, origin)
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


class _RequestWriter:
    """Writes messages one after the other.

    Media in tool results are not possible in this API: they follow as a user message after all
    results of the step.
    """

    def __init__(self, model: str, dialect: ChatDialect, origin: str) -> None:
        self._model, self._dialect, self._origin = model, dialect, origin
        self._ids = CallIds(_nine_letters if dialect.call_ids == "nine" else wire_call_id)
        self._written: list[dict[str, Any]] = []
        self._attached: list[dict[str, Any]] = []

    def add(self, index: int, message: Message) -> None:
        if message.role is not Role.TOOL:
            self._flush_attachments()
        _BY_ROLE[message.role](self, index, message)

    def finish(self) -> list[dict[str, Any]]:
        self._flush_attachments()
        return self._written

    def _system(self, index: int, message: Message) -> None:
        said = texts(message.content, self._model, f"messages[{index}].content")
        if self._dialect.later_system_role == "user":
            self._append_user(said)
        else:
            self._written.append({"role": self._dialect.later_system_role, "content": said})

    def _user(self, index: int, message: Message) -> None:
        parts: list[dict[str, Any]] = []
        for place, block in enumerate(message.content):
            if isinstance(block, ToolResultBlock):
                self._result(index, block.tool_use_id, block.content)
            elif not isinstance(block, Thinking | Opaque | Citation):
                parts.append(self._part(block, index, place))
        self._flush_attachments()
        if len(parts) == 1 and parts[0]["type"] == "text":
            self._append_user(parts[0]["text"])
        elif parts or not message.content:
            self._append_user(parts or "")

    def _append_user(self, content: object) -> None:
        last = self._written[-1]["role"] if self._written else None
        if self._dialect.answer_before_user and last == "tool":
            self._written.append({"role": "assistant", "content": _ACKNOWLEDGED})
        self._written.append({"role": "user", "content": content})

    def _assistant(self, index: int, message: Message) -> None:
        said = texts(message.content, self._model, f"messages[{index}].content")
        written: dict[str, Any] = {"role": "assistant", "content": said}
        if self._dialect.send_reasoning:
            written.update(_reasoning(message.content, self._origin))
        if parts := self._parts(message.content):
            written["content"] = parts
        if pictures := _own_parts(message.content, self._origin, PICTURE):
            written["images"] = pictures
        calls = [self._call(call) for call in calls_of(message.content, message.tool_calls)]
        if calls := [*_own_parts(message.content, self._origin, CUSTOM_CALL), *calls]:
            written["content"] = written["content"] or None
            written["tool_calls"] = calls
        self._written.append(written)

    def _call(self, call: ToolCall) -> dict[str, Any]:
        function = {"name": wire_name(call.name), "arguments": arguments_text(call.arguments)}
        written = {"id": self._ids.of_call(call.id), "type": "function", "function": function}
        if self._dialect.google_signatures and call.signature is not None:
            written["extra_content"] = {"google": {"thought_signature": call.signature}}
        return written

    def _parts(self, content: tuple[ContentBlock, ...]) -> list[dict[str, Any]]:
        """The content in parts, if some of them can be sent back only so; else an empty list."""
        parts: list[dict[str, Any]] = []
        special = False
        for block in content:
            if isinstance(block, Text) and block.text:
                parts.append(_text(block.text))
            elif isinstance(block, Thinking | Opaque) and (part := self._own_part(block)):
                parts.append(part)
                special = True
        return parts if special else []

    def _own_part(self, block: Thinking | Opaque) -> Any:
        """A part that came from here and goes back as it came, or `None`."""
        if block.origin != self._origin:
            return None
        if isinstance(block, Opaque):
            return block.data if block.kind not in (PICTURE, CUSTOM_CALL) else None
        if block.signature != THINKING_PARTS or not self._dialect.send_reasoning:
            return None
        return {"type": "thinking", "thinking": [_text(block.thinking)]}

    def _tool(self, index: int, message: Message) -> None:
        self._result(index, message.tool_call_id or "", message.content)

    def _result(self, index: int, call_id: str, content: tuple[ContentBlock, ...]) -> None:
        said: list[str] = []
        media: list[dict[str, Any]] = []
        for place, block in enumerate(flatten_results(content)):
            if isinstance(block, Text):
                said.append(block.text)
            elif not isinstance(block, Thinking | Opaque | Citation):
                media.append(self._part(block, index, place))
        id = self._ids.of_result(call_id)
        if media:
            said.append(f"[{len(media)} attached below]")
            self._attached += [_text(f"Attached to the result of {id}:"), *media]
        self._written.append({"role": "tool", "tool_call_id": id, "content": "\n\n".join(said)})

    def _flush_attachments(self) -> None:
        if self._attached:
            attached, self._attached = self._attached, []
            self._append_user(attached)

    def _part(self, block: ContentBlock, index: int, place: int) -> dict[str, Any]:
        write = _PARTS.get(type(block))
        part = write(block) if write is not None else None
        if part is None:
            raise build_unsupported_error(self._model, block, f"messages[{index}].content[{place}]")
        return part


_BY_ROLE: Mapping[Role, Callable[[_RequestWriter, int, Message], None]] = {
    Role.SYSTEM: _RequestWriter._system,
    Role.USER: _RequestWriter._user,
    Role.ASSISTANT: _RequestWriter._assistant,
    Role.TOOL: _RequestWriter._tool,
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


def _nine_letters(id: str) -> str:
    return id if re.fullmatch(r"[A-Za-z0-9]{9}", id) else digest(id)[:9]


def _own_parts(content: tuple[ContentBlock, ...], origin: str, kind: str) -> list[Any]:
    """Parts of one kind that this provider has sent."""
    return [
        block.data
        for block in content
        if isinstance(block, Opaque) and (block.origin, block.kind) == (origin, kind)
    ]


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
