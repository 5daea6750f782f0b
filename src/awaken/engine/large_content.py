"""Large content: media, and results of tools, that a run moves to blobs before a commit.

Media are loaded again before a model is asked. The messages in a run's memory keep their media;
only the stored ones refer to blobs. A text that is too large for the log is shown by its beginning,
and the model can read on with a tool.
"""

from __future__ import annotations

import binascii
import logging
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec

from awaken.codec import Json, clean_text, dumps, to_json
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
    Role,
    Text,
    ToolResultBlock,
    UrlSource,
    Video,
    Visibility,
)
from awaken.core.state.run_keys import HAS_BLOB_MEDIA, HAS_LARGE_RESULTS
from awaken.core.tool import ToolResult
from awaken.engine.live_run import LiveRun
from awaken.errors import BlobError, StorageError, StoreError
from awaken.tool.read_result import READ_RESULT, ReadResult

log = logging.getLogger("awaken.loop")


_MEDIA = (Image, Audio, Video, Document)
Media = Image | Audio | Video | Document
Change = Callable[[Media], Awaitable[ContentBlock]]

_replace = msgspec.structs.replace


# -- media before a commit --------------------------------------------------------------------


async def move_to_blobs(
    keep: RunBlobs, messages: Sequence[Message]
) -> tuple[tuple[Message, ...], list[str]]:
    """The messages with large media in blobs, and the ids of all blobs they refer to.

    Raises:
        StorageError: a blob could not be written, or a message refers to one that does not exist.
    """
    used: list[str] = []

    async def move(block: Media) -> Media:
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
        return tuple([await _map_media(message, move) for message in messages]), used
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


def source_of(blob: Blob) -> BlobSource:
    """The reference to a blob that a message holds."""
    return BlobSource(id=blob.id, media_type=blob.media_type, size=blob.size, name=blob.name)


# -- media before a model is asked ------------------------------------------------------------


async def with_media(run: LiveRun, request: InferenceRequest) -> InferenceRequest:
    """The request with the bytes of all media that are in blobs."""
    if run.blobs is None:
        return request
    return _replace(request, messages=await load_media(run.blobs, request.messages))


async def load_media(
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

    return [await _map_media(message, load) for message in messages]


async def _map_media(message: Message, change: Change) -> Message:
    """The message with each medium, also in nested results, replaced by what `change` returns."""
    content = await _change_blocks(message.content, change)
    return message if content is message.content else _replace(message, content=content)


async def _change_blocks(
    content: tuple[ContentBlock, ...], change: Change
) -> tuple[ContentBlock, ...]:
    if not any(isinstance(block, (*_MEDIA, ToolResultBlock)) for block in content):
        return content
    blocks: list[ContentBlock] = []
    for block in content:
        if isinstance(block, ToolResultBlock):
            block = _replace(block, content=await _change_blocks(block.content, change))
        elif isinstance(block, _MEDIA):
            block = await change(block)
        blocks.append(block)
    return tuple(blocks)


# -- large results ----------------------------------------------------------------------------


SHOWN = 4096
"""How many bytes of a large result its message holds, as they are written."""
TOLD = 1024
"""How many of them its event holds."""
_TEXT, _JSON = "text/plain; charset=utf-8", "application/json"


async def shorten_result(
    run: LiveRun, tool_name: str, result: ToolResult, text: str
) -> tuple[ToolResult, Text]:
    """The result as its event tells it, and the text for its message; `text` is the whole one.

    A text over the run's limit is moved to a blob, which the next commit names, and so is the data
    if it is another text. If that fails, the rest is lost, and the result says so to the model: the
    tool has done its work, and that is recorded.
    """
    if run.blobs is None:
        return result, Text(text=text)
    limit, data = run.blobs.max_inline_result, result.data
    is_own_text = result.message is None or data == result.message
    shown, whole = Text(text=text), None
    if _is_large(text, limit):
        kind = _JSON if result.message is None else _TEXT
        whole, note = await _keep_content(run, tool_name, clean_text(text).encode(), kind)
        shown = Text(text=_beginning(text, SHOWN, note), whole=whole)
        result = _replace(result, message=_beginning(text, TOLD, note))
        if whole is not None:
            offer_read_result(run)
        if is_own_text:
            return _replace(result, data=_reference(whole)), shown
    if not is_own_text and (written := _large_data(data, limit)) is not None:
        kept, _ = await _keep_content(run, tool_name, written, _JSON)
        result = _replace(result, data=_reference(kept))
    return result, shown


async def with_content(
    run: LiveRun, tool_name: str, result: ToolResult
) -> tuple[ToolResult, tuple[ContentBlock, ...]]:
    """The result as its event tells it, and the content for its message. Large texts and media are
    moved to blobs, which the next commit names. The model is told of media that are lost because
    that failed: the tool has done its work."""
    told = result.message or ""
    if len(told) > TOLD:
        told = f"{told[:TOLD]}…"
    told_result = _replace(result, content=(), message=told)
    message = Message(role=Role.TOOL, content=result.content)
    if run.blobs is not None:
        message = await _shorten_message(run, message, run.blobs.max_inline_result)
        try:
            (message,), used = await move_to_blobs(run.blobs, [message])
        except StorageError as error:
            log.error("run %s: media of %r are lost: %s", run.identity.run_id, tool_name, error)
            texts = [block for block in message.content if isinstance(block, Text)]
            lost = Text(text="[pictures or files of this result could not be kept and are lost]")
            return told_result, (*texts, lost)
        _note_blobs(run, used)
    run.unsaved += len(dumps(message.content))
    return told_result, message.content


async def keep_large(run: LiveRun) -> None:
    """Move large content of the messages from outside, which the next commit appends, into blobs.

    Media are moved as they are. The text of an internal message, such as one about a background
    task, is shortened like a tool's result; the text of users stays whole.

    Raises:
        StorageError: a medium could not be written, or a message refers to one that does not exist.
    """
    run.transcript.has_large = False
    if run.blobs is None:
        return
    pending, limit = list(run.transcript.pending()), run.blobs.max_inline_result
    internal = [i for i, m in enumerate(pending) if m.visibility is Visibility.INTERNAL]
    if sum(len(pending[i].text()) for i in internal) > 4 * limit:
        limit = SHOWN  # much news at once: what is short alone may be too much for one commit
    for index in internal:
        message = pending[index]
        pending[index] = await _shorten_message(run, message, limit)
        if pending[index] is not message:
            run.transcript.show_instead(message, pending[index])
    kept, used = await move_to_blobs(run.blobs, pending)
    run.transcript.replace_pending(kept)
    _note_blobs(run, used)


def _note_blobs(run: LiveRun, used: Sequence[str]) -> None:
    """Let the next commit name blobs with media, and later requests load them."""
    if not used:
        return
    run.journal.extras.blobs.extend(used)
    run.has_blobs = True
    if not run.state.read(HAS_BLOB_MEDIA):
        run.state.update(HAS_BLOB_MEDIA, True)


async def _shorten_message(run: LiveRun, message: Message, limit: int) -> Message:
    """The message with each text over the limit cut to its beginning."""
    content: list[ContentBlock] = []
    for block in message.content:
        if isinstance(block, Text) and _is_large(block.text, limit):
            whole, note = await _keep_content(
                run, "message", clean_text(block.text).encode(), _TEXT
            )
            content.append(Text(text=_beginning(block.text, SHOWN, note), whole=whole))
            if whole is not None:
                offer_read_result(run)
        else:
            content.append(block)
    if all(new is old for new, old in zip(content, message.content, strict=True)):
        return message
    return _replace(message, content=tuple(content))


def _is_large(text: str, limit: int) -> bool:
    """Whether a text has more bytes than that, or more than twice as many as JSON writes it."""
    size = len(text) if text.isascii() else len(clean_text(text).encode())
    return size > limit or len(dumps(clean_text(text))) > 2 * limit


async def _keep_content(
    run: LiveRun, tool_name: str, content: bytes, media_type: str
) -> tuple[BlobSource | None, str]:
    """The blob with the content, or `None` if it could not be written; and a note for the model."""
    assert run.blobs is not None, "the caller has asked"
    keep, size = run.blobs, len(content)
    try:
        blob = await put_bytes(keep.blobs, keep.scope, content, media_type, tool_name[:255])
    except StoreError as error:
        log.error("run %s: a result of %r is lost: %s", run.identity.run_id, tool_name, error)
        return None, f"of {size} bytes; the rest could not be kept and is lost"
    run.journal.extras.blobs.append(blob.id)
    return source_of(blob), f"of {size} bytes; read on with {READ_RESULT}, id {blob.id!r}"


def _large_data(data: Json, limit: int) -> bytes | None:
    """The data as JSON if it has more bytes than that; the commit refuses what is no JSON."""
    try:
        written = dumps(data)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    return written if len(written) > limit else None


def _reference(blob: BlobSource | None) -> Json:
    return None if blob is None else to_json(blob)


def _beginning(text: str, size: int, note: str) -> str:
    """The beginning of a text, `size` bytes as JSON writes it, and the note."""
    head = clean_text(text[:size])
    while (written := len(dumps(head)) - 2) > size:
        head = head[: len(head) * size // written]
    return f"{head}\n[the first {len(head.encode())} {note}]"


# -- the tool that reads on -------------------------------------------------------------------


_BLOB_KEYS = frozenset((HAS_BLOB_MEDIA.name, HAS_LARGE_RESULTS.name))


def offer_read_result(run: LiveRun) -> None:
    """Offer `read_result` from the next step on, in this run and in later ones of the thread."""
    if run.blobs is None or run.read_result is not None:
        return
    run.offer_read_result(ReadResult(run.blobs))
    if not run.state.read(HAS_LARGE_RESULTS):
        run.state.update(HAS_LARGE_RESULTS, True)


def restore_blob_state(run: LiveRun) -> None:
    """Restore whether earlier runs of the thread have stored media or large results as blobs."""
    if not run.state.has_any(_BLOB_KEYS):
        return
    run.has_blobs = bool(run.state.read(HAS_BLOB_MEDIA))
    if run.state.read(HAS_LARGE_RESULTS):
        offer_read_result(run)
