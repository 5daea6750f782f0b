"""A user's message of the page, as a message of the log."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote_to_bytes

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
from awaken.server.protocols.ai_sdk.request import UiMessage
from awaken.server.protocols.intake import BadRequest

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
