"""Requests to the Responses API. Pure: a request in, a plain dict out.

Nothing is stored at the provider: every request has the whole conversation, including reasoning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from awaken.core.inference import InferenceOverride
from awaken.core.llm import InferenceRequest, inline_source
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
    ToolCall,
    ToolResultBlock,
    ToolUse,
)
from awaken.core.value import Value
from awaken.models.openai.chat_request import drop_ignored_settings, effort_word
from awaken.models.openai.content import (
    arguments_text,
    cache_key,
    calls_of,
    file_name,
    flatten_results,
    json_format,
    media_url,
    sampling,
    texts,
    wire_call_id,
)
from awaken.models.openai.providers import CHAT_PROVIDERS, NO_EFFORT, ChatDialect, dialect_of
from awaken.models.openai.schema import object_schema
from awaken.models.settings import (
    add_extra_fields,
    extra_fields,
    refuse_settings,
    tool_choice_of,
    warn_dropped,
)
from awaken.models.wire import CallIds, build_unsupported_error, wire_name

PHASE = "phase"
"""The kind of a part that labels the message before it: commentary or the final answer."""


class ResponsesOptions(Value, frozen=True, kw_only=True):
    """What goes into every request.

    Args:
        summary: how reasoning is summarised for people; `None` for no summary.
        encrypted: whether reasoning is sent in encrypted form, as OpenAI requires; servers of open
            models use plain text.
    """

    summary: Literal["auto", "concise", "detailed"] | None = None
    encrypted: bool = True


def responses_body(
    request: InferenceRequest, options: ResponsesOptions, origin: str
) -> dict[str, Any]:
    """The body of a streamed response.

    Args:
        origin: the provider; only reasoning that came from it is sent to it.

    Raises:
        InvalidRequest: this API cannot take a part of the request.
    """
    model = request.upstream_model
    dialect = dialect_of(CHAT_PROVIDERS["openai-chat"], model)
    request = drop_ignored_settings(request, dialect)
    writer = _RequestWriter(model, options, origin, reasons=dialect.efforts != NO_EFFORT)
    for index, message in enumerate(request.messages):
        _BY_ROLE[message.role](writer, index, message)
    body: dict[str, Any] = {
        "model": model,
        "input": writer.items,
        "stream": True,
        "store": False,
        **sampling(request, "max_output_tokens"),
    }
    if prompt := texts(request.system, model, "system"):
        body["instructions"] = prompt
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "name": wire_name(tool.id),
                "description": tool.description,
                "parameters": object_schema(tool.parameters),
                "strict": False,
            }
            for tool in request.tools
        ]
    if request.output is not None:
        body["text"] = {"format": {"type": "json_schema", **json_format(request.output)}}
    if (key := cache_key(request)) is not None:
        body["prompt_cache_key"] = key
    body.update(_reasoning(request, options, dialect))
    if request.overrides is not None:
        body.update(_settings(request, request.overrides))
    return add_extra_fields(body, extra_fields(request.overrides))


def _settings(request: InferenceRequest, overrides: InferenceOverride) -> dict[str, Any]:
    warn_dropped(request, "seed")
    refuse_settings(request, "stop")
    fields: dict[str, Any] = {}
    choice = tool_choice_of(request)
    if choice is not None:
        named = {"type": "function", "name": wire_name(choice)}
        fields["tool_choice"] = choice if choice in ("none", "required") else named
    if overrides.parallel_tool_calls is not None and request.tools:
        fields["parallel_tool_calls"] = overrides.parallel_tool_calls
    return fields


def _reasoning(
    request: InferenceRequest, options: ResponsesOptions, dialect: ChatDialect
) -> dict[str, Any]:
    effort = effort_word(request, dialect)
    asked: dict[str, Any] = {"effort": effort} if effort is not None else {}
    if dialect.efforts == NO_EFFORT:
        return {}
    if options.summary is not None and effort != "none":
        asked["summary"] = options.summary
    fields: dict[str, Any] = {"reasoning": asked} if asked else {}
    if options.encrypted:
        fields["include"] = ["reasoning.encrypted_content"]
    return fields


# -- items ------------------------------------------------------------------------------------


class _RequestWriter:
    """Writes messages as items."""

    def __init__(
        self, model: str, options: ResponsesOptions, origin: str, *, reasons: bool
    ) -> None:
        self._model, self._options, self._origin = model, options, origin
        self._reasons = reasons
        self._ids = CallIds(wire_call_id)
        self.items: list[dict[str, Any]] = []

    def _system(self, index: int, message: Message) -> None:
        said = texts(message.content, self._model, f"messages[{index}].content")
        self.items.append({"role": "developer", "content": said})

    def _user(self, index: int, message: Message) -> None:
        blocks: list[ContentBlock] = []
        for block in message.content:
            if isinstance(block, ToolResultBlock):
                self._result(index, block.tool_use_id, block.content)
            elif isinstance(block, Opaque):
                self._opaque(block)
            else:
                blocks.append(block)
        if blocks or not message.content:
            self.items.append({"role": "user", "content": self._content(index, blocks)})

    def _tool(self, index: int, message: Message) -> None:
        self._result(index, message.tool_call_id or "", message.content)

    def _result(self, index: int, call_id: str, content: tuple[ContentBlock, ...]) -> None:
        self.items.append(
            {
                "type": "function_call_output",
                "call_id": self._ids.of_result(call_id),
                "output": self._content(index, list(flatten_results(content))),
            }
        )

    def _content(self, index: int, blocks: list[ContentBlock]) -> str | list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        for place, block in enumerate(blocks):
            if isinstance(block, Thinking | Citation | Opaque):
                continue
            write = _PARTS.get(type(block))
            if write is None:
                raise build_unsupported_error(
                    self._model, block, f"messages[{index}].content[{place}]"
                )
            parts.append(write(block))
        if len(parts) == 1 and parts[0]["type"] == "input_text":
            text: str = parts[0]["text"]
            return text
        return parts or ""

    def _assistant(self, index: int, message: Message) -> None:
        """Text and calls, each after the reasoning that led to it.

        Reasoning without a following item is left out, because the API refuses it.
        """
        calls = calls_of(message.content, message.tool_calls)
        waiting: list[Thinking] = []
        told = 0
        for place, block in enumerate(message.content):
            if isinstance(block, Thinking):
                before = _calls_before(block) if block.origin == self._origin else 0
                self._calls(calls[told:before], waiting)
                told = max(told, before)
                waiting.append(block)
            elif isinstance(block, Text):
                if block.text:
                    self._think(waiting)
                    said = {"type": "output_text", "text": block.text}
                    self.items.append({"type": "message", "role": "assistant", "content": [said]})
            elif isinstance(block, Opaque):
                self._think(waiting)
                self._opaque(block)
            elif isinstance(block, Citation):
                self._cite(block)
            elif not isinstance(block, ToolUse):
                raise build_unsupported_error(
                    self._model, block, f"messages[{index}].content[{place}]"
                )
        self._calls(calls[told:], waiting)

    def _cite(self, block: Citation) -> None:
        """A source of the message that was written last, if both came from here."""
        last = self.items[-1] if self.items else {}
        if block.origin == self._origin and last.get("type") == "message":
            last["content"][0].setdefault("annotations", []).append(block.data)

    def _opaque(self, block: Opaque) -> None:
        """An item as it came, if it came from here."""
        if block.origin != self._origin:
            return
        if block.kind != PHASE:
            self.items.append(block.data)
        elif self.items and self.items[-1].get("type") == "message":
            self.items[-1]["phase"] = block.data

    def _calls(self, calls: list[ToolCall], waiting: list[Thinking]) -> None:
        if calls:
            self._think(waiting)
        for call in calls:
            self.items.append(
                {
                    "type": "function_call",
                    "call_id": self._ids.of_call(call.id),
                    "name": wire_name(call.name),
                    "arguments": arguments_text(call.arguments),
                }
            )

    def _think(self, waiting: list[Thinking]) -> None:
        for block in waiting:
            if self._reasons and block.origin == self._origin and block.id is not None:
                self._item(block, block.id)
        waiting.clear()

    def _item(self, block: Thinking, id: str) -> None:
        item: dict[str, Any] = {"type": "reasoning", "id": id, "summary": []}
        if self._options.encrypted:
            if block.encrypted is None:
                return  # the provider stores nothing, so it could not find the item
            if block.thinking:
                item["summary"] = [{"type": "summary_text", "text": block.thinking}]
            item["encrypted_content"] = block.encrypted
        else:
            item["content"] = [{"type": "reasoning_text", "text": block.thinking}]
        self.items.append(item)


_BY_ROLE: Mapping[Role, Callable[[_RequestWriter, int, Message], None]] = {
    Role.SYSTEM: _RequestWriter._system,
    Role.USER: _RequestWriter._user,
    Role.ASSISTANT: _RequestWriter._assistant,
    Role.TOOL: _RequestWriter._tool,
}


def _calls_before(block: Thinking) -> int:
    """How many calls of the answer came before this reasoning; see `ResponsesReader`."""
    said = block.signature or ""
    return int(said) if said.isdecimal() else 0


def _image(block: Image) -> dict[str, Any]:
    return {"type": "input_image", "image_url": media_url(block.source), "detail": "auto"}


def _document(block: Document) -> dict[str, Any]:
    source = inline_source(block.source)
    if isinstance(source, Base64Source):
        data = {"filename": file_name(block.title, source), "file_data": media_url(source)}
    else:
        data = {"file_url": source.url}
    return {"type": "input_file", **data}


_PARTS: Mapping[type, Callable[[Any], dict[str, Any]]] = {
    Text: lambda block: {"type": "input_text", "text": block.text},
    Image: _image,
    Document: _document,
}
