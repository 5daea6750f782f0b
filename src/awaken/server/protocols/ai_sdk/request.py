"""The body of a chat request, as `DefaultChatTransport` sends it, and the user's message in it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any, Literal
from urllib.parse import unquote_to_bytes

import msgspec

from awaken.codec import Json
from awaken.core.message import (
    Audio,
    Base64Source,
    ContentBlock,
    Document,
    Image,
    InlineSource,
    Message,
    Text,
    UrlSource,
    Video,
)
from awaken.core.storable import explain_json
from awaken.core.tool import ToolDescriptor
from awaken.server.protocols.base import BadRequest


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The request of a page. Fields that are not listed are ignored.

    `id`, `messages`, `trigger` and `message_id` come from the transport. The page may add, in the
    transport's `body` or in the options of a call:

    - `agent_id`, if the route does not name the agent;
    - `ai_sdk_version`, the major version, if it does not send the header;
    - `tools`, those that it executes itself;
    - `state` and `context`, which the model is shown with the new message;
    - `answers`, by approval id: other arguments for a call that needs an approval, or the value
      that a question asks for, beside a no.
    """

    id: str
    messages: tuple[UiMessage, ...]
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    message_id: str | None = None
    agent_id: str | None = None
    ai_sdk_version: int | str | None = None
    tools: tuple[AiSdkTool, ...] = ()
    state: Json = None
    context: Json = None
    answers: dict[str, Json] = msgspec.field(default_factory=dict)


class UiMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message of the page."""

    role: str
    id: str = ""
    parts: tuple[dict[str, Any], ...]


class AiSdkTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the page executes itself."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object"})

    def descriptor(self) -> ToolDescriptor:
        return ToolDescriptor(
            id=self.name,
            name=self.name,
            description=self.description,
            parameters=self.parameters,
        )


def read_request(body: bytes) -> ChatRequest:
    """
    Raises:
        BadRequest: it is not a chat request.
    """
    try:
        return msgspec.json.decode(body, type=ChatRequest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = explain_json(body, error)
        raise BadRequest(f"This is not a chat request of the AI SDK: {why}") from None


def major_version(given: int | str | None) -> int:
    """The major version that a client says it has, such as `7` or `7.0.169`; else 6."""
    major = str(given or "").strip().partition(".")[0]
    return int(major) if major.isascii() and major.isdigit() and len(major) < 4 else 6


_MEDIA: dict[str, type[Image | Audio | Video]] = {"image": Image, "audio": Audio, "video": Video}


def user_message(message: UiMessage) -> Message:
    """A user's text and files.

    Raises:
        BadRequest: there is neither, or a file cannot be read.
    """
    content = tuple(_blocks(message))
    if not content:
        raise BadRequest("The message is empty: write a text, or add a file.")
    return Message.user_with_content(content, id=message.id or None)


def _blocks(message: UiMessage) -> Iterator[ContentBlock]:
    for part in message.parts:
        match part:
            case {"type": "text", "text": str(text)}:
                if text:
                    yield Text(text=text)
            case {"type": "file"}:
                yield _file(part)


def _file(part: dict[str, Any]) -> ContentBlock:
    url, media_type, name = part.get("url"), part.get("mediaType"), part.get("filename")
    if not isinstance(url, str) or not isinstance(media_type, str):
        raise BadRequest("A file has no url or no mediaType: send both.")
    source = _source(url, media_type)
    kind = _MEDIA.get(media_type.partition("/")[0])
    if kind is not None:
        return kind(source=source)
    return Document(source=source, title=name if isinstance(name, str) else None)


def _source(url: str, media_type: str) -> InlineSource:
    scheme, _, rest = url.partition(":")
    if scheme.lower() in ("http", "https"):
        return UrlSource(url=url)
    head, comma, data = rest.partition(",")
    if scheme.lower() != "data" or not comma:
        raise BadRequest("A file's url is neither http, https nor data: send one of these.")
    if not head.endswith(";base64"):
        data = base64.b64encode(unquote_to_bytes(data)).decode()
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise BadRequest("A file's data url is not valid base64: send it once more.") from None
    return Base64Source(media_type=media_type, data=data)
