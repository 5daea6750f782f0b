"""Media in messages: large ones go to blobs before a commit, and come back before a model is asked.

The messages that a run holds in memory keep their media; only what is written refers to blobs.
"""

from __future__ import annotations

import binascii
import logging
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec

from awaken.core.blobs import INLINE_LIMIT, Blob, RunBlobs, put_bytes, read_bytes
from awaken.core.llm import InferenceRequest
from awaken.core.message import (
    Audio,
    Base64Source,
    BlobSource,
    ContentBlock,
    Document,
    Image,
    Message,
    Text,
    ToolResultBlock,
    UrlSource,
    Video,
)
from awaken.engine.live_run import LiveRun
from awaken.errors import BlobError, StorageError, StoreError

_MEDIA = (Image, Audio, Video, Document)
Media = Image | Audio | Video | Document
Change = Callable[[Media], Awaitable[ContentBlock]]

log = logging.getLogger("awaken.loop")
_replace = msgspec.structs.replace


def source_of(blob: Blob) -> BlobSource:
    """The reference to a blob that a message holds."""
    return BlobSource(id=blob.id, media_type=blob.media_type, size=blob.size, name=blob.name)


# -- before a commit --------------------------------------------------------------------------


async def moved_to_blobs(
    keep: RunBlobs, messages: Sequence[Message]
) -> tuple[tuple[Message, ...], list[str]]:
    """The messages with large media in blobs, and the ids of all blobs they refer to.

    Raises:
        StorageError: a blob could not be written, or a message refers to one that does not exist.
    """
    used: list[str] = []

    async def moved(block: Media) -> Media:
        source = block.source
        if isinstance(source, BlobSource):
            async with keep.blobs.open(keep.scope, source.id) as opened:
                source = source_of(opened.blob)  # what the store says, not the client
        elif (content := _large_content(source)) is not None:
            title = block.title if isinstance(block, Document) else None
            name = title[:255] if title else None
            source = source_of(await put_bytes(keep.blobs, keep.scope, *content, name))
        else:
            return block
        used.append(source.id)
        return _replace(block, source=source)

    try:
        return tuple([await _mapped(message, moved) for message in messages]), used
    except StoreError as error:
        raise StorageError(error) from error


def _large_content(source: Base64Source | UrlSource) -> tuple[bytes, str] | None:
    """The bytes and the type of a large medium; `None` if it is small, elsewhere, or not base64."""
    if isinstance(source, Base64Source):
        kind, data = source.media_type, source.data
    else:
        head, _, data = source.url.partition(";base64,")
        if not head.startswith("data:"):
            return None
        kind = head.removeprefix("data:") or "text/plain"
    if len(data) * 3 // 4 <= INLINE_LIMIT or len(kind) > 255:
        return None
    try:
        return b64decode(data, validate=True), kind
    except (binascii.Error, ValueError):
        return None  # the adapter that gets it says what is wrong


# -- before a model is asked ------------------------------------------------------------------


async def with_media(run: LiveRun, request: InferenceRequest) -> InferenceRequest:
    """The request with the bytes of all media that are in blobs."""
    if run.blobs is None:
        return request
    return _replace(request, messages=await loaded(run.blobs, request.messages))


async def loaded(
    keep: RunBlobs, messages: Iterable[Message], *, may_lack: bool = True
) -> list[Message]:
    """The messages with the bytes of all media that are in blobs.

    In place of a blob that is gone the model reads that it is: a thread stays usable.

    Raises:
        BlobError: a blob is gone, and `may_lack` is false.
    """

    async def load(block: Media) -> ContentBlock:
        source = block.source
        if not isinstance(source, BlobSource):
            return block
        try:
            _, content = await read_bytes(keep.blobs, keep.scope, source.id)
        except BlobError as error:
            if not may_lack:
                raise
            log.warning("a medium was left out of a request: %s", error)
            what = " ".join(filter(None, (source.media_type, source.name)))
            return Text(text=f"[{type(block).__name__} ({what}) is gone: {error}]")
        inline = Base64Source(media_type=source.media_type, data=b64encode(content).decode())
        return _replace(block, source=inline)

    return [await _mapped(message, load) for message in messages]


# -- walking ----------------------------------------------------------------------------------


async def _mapped(message: Message, change: Change) -> Message:
    """The message with each medium, also in nested results, replaced by what `change` returns."""
    content = await _changed(message.content, change)
    return message if content is message.content else _replace(message, content=content)


async def _changed(content: tuple[ContentBlock, ...], change: Change) -> tuple[ContentBlock, ...]:
    if not any(isinstance(block, (*_MEDIA, ToolResultBlock)) for block in content):
        return content
    blocks: list[ContentBlock] = []
    for block in content:
        if isinstance(block, ToolResultBlock):
            block = _replace(block, content=await _changed(block.content, change))
        elif isinstance(block, _MEDIA):
            block = await change(block)
        blocks.append(block)
    return tuple(blocks)
