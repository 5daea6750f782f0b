"""Requests to the Converse API. Pure: a request in, a plain dict out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from awaken.core.llm import InferenceRequest
from awaken.core.message import (
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
    ToolResultBlock,
    ToolUse,
)
from awaken.models.settings import drop_unsupported, extra_fields, refuse_settings, tool_choice_of
from awaken.models.wire import CallIds, build_unsupported_error, call_input, wire_name

ORIGIN = "bedrock"

Block = dict[str, Any]

_BEFORE = "(The beginning of the conversation is not shown.)"
_IMAGES = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
_DOCUMENTS = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
}
_DROPPED = ("seed", "parallel_tool_calls", "reasoning_effort")
"""Settings that this API has no fields for, or none that its models share. Some models have fields
of their own, for `extra`."""


def converse_body(request: InferenceRequest) -> dict[str, Any]:
    """The body of a streamed conversation; bytes are base64 text.

    Raises:
        InvalidRequest: the API cannot take a part of the request.
    """
    request = drop_unsupported(request, _DROPPED)
    talk = _ConverseMessages(request.upstream_model)
    for index, message in enumerate(request.messages):
        talk.add(message, f"messages[{index}].content")
    system = [text for block in request.system for text in talk.texts([block], "system")]
    parts = {
        "system": [*system, *talk.system],
        "inferenceConfig": _inference(request),
        "toolConfig": _tools(request, talk.called),
        "additionalModelRequestFields": extra_fields(request.overrides),
    }
    body: dict[str, Any] = {"messages": talk.messages}
    body.update((name, part) for name, part in parts.items() if part)
    return body


def _inference(request: InferenceRequest) -> dict[str, Any]:
    overrides = request.overrides
    if overrides is None:
        return {}
    given = {
        "maxTokens": overrides.max_tokens,
        "temperature": overrides.temperature,
        "topP": overrides.top_p,
        "stopSequences": list(overrides.stop) if overrides.stop else None,
    }
    return {name: value for name, value in given.items() if value is not None}


def _tools(request: InferenceRequest, called: Sequence[str]) -> dict[str, Any]:
    specs = {
        wire_name(tool.id): _spec(wire_name(tool.id), tool.description, tool.parameters)
        for tool in request.tools
    }
    if not specs:
        # A conversation with calls must have tools, even if none of them is offered any more.
        specs = {name: _spec(name, "", {}) for name in called}
    config: dict[str, Any] = {"tools": list(specs.values())} if specs else {}
    choice = tool_choice_of(request)
    if choice == "none":
        refuse_settings(request, "tool_choice")
    if choice is not None:
        one = {"tool": {"name": wire_name(choice)}}
        config["toolChoice"] = {"any": {}} if choice == "required" else one
    return config


def _spec(name: str, description: str, schema: Any) -> Block:
    schema = schema if isinstance(schema, dict) else {}
    spec: Block = {"name": name, "inputSchema": {"json": {"type": "object", **schema}}}
    if description:
        spec["description"] = description
    return {"toolSpec": spec}


class _ConverseMessages:
    """The messages so far: user and assistant alternate, and a user begins."""

    def __init__(self, model: str) -> None:
        self.system: list[Block] = []
        self.messages: list[dict[str, Any]] = []
        self.called: list[str] = []
        self._model = model
        self._ids = CallIds(wire_name)
        self._documents = 0

    def add(self, message: Message, where: str) -> None:
        match message.role:
            case Role.SYSTEM:
                self._system(message, where)
            case Role.ASSISTANT:
                self._assistant(message, where)
            case Role.TOOL:
                self._say("user", [self._result(message.tool_call_id, message.content, where)])
            case Role.USER:
                self._user(message, where)

    def texts(self, blocks: Sequence[ContentBlock], where: str) -> list[Block]:
        """Blocks that must be text.

        Raises:
            InvalidRequest: one of them is something else.
        """
        found: list[Block] = []
        for at, block in enumerate(blocks):
            if isinstance(block, Text):
                found += _text(block.text)
            elif not isinstance(block, Thinking | Opaque | Citation):
                raise build_unsupported_error(self._model, block, f"{where}[{at}]")
        return found

    def _system(self, message: Message, where: str) -> None:
        said = self.texts(message.content, where)
        if not self.messages:
            self.system += said
            return
        for block in said:
            block["text"] = f"<system_message>\n{block['text']}\n</system_message>"
        self._say("user", said)

    def _user(self, message: Message, where: str) -> None:
        blocks: list[Block] = []
        for at, block in enumerate(message.content):
            if isinstance(block, ToolResultBlock):
                result = self._result(block.tool_use_id, block.content, f"{where}[{at}]")
                blocks.append(result)
            else:
                blocks += self._plain(block, f"{where}[{at}]")
        self._say("user", blocks)

    def _assistant(self, message: Message, where: str) -> None:
        blocks: list[Block] = []
        inside: set[str] = set()
        for at, block in enumerate(message.content):
            if isinstance(block, ToolUse):
                inside.add(block.id)
                blocks.append(self._call(block.id, block.name, block.input))
            elif isinstance(block, Thinking):
                blocks += _reasoning(block)
            else:
                blocks += self._plain(block, f"{where}[{at}]")
        for call in message.tool_calls or ():
            if call.id not in inside:
                blocks.append(self._call(call.id, call.name, call.arguments))
        self._say("assistant", blocks)

    def _call(self, id: str, name: str, arguments: Any) -> Block:
        wire = wire_name(name)
        self.called.append(wire)
        use = {"toolUseId": self._ids.of_call(id), "name": wire, "input": call_input(arguments)}
        return {"toolUse": use}

    def _result(self, id: str | None, content: Sequence[ContentBlock], where: str) -> Block:
        blocks = [
            part
            for at, block in enumerate(content)
            for part in self._plain(block, f"{where}[{at}]")
        ]
        result = {"toolUseId": self._ids.of_result(id or ""), "content": blocks or [{"text": " "}]}
        return {"toolResult": result}

    def _plain(self, block: ContentBlock, where: str) -> list[Block]:
        if isinstance(block, Text):
            return _text(block.text)
        if isinstance(block, Opaque):
            return [block.data] if block.origin == ORIGIN else []
        if isinstance(block, Thinking | Citation):
            return []
        if isinstance(block, Image | Document) and isinstance(block.source, Base64Source):
            kinds = _IMAGES if isinstance(block, Image) else _DOCUMENTS
            kind = kinds.get(block.source.media_type.partition(";")[0].strip().lower())
            if kind is not None:
                return [self._medium(block, kind, block.source.data)]
        raise build_unsupported_error(self._model, block, where)

    def _medium(self, block: Image | Document, kind: str, data: str) -> Block:
        medium: Block = {"format": kind, "source": {"bytes": data}}
        if isinstance(block, Image):
            return {"image": medium}
        # Names have few characters, and each may be used once.
        self._documents += 1
        title = re.sub(r"[^A-Za-z0-9()\[\]-]+", " ", block.title or "document").strip()
        return {"document": {**medium, "name": f"{title} {self._documents}"}}

    def _say(self, role: str, blocks: list[Block]) -> None:
        if not blocks:
            return
        if role == "assistant" and not self.messages:
            self.messages.append({"role": "user", "content": [{"text": _BEFORE}]})
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"] += blocks
        else:
            self.messages.append({"role": role, "content": blocks})


def _text(text: str) -> list[Block]:
    """A block of text, or none if it is blank, which the API refuses."""
    return [{"text": text}] if text and not text.isspace() else []


def _reasoning(block: Thinking) -> list[Block]:
    """Reasoning as the API wants it back; without its signature it is left out."""
    if block.origin != ORIGIN:
        return []
    if block.encrypted is not None:
        return [{"reasoningContent": {"redactedContent": block.encrypted}}]
    if block.signature is None:
        return []
    thought = {"text": block.thinking, "signature": block.signature}
    return [{"reasoningContent": {"reasoningText": thought}}]
