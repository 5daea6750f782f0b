"""Messages of Pydantic AI."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from awaken.core.message import ContentBlock, Message, Text, ToolCall
from awaken.models.history.parts import Item, answer, inline_media, media, result_content

_ADDRESSES = {
    "image-url": "image/",
    "audio-url": "audio/",
    "video-url": "video/",
    "document-url": "application/",
}
_LEFT_OUT = (
    "thinking",
    "compaction",
    "file",
    "builtin-tool-call",
    "builtin-tool-return",
    "native-tool-call",
    "native-tool-return",
)
"""The kinds of parts that are no part of the conversation itself."""


def read(items: Iterable[Item]) -> Iterator[Message]:
    for item in items:
        kind = item.data.get("kind")
        if kind == "request":
            yield from _request(item)
        elif kind == "response":
            yield from _response(item)
        else:
            item.fail(
                f"is of the kind {kind!r}, and neither a request nor a response: give what "
                "all_messages() or all_messages_json() returned"
            )


def _request(item: Item) -> Iterator[Message]:
    for part in item.parts("parts"):
        kind = part.data.get("part_kind")
        if kind == "user-prompt":
            yield Message.user_with_content(_prompt(part))
        elif kind == "tool-return" or (kind == "retry-prompt" and part.data.get("tool_name")):
            content = result_content(part.data.get("content"))
            yield Message.tool_with_content(part.text("tool_call_id"), content)
        elif kind == "retry-prompt":
            yield Message.user_with_content(result_content(part.data.get("content")))
        elif kind != "system-prompt":
            part.unknown("a part", kind)


def _prompt(part: Item) -> Iterator[ContentBlock]:
    for one in part.parts("content"):
        kind = one.data.get("kind")
        if kind in ("text", "text-content"):
            yield Text(text=one.text("text" if "text" in one.data else "content"))
        elif kind in _ADDRESSES:
            yield media(one.text("url"), _ADDRESSES[str(kind)])
        elif kind == "binary":
            yield inline_media(one.text("media_type"), one.text("data"))
        elif kind != "cache-point":
            one.unknown("a part", kind)


def _response(item: Item) -> Iterator[Message]:
    content: list[ContentBlock] = []
    calls: list[ToolCall] = []
    for part in item.parts("parts"):
        kind = part.data.get("part_kind")
        if kind == "text":
            content.append(Text(text=part.text("content")))
        elif kind == "tool-call":
            calls.append(part.call("tool_call_id", "tool_name", "args"))
        elif kind not in _LEFT_OUT:
            part.unknown("a part", kind)
    return answer(content, calls)
