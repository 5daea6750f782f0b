"""Converting our content blocks to Anthropic's."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
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
    Opaque,
    Text,
    Thinking,
    UrlSource,
    Video,
)
from awaken.models.wire import unsupported

ORIGIN = "anthropic"

BlockParam = dict[str, Any]

_DATA_URL = re.compile(r"data:([^;,]+)?((?:;[^;,]+)*?)(;base64)?,(.*)", re.DOTALL)


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
            raise unsupported(model, type(block).__name__, where)
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
    raise unsupported(model, f"{type(block).__name__} (system)", where)


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
    source = _inlined(given)
    if isinstance(source, UrlSource):
        return {"type": "url", "url": source.url}
    return {"type": "base64", "media_type": source.media_type, "data": source.data}


def _document_source(given: MediaSource, model: str, where: str) -> BlockParam:
    source = _inlined(given)
    if isinstance(source, UrlSource):
        return {"type": "url", "url": source.url}
    kind = source.media_type.partition(";")[0].strip().lower()
    if kind == "application/pdf":
        return {"type": "base64", "media_type": kind, "data": source.data}
    if not kind.startswith("text/") and kind != "application/json":
        raise unsupported(model, f"Document ({source.media_type})", where)
    try:
        text = b64decode(source.data).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise InvalidRequest(f"the document at {where} is not base64 of UTF-8 text") from error
    return {"type": "text", "media_type": "text/plain", "data": text}


def _inlined(given: MediaSource) -> InlineSource:
    """A `data:` URL as inline content; other sources as they are."""
    source = inline_source(given)
    found = _DATA_URL.fullmatch(source.url) if isinstance(source, UrlSource) else None
    if found is None:
        return source
    kind, _, encoded, data = found.groups()
    if not encoded:
        data = binascii.b2a_base64(unquote_to_bytes(data), newline=False).decode()
    return Base64Source(media_type=kind or "text/plain", data=data)
