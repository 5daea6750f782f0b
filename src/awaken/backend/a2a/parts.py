"""Converting our messages to the protocol's parts, and its parts to text and artifacts."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from mimetypes import MimeTypes
from typing import assert_never
from uuid import NAMESPACE_URL, uuid5

from a2a.types.a2a_pb2 import Message as A2aMessage
from a2a.types.a2a_pb2 import Part
from google.protobuf.json_format import MessageToDict, ParseError

from awaken.codec import Json, clean_text, dumps_text
from awaken.core.backend import ExecutionFailed
from awaken.core.backend_result import BackendOutputArtifact
from awaken.core.message import (
    Audio,
    BlobSource,
    Citation,
    ContentBlock,
    Document,
    Image,
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

UNREADABLE = (ParseError, ValueError, TypeError, AttributeError, OverflowError)
"""What `ParseDict` raises for JSON that does not fit a message."""
_NAMESPACE = uuid5(NAMESPACE_URL, "awaken:a2a")
# The built-in table only: the machine's own types must not change what is sent.
_TYPES = MimeTypes()


# -- what goes out ----------------------------------------------------------------------------


def sendable(messages: Iterable[Message]) -> list[Message]:
    """The messages to send to the agent: visible user messages that are not empty."""
    return [message for message in messages if message.is_visible_user() and parts_of(message)]


def waiting_for_answer(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages after the last one of an assistant or a tool."""
    for index in range(len(messages), 0, -1):
        if messages[index - 1].role in (Role.ASSISTANT, Role.TOOL):
            return messages[index:]
    return messages


def message_id(run_id: str, messages: Iterable[Message]) -> str:
    """The protocol's id for these messages of a run; deterministic, for when they are sent
    again."""
    ids = [message.id or dumps_text(message) for message in messages]
    return str(uuid5(_NAMESPACE, dumps_text([run_id, ids])))


def parts_of(message: Message) -> list[Part]:
    """The parts of a message. Empty texts are left out, unless there is nothing else.

    Raises:
        ExecutionFailed: media is not base64.
    """
    parts = [part for block in message.content if (part := _part(block)) is not None]
    return [part for part in parts if part.text or part.WhichOneof("content") != "text"] or parts


def _part(block: ContentBlock) -> Part | None:
    match block:
        case Text(text=text):
            return Part(text=clean_text(text))
        case Document(source=source, title=title):
            return _media(source, title)
        case Image(source=source) | Audio(source=source) | Video(source=source):
            return _media(source, None)
        case ToolUse() | ToolResultBlock() | Thinking() | Opaque() | Citation():
            return None
        case _:
            assert_never(block)


def _media(source: MediaSource, title: str | None) -> Part:
    filename = clean_text(title) if title else None
    if isinstance(source, BlobSource):
        raise ExecutionFailed(f"{source.media_type} in a message is in a blob that was not loaded")
    if isinstance(source, UrlSource):
        path = source.url.partition("?")[0].partition("#")[0]
        guessed, _ = _TYPES.guess_type(path, strict=False)
        return Part(url=source.url, media_type=guessed or "", filename=filename)
    try:
        raw = base64.b64decode(source.data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ExecutionFailed(f"{source.media_type} in a message is not base64: {error}") from error
    return Part(raw=raw, media_type=source.media_type, filename=filename)


# -- what comes in ----------------------------------------------------------------------------


def message_text(message: A2aMessage) -> str:
    """The text of a message's parts, separated by blank lines."""
    return "\n\n".join(text for part in message.parts if (text := part_text(part)))


def part_text(part: Part) -> str:
    """The text of a part: its text, or its data as JSON."""
    kind = part.WhichOneof("content")
    if kind == "text":
        return part.text
    return dumps_text(plain(MessageToDict(part.data))) if kind == "data" else ""


def message_artifacts(message: A2aMessage) -> list[BackendOutputArtifact]:
    """The parts of a message that are not text, as artifacts."""
    return [
        BackendOutputArtifact(
            id=f"{message.message_id}:{index}",
            name=part.filename or None,
            media_type=media_type(part),
            content={"parts": [plain(MessageToDict(part))]},
        )
        for index, part in enumerate(message.parts)
        if part.WhichOneof("content") not in ("text", None)
    ]


def plain(value: Json) -> Json:
    """Normalised JSON: the protocol's types turn integers into floats and lose the order of
    keys."""
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def media_type(part: Part) -> str | None:
    """The media type of a part, or `None` if it is unknown."""
    if part.media_type:
        return part.media_type
    return {"text": "text/plain", "data": "application/json"}.get(part.WhichOneof("content") or "")
