"""Converting content blocks to Gemini's parts. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from mimetypes import guess_type
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from awaken.codec import Json, digest
from awaken.core.address import split_address
from awaken.core.llm import InvalidRequest, inline_source
from awaken.core.message import Audio, Document, Image, MediaSource, Text, UrlSource, Video
from awaken.models.wire import MAX_NAME, unsupported

if TYPE_CHECKING:
    from google.genai import types

ORIGIN = "google"

Part = dict[str, Any]
Media = Image | Audio | Video | Document

_RESULT_KINDS = {"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"}


def wire_name(name: str) -> str:
    """A tool's name in the characters that Gemini accepts; deterministic."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", name) and len(name) <= MAX_NAME:
        return name
    letters = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
    return f"_{letters[: MAX_NAME - 18]}_{digest(name)[:16]}"


def text_part(text: str) -> list[Part]:
    """One part, or none for an empty text, which Gemini refuses."""
    return [{"text": text}] if text else []


def media_part(block: Media, where: str) -> Part:
    """A picture, sound, video or file: its bytes or its URL.

    Raises:
        InvalidRequest: the data is not base64.
    """
    return _media(block.source, where)


def signed(part: Part, signature: str | None, where: str) -> Part:
    """The part with its signature, which Gemini needs to see again."""
    if signature:
        part["thought_signature"] = _bytes(signature, where)
    return part


def opaque_data(part: types.Part) -> Part | None:
    """A part that is neither text nor a call, as plain JSON; `None` for those that are."""
    if part.text is not None or part.function_call is not None:
        return None
    data: Part = part.model_dump(mode="json", exclude_none=True)
    return data if data.keys() - {"thought", "thought_signature"} else None


def opaque_part(data: Json) -> list[Part]:
    """The part that `opaque_data` was made from, for a request."""
    if not isinstance(data, dict):
        return []
    part: Part = dict(data)
    if isinstance(inline := part.get("inline_data"), dict):
        part["inline_data"] = {**inline, "data": base64.urlsafe_b64decode(inline["data"])}
    if "thought_signature" in part:
        part["thought_signature"] = base64.urlsafe_b64decode(part["thought_signature"])
    return [part]


def fits_result(part: Part) -> bool:
    """Whether Gemini takes a medium inside the result of a call."""
    medium = part.get("inline_data") or part["file_data"]
    return medium.get("mime_type", "").partition(";")[0] in _RESULT_KINDS


def only_text(block: object, where: str, model: str) -> str:
    """The text of a block, where only text is allowed.

    Raises:
        InvalidRequest: it is something else.
    """
    if isinstance(block, Text):
        return block.text
    raise unsupported(model, block, where)


def _media(source: MediaSource, where: str) -> Part:
    source = inline_source(source)
    if not isinstance(source, UrlSource):
        return _inline(source.media_type, _bytes(source.data, where))
    scheme, _, rest = source.url.partition(":")
    if scheme.lower() == "data":
        head, _, data = rest.partition(",")
        kind, *options = head.split(";")
        raw = unquote_to_bytes(data)
        return _inline(
            kind or "text/plain",
            _bytes(raw.decode("latin-1"), where) if "base64" in options else raw,
        )
    file: dict[str, str] = {"file_uri": source.url}
    if guessed := guess_type(split_address(source.url).path)[0]:
        file["mime_type"] = guessed
    return {"file_data": file}


def _inline(media_type: str, data: bytes) -> Part:
    return {"inline_data": {"mime_type": media_type, "data": data}}


def _bytes(data: str, where: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(f"what is at {where} should be base64: {error}") from error
