"""Converts messages: those of the log for AG-UI clients, and users' messages for the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from awaken.codec import Json, dumps_text
from awaken.core.message import (
    Audio,
    Base64Source,
    BlobSource,
    ContentBlock,
    Document,
    Image,
    InlineSource,
    MediaSource,
    Message,
    Role,
    Text,
    Thinking,
    UrlSource,
    Video,
    Visibility,
)
from awaken.core.suspension import Ticket, ToolCallResumeMode
from awaken.server.protocols.ag_ui.wire import AgUiMessage
from awaken.server.protocols.base import BadRequest

WireMessage = dict[str, Any]
"""A message as the client has it."""

_EDITS = ToolCallResumeMode.PASS_DECISION_TO_TOOL
_MEDIA: dict[str, type[Image] | type[Audio] | type[Video]] = {
    "image": Image,
    "audio": Audio,
    "video": Video,
}


def reasoning_id(message_id: str) -> str:
    """The id of the message with the reasoning that led to an answer."""
    return f"{message_id}:reasoning"


# -- from the client --------------------------------------------------------------------------


def user_message(sent: AgUiMessage) -> Message:
    """
    Raises:
        BadRequest: its content cannot be read.
    """
    content = sent.content
    if isinstance(content, str):
        return Message.user(content, id=sent.id)
    if not isinstance(content, list):
        raise BadRequest(f"message {sent.id!r} has no content: send text, or a list of parts")
    return Message.user_with_content([_block(part) for part in content], id=sent.id)


def tool_text(sent: AgUiMessage) -> str:
    """The text of a tool message that the model reads."""
    if sent.error:
        return f"Error: {sent.error}"
    if isinstance(sent.content, str):
        return sent.content
    parts = sent.content if isinstance(sent.content, list) else [sent.content]
    texts = [part.get("text") if isinstance(part, dict) else None for part in parts]
    if all(isinstance(text, str) for text in texts):
        return "".join(text for text in texts if text)
    return dumps_text(sent.content)


def _block(part: Json) -> ContentBlock:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return Text(text=part["text"])
    if kind == "binary":
        return _media(part, _kind_of(part), _binary_source(part))
    if kind in _MEDIA or kind == "document":
        return _media(part, kind, _source(part.get("source")))
    raise BadRequest(f"a content part cannot be read: {_beginning(part)}")


def _media(part: Mapping[str, Json], kind: str, source: InlineSource) -> ContentBlock:
    if kind in _MEDIA:
        return _MEDIA[kind](source=source)
    title = part.get("filename")
    return Document(source=source, title=title if isinstance(title, str) else None)


def _source(source: Json) -> InlineSource:
    kind, value, media_type = _fields(source, "type", "value", "mimeType")
    if kind == "data" and isinstance(value, str) and isinstance(media_type, str):
        return Base64Source(media_type=media_type, data=value)
    if kind == "url" and isinstance(value, str):
        return UrlSource(url=value)
    raise BadRequest(
        f"a content part has no source that can be read: {_beginning(source)}: send data or a URL"
    )


def _binary_source(part: Json) -> InlineSource:
    """The source of a part as clients before 1.0 write it."""
    data, url, media_type = _fields(part, "data", "url", "mimeType")
    if isinstance(data, str) and isinstance(media_type, str):
        return Base64Source(media_type=media_type, data=data)
    return _source({"type": "url", "value": url})


def _kind_of(part: Json) -> str:
    (media_type,) = _fields(part, "mimeType")
    return str(media_type).partition("/")[0]


def _fields(value: Json, *names: str) -> list[Json]:
    return [value.get(name) if isinstance(value, dict) else None for name in names]


def _beginning(value: Json) -> str:
    return dumps_text(value)[:80]


# -- to the client ----------------------------------------------------------------------------


def wire_messages(messages: Iterable[Message]) -> list[WireMessage]:
    """The messages of a log that clients may see."""
    return [wire for message in messages for wire in _wire(message)]


def _wire(message: Message) -> list[WireMessage]:
    if message.visibility is Visibility.INTERNAL or message.id is None:
        return []
    match message.role:
        case Role.ASSISTANT:
            return _assistant(message, message.id)
        case Role.USER:
            return [{"id": message.id, "role": "user", "content": _user_content(message)}]
        case Role.TOOL:
            return [tool_message(message.id, message.tool_call_id or "", message.text())]
        case Role.SYSTEM:
            return [{"id": message.id, "role": "system", "content": message.text()}]


def _assistant(message: Message, id: str) -> list[WireMessage]:
    thoughts = [block.thinking for block in message.content if isinstance(block, Thinking)]
    found = [reasoning_message(id, "".join(thoughts))] if any(thoughts) else []
    answer = assistant_message(id, message.text())
    for call in message.tool_calls or ():
        add_call(answer, call.id, call.name, dumps_text(call.arguments))
    return [*found, answer]


def with_edits(messages: Sequence[Message], tickets: Iterable[Ticket]) -> list[Message]:
    """The messages, with the arguments of calls as approvers have changed them. The key of a ticket
    names the message of its call, and the call's index in it."""
    edited: dict[str, dict[int, Json]] = {}
    for ticket in tickets:
        given = ticket.decision
        if given is not None and given.mode is _EDITS and ticket.asker is None:
            message_id, _, index = ticket.key.rpartition(":")
            if index.isdecimal():
                edited.setdefault(message_id, {})[int(index)] = given.result
    return [_with_arguments(m, edited[m.id]) if m.id in edited else m for m in messages]


def _with_arguments(message: Message, arguments: Mapping[int, Json]) -> Message:
    calls = [
        msgspec.structs.replace(call, arguments=arguments.get(index, call.arguments))
        for index, call in enumerate(message.tool_calls or ())
    ]
    return msgspec.structs.replace(message, tool_calls=tuple(calls))


def behind_call(
    messages: Sequence[WireMessage], call_id: str, more: Sequence[WireMessage]
) -> list[WireMessage]:
    """The messages, with more of them behind the message that made a call and behind its results,
    or at the end if there is no such call."""
    position = (
        next((i for i, m in enumerate(messages) if _makes(m, call_id)), len(messages) - 1) + 1
    )
    while position < len(messages) and messages[position]["role"] == "tool":
        position += 1
    return [*messages[:position], *more, *messages[position:]]


def _makes(message: WireMessage, call_id: str) -> bool:
    return any(call["id"] == call_id for call in message.get("toolCalls", ()))


def assistant_message(id: str, text: str = "") -> WireMessage:
    return {"id": id, "role": "assistant", **({"content": text} if text else {})}


def reasoning_message(answer_id: str, text: str = "") -> WireMessage:
    """The reasoning that led to the answer `answer_id`."""
    return {"id": reasoning_id(answer_id), "role": "reasoning", "content": text}


def tool_message(id: str, call_id: str, text: str) -> WireMessage:
    return {"id": id, "role": "tool", "toolCallId": call_id, "content": text}


def add_call(answer: WireMessage, id: str, name: str, arguments: str = "") -> None:
    """Add a tool call to an assistant message."""
    function = {"name": name, "arguments": arguments}
    answer.setdefault("toolCalls", []).append({"id": id, "type": "function", "function": function})


def _user_content(message: Message) -> str | list[Json]:
    if all(isinstance(block, Text) for block in message.content):
        return message.text()
    return [part for block in message.content if (part := _part(block)) is not None]


def _part(block: ContentBlock) -> Json:
    match block:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Image() | Audio() | Video() | Document():
            source = _wire_source(block.source)
            kind = type(block).__name__.lower()
            return None if source is None else {"type": kind, "source": source}
        case _:
            return None


def _wire_source(source: MediaSource) -> Json:
    match source:
        case Base64Source(media_type=media_type, data=data):
            return {"type": "data", "value": data, "mimeType": media_type}
        case UrlSource(url=url):
            return {"type": "url", "value": url}
        case BlobSource():
            return None  # clients of both versions have no source for it
