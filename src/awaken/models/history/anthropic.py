"""Messages of Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from awaken.core.message import ContentBlock, Message, Text, ToolCall
from awaken.models.history.parts import Item, answer, inline_media, media, text_document

_LEFT_OUT = (
    "thinking",
    "redacted_thinking",
    "server_tool_use",
    "mcp_tool_use",
    "mcp_tool_result",
    "container_upload",
    "compaction",
)
"""The kinds of blocks that are no part of the conversation itself."""


def read(items: Iterable[Item]) -> Iterator[Message]:
    for item in items:
        role = item.data.get("role")
        if role == "user":
            yield from _user(item)
        elif role == "assistant":
            yield from _assistant(item)
        elif role != "system":
            item.fail(f"has the role {role!r}, which Anthropic's messages do not have")


def _user(item: Item) -> Iterator[Message]:
    """The results in a user's message are messages of their own, and come first."""
    content: list[ContentBlock] = []
    for part in item.parts("content"):
        if part.data.get("type") == "tool_result":
            blocks = [_block(inner) for inner in part.parts("content")]
            yield Message.tool_with_content(part.text("tool_use_id"), blocks)
        else:
            content.append(_block(part))
    if content:
        yield Message.user_with_content(content)


def _assistant(item: Item) -> Iterator[Message]:
    content: list[ContentBlock] = []
    calls: list[ToolCall] = []
    for part in item.parts("content"):
        kind = str(part.data.get("type"))
        if kind == "tool_use":
            calls.append(part.call("id", "name", "input"))
        elif kind not in _LEFT_OUT and not kind.endswith("_tool_result"):
            content.append(_block(part))
    return answer(content, calls)


def _block(part: Item) -> ContentBlock:
    kind = part.data.get("type")
    if kind == "text":
        return Text(text=part.text("text"))
    if kind not in ("image", "document"):
        part.unknown("a block", kind)
    source, title = part.inner("source"), part.data.get("title")
    match source.data.get("type"):
        case "base64":
            return inline_media(source.text("media_type"), source.text("data"), title)
        case "url":
            address = source.text("url")
            return media(address, "image/" if kind == "image" else "application/pdf", title)
        case "text":
            return text_document(source.text("data"), source.text("media_type"), title)
        case "file":
            part.fail(
                f"refers to a file that Anthropic keeps, {source.data.get('file_id')!r}: "
                "leave it out"
            )
        case other:
            part.unknown("a source", other)
