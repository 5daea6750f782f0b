"""Converting our messages and content blocks to those of Anthropic's Messages API.

In the API user and assistant alternate. All messages between two answers become one user message,
with the results of calls first. System messages stay where they are if the model supports that; if
not, they become a marked part of a user message.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from awaken.core.llm import InvalidRequest, inline_source
from awaken.core.message import (
    Audio,
    Base64Source,
    Citation,
    ContentBlock,
    Document,
    Image,
    InlineSource,
    MediaSource,
    Message,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolResultBlock,
    ToolUse,
    UrlSource,
    Video,
)
from awaken.models.wire import CallIds, build_unsupported_error, call_input, wire_name

ORIGIN = "anthropic"

BlockParam = dict[str, Any]

_BEFORE = "(The beginning of the conversation is not shown.)"


class AnthropicConversation:
    """The conversation so far.

    Args:
        replay: whether to send reasoning back.
        system_role: whether the model takes system messages between others.
    """

    def __init__(self, model: str, *, replay: bool, system_role: bool) -> None:
        self.system: list[BlockParam] = []
        self.messages: list[dict[str, Any]] = []
        self.stable: list[BlockParam] = []
        """The last block of each user message that will be the same in the next request."""
        self.replayed = False
        """Whether reasoning is sent back."""
        self._model = model
        self._replay = replay
        self._system_role = system_role
        self._results: list[BlockParam] = []
        self._said: list[BlockParam] = []
        self._last_said: BlockParam | None = None
        self._notes: list[BlockParam] = []
        self._ids = CallIds(wire_name)
        self._last: Message | None = None

    def add_all(self, messages: Sequence[Message]) -> None:
        """Add all messages.

        Raises:
            InvalidRequest: the API cannot take a part of them.
        """
        self._last = messages[-1] if messages else None
        for index, message in enumerate(messages):
            _ADD[message.role](self, message, f"messages[{index}].content")
        self._end_turn()

    # -- a user's turn ------------------------------------------------------------------------

    def _add_system(self, message: Message, where: str) -> None:
        texts = _drop_absent(
            system_block(block, self._model, f"{where}[{i}]")
            for i, block in enumerate(message.content)
        )
        if self.messages or self._results or self._said or self._notes:
            self._notes.extend(texts)
        else:
            self.system.extend(texts)

    def _add_user(self, message: Message, where: str) -> None:
        self._fold_notes()
        for index, block in enumerate(message.content):
            at = f"{where}[{index}]"
            if isinstance(block, ToolResultBlock):
                self._result(block.tool_use_id, block.content, at)
            elif (said := media_block(block, self._model, at)) is not None:
                self._last_said = said
                self._said.append(said)

    def _add_tool(self, message: Message, where: str) -> None:
        self._result(message.tool_call_id or "", message.content, where)

    def _result(self, call_id: str, content: Sequence[Any], where: str) -> None:
        shown = _drop_absent(
            media_block(block, self._model, f"{where}[{i}]") for i, block in enumerate(content)
        )
        result: BlockParam = {"type": "tool_result", "tool_use_id": self._ids.of_result(call_id)}
        self._results.append({**result, "content": shown} if shown else result)

    def _fold_notes(self) -> None:
        for note in self._notes:
            text = f"<system_message>\n{note['text']}\n</system_message>"
            self._said.append({"type": "text", "text": text})
        self._notes = []

    def _end_turn(self) -> None:
        alone = not (self._results or self._said)
        if alone or not self._system_role:
            self._fold_notes()
        if blocks := self._results + self._said:
            self.messages.append({"role": "user", "content": blocks})
            if (last := self._last_said or next(reversed(self._results), None)) is not None:
                self.stable.append(last)
        if self._notes:
            self.messages.append({"role": "system", "content": self._notes})
        self._results, self._said, self._notes, self._last_said = [], [], [], None

    # -- an answer ----------------------------------------------------------------------------

    def _add_assistant(self, message: Message, where: str) -> None:
        blocks: list[BlockParam] = []
        unanswered = () if message is self._last else _find_open_calls(message)
        for index, block in enumerate(message.content):
            match block:
                case Text():
                    blocks += _drop_absent([text_block(block.text)])
                case Thinking():
                    if self._replay and (thought := thinking_block(block)) is not None:
                        blocks.append(thought)
                        self.replayed = True
                case ToolUse():
                    blocks.append(self._call(block.id, block.name, block.input))
                case Opaque():
                    if block not in unanswered:
                        blocks += _own_block(block)
                case Citation():
                    _cite(blocks, block)
                case _:
                    what = f"{type(block).__name__} (assistant)"
                    raise build_unsupported_error(self._model, what, f"{where}[{index}]")
        inside = {block.id for block in message.content if isinstance(block, ToolUse)}
        for call in message.tool_calls or ():
            if call.id not in inside:
                blocks.append(self._call(call.id, call.name, call.arguments))
        if blocks:
            self._end_turn()
            self._append_answer(blocks)

    def _append_answer(self, blocks: list[BlockParam]) -> None:
        if not self.messages:
            self.messages.append({"role": "user", "content": [{"type": "text", "text": _BEFORE}]})
        last = self.messages[-1]
        if last["role"] == "assistant":
            last["content"].extend(blocks)
        else:
            self.messages.append({"role": "assistant", "content": blocks})

    def _call(self, id: str, name: str, arguments: Any) -> BlockParam:
        return {
            "type": "tool_use",
            "id": self._ids.of_call(id),
            "name": wire_name(name),
            "input": call_input(arguments),
        }


_ADD = {
    Role.SYSTEM: AnthropicConversation._add_system,
    Role.USER: AnthropicConversation._add_user,
    Role.TOOL: AnthropicConversation._add_tool,
    Role.ASSISTANT: AnthropicConversation._add_assistant,
}


def _drop_absent(blocks: Iterable[BlockParam | None]) -> list[BlockParam]:
    return [block for block in blocks if block is not None]


def _own_block(block: Opaque) -> list[BlockParam]:
    """The data of a block, unchanged, if Anthropic has sent it; else no block."""
    mine = block.origin == ORIGIN and isinstance(block.data, dict)
    return [dict(block.data)] if mine else []


def _find_open_calls(message: Message) -> list[Opaque]:
    """Calls of the provider's own tools without their results, as a broken stream leaves them.

    Only the last answer may have such calls: its continuation begins with them.
    """
    own = [block for block in message.content if isinstance(block, Opaque) and _own_block(block)]
    results = {block.data.get("tool_use_id") for block in own}
    return [
        block
        for block in own
        if block.kind.endswith("tool_use") and block.data.get("id") not in results
    ]


def _cite(blocks: list[BlockParam], citation: Citation) -> None:
    """Add a source to the text before it, if both came from Anthropic."""
    if citation.origin == ORIGIN and blocks and blocks[-1]["type"] == "text":
        blocks[-1].setdefault("citations", []).append(citation.data)


# -- content blocks ---------------------------------------------------------------------------


def text_block(text: str) -> BlockParam | None:
    """A block of text; `None` if it is blank, which the API refuses."""
    return {"type": "text", "text": text} if text and not text.isspace() else None


def media_block(block: ContentBlock, model: str, where: str) -> BlockParam | None:
    """A block of a user or a tool: text, pictures and documents; `None` for reasoning.

    Raises:
        InvalidRequest: the API cannot take the block; the text says which.
    """
    match block:
        case Text():
            return text_block(block.text)
        case Image():
            return {"type": "image", "source": _image_source(block.source)}
        case Document():
            source = _document_source(block.source, model, where)
            title = {"title": block.title} if block.title else {}
            return {"type": "document", "source": source, **title}
        case Thinking() | Opaque() | Citation():
            return None
        case Audio() | Video():
            raise build_unsupported_error(model, type(block).__name__, where)
        case _:
            raise InvalidRequest(f"a {type(block).__name__} block has no place at {where}")


def system_block(block: ContentBlock, model: str, where: str) -> BlockParam | None:
    """A block of a system prompt, which must be text.

    Raises:
        InvalidRequest: it is something else; the text says which block.
    """
    if isinstance(block, Text):
        return text_block(block.text)
    if isinstance(block, Thinking):
        return None
    raise build_unsupported_error(model, f"{type(block).__name__} (system)", where)


def thinking_block(block: Thinking) -> BlockParam | None:
    """Reasoning that came from Anthropic; `None` for that of other providers."""
    if block.origin != ORIGIN:
        return None
    if block.encrypted is not None:
        return {"type": "redacted_thinking", "data": block.encrypted}
    if block.signature is not None:
        return {"type": "thinking", "thinking": block.thinking, "signature": block.signature}
    return None


def citation_of(data: dict[str, Any]) -> Citation:
    """A citation as Anthropic writes it."""
    return Citation(
        origin=ORIGIN,
        data={name: value for name, value in data.items() if name != "file_id"},
        url=data.get("url") or data.get("source"),
        title=data.get("title") or data.get("document_title"),
        quote=data.get("cited_text"),
    )


def _image_source(given: MediaSource) -> BlockParam:
    source = _to_inline_source(given)
    if isinstance(source, UrlSource):
        return {"type": "url", "url": source.url}
    return {"type": "base64", "media_type": source.media_type, "data": source.data}


def _document_source(given: MediaSource, model: str, where: str) -> BlockParam:
    source = _to_inline_source(given)
    if isinstance(source, UrlSource):
        return {"type": "url", "url": source.url}
    kind = source.media_type.partition(";")[0].strip().lower()
    if kind == "application/pdf":
        return {"type": "base64", "media_type": kind, "data": source.data}
    if not kind.startswith("text/") and kind != "application/json":
        raise build_unsupported_error(model, f"Document ({source.media_type})", where)
    try:
        text = b64decode(source.data).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise InvalidRequest(f"the document at {where} is not base64 of UTF-8 text") from error
    return {"type": "text", "media_type": "text/plain", "data": text}


_DATA_URL = re.compile(r"data:([^;,]+)?((?:;[^;,]+)*?)(;base64)?,(.*)", re.DOTALL)


def _to_inline_source(given: MediaSource) -> InlineSource:
    """A `data:` URL as inline content; other sources as they are."""
    source = inline_source(given)
    found = _DATA_URL.fullmatch(source.url) if isinstance(source, UrlSource) else None
    if found is None:
        return source
    kind, _, encoded, data = found.groups()
    if not encoded:
        data = binascii.b2a_base64(unquote_to_bytes(data), newline=False).decode()
    return Base64Source(media_type=kind or "text/plain", data=data)
