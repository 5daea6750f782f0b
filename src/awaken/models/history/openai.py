"""Messages of OpenAI: Chat Completions, and the items of Responses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from awaken.core.message import ContentBlock, Message, Text, ToolCall
from awaken.models.history.parts import Item, answer, inline_media, media

_TEXTS = ("text", "input_text", "output_text")
_PROMPTS = ("system", "developer")
_LEFT_OUT = frozenset(
    [
        "reasoning",
        "item_reference",
        "compaction",
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "image_generation_call",
        "computer_call",
        "computer_call_output",
        "local_shell_call",
        "local_shell_call_output",
        "shell_call",
        "shell_call_output",
        "apply_patch_call",
        "apply_patch_call_output",
        "mcp_list_tools",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_call",
        "tool_search_call",
        "tool_search_output",
    ]
)
"""The kinds of items that are no part of the conversation itself."""


def read(items: Iterable[Item]) -> Iterator[Message]:
    content: list[ContentBlock] = []  # of an answer: Responses has an item for each part of one
    calls: list[ToolCall] = []
    for item in items:
        kind = item.data.get("type") or "message"
        role = item.data.get("role")
        if kind == "function_call":
            calls.append(item.call("call_id", "name", "arguments"))
        elif kind == "function_call_output":
            yield from _flush_answer(content, calls)
            result = _content(item, "output")
            yield Message.tool_with_content(item.text("call_id"), result)
        elif kind in _LEFT_OUT:
            continue
        elif kind != "message":
            item.unknown("an item", kind)
        elif role == "assistant" and "tool_calls" not in item.data:
            if calls:
                yield from _flush_answer(content, calls)
            content.extend(_content(item, "content"))
        elif role not in _PROMPTS:
            yield from _flush_answer(content, calls)
            yield from _chat_message(item, role)
    yield from answer(content, calls)


def _flush_answer(content: list[ContentBlock], calls: list[ToolCall]) -> Iterator[Message]:
    yield from answer(content, calls)
    content.clear()
    calls.clear()


def _chat_message(item: Item, role: object) -> Iterator[Message]:
    content = _content(item, "content")
    if role == "user":
        yield Message.user_with_content(content)
    elif role == "assistant":
        yield from answer(content, [_call(one) for one in item.parts("tool_calls")])
    elif role == "tool":
        yield Message.tool_with_content(item.text("tool_call_id"), content)
    else:
        item.fail(f"has the role {role!r}, which cannot be imported: write it as a user's message")


def _call(call: Item) -> ToolCall:
    if call.data.get("type", "function") != "function":
        call.unknown("a call", call.data.get("type"))
    named = call.inner("function")
    return Item({**named.data, "id": call.data.get("id")}, call.where).call(
        "id", "name", "arguments"
    )


def _content(item: Item, field: str) -> tuple[ContentBlock, ...]:
    refused = item.data.get("refusal")
    blocks = [_block(part) for part in item.parts(field)]
    return (*blocks, Text(text=refused)) if isinstance(refused, str) else tuple(blocks)


def _block(part: Item) -> ContentBlock:
    kind = part.data.get("type")
    if kind in _TEXTS:
        return Text(text=part.text("text"))
    if kind == "refusal":
        return Text(text=part.text("refusal"))
    if kind == "image_url":
        return media(part.inner("image_url").text("url"))
    if kind == "input_audio":
        sound = part.inner("input_audio")
        return inline_media(f"audio/{sound.text('format')}", sound.text("data"))
    if kind in ("input_image", "input_file", "file"):
        return _file(part.inner("file") if kind == "file" else part)
    part.unknown("a part", kind)


def _file(part: Item) -> ContentBlock:
    title = part.data.get("filename")
    for field, media_type in [
        ("image_url", "image/"),
        ("file_data", "application/pdf"),
        ("file_url", "application/pdf"),
    ]:
        address = part.data.get(field)
        if isinstance(address, str):
            if field == "file_data" and not address.startswith("data:"):
                return inline_media(media_type, address, title)
            return media(address, media_type, title)
    part.fail(f"refers to a file that OpenAI keeps, {part.data.get('file_id')!r}: leave it out")
