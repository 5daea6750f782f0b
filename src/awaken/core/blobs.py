"""Blobs: large things beside the message log, such as pictures, files and long tool results.

The log holds references to them. A blob that no thread refers to is deleted by a later sweep.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from awaken.codec import digest
from awaken.core.value import Value, nullable
from awaken.errors import BlobRangeBeyondEnd, InvalidRecord

INLINE_LIMIT = 64 * 1024
"""Tool results and media with more bytes than this become blobs."""
PIECE = 256 * 1024
"""The most bytes that are held in memory at once while a blob is written or read."""
LONGEST_NAME = 255

_HEX = frozenset("0123456789abcdef")
_IN_SCOPES = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")


class Blob(Value, frozen=True, kw_only=True):
    """The record of a blob; `sha256` is the hexadecimal digest of its bytes."""

    id: str
    size: int
    sha256: str
    media_type: str
    name: str | None = nullable()


class ByteRange(Value, frozen=True, kw_only=True):
    """The bytes from `start` up to, but not including, `stop`; without `stop`, up to the end."""

    start: int = 0
    stop: int | None = None

    def within(self, blob: Blob) -> tuple[int, int]:
        """The first position and the one behind the last; a `stop` behind the end is the end.

        Raises:
            BlobRangeBeyondEnd: it begins behind the end, or ends before it begins.
        """
        stop = blob.size if self.stop is None else min(self.stop, blob.size)
        if self.start == 0 and stop >= 0:
            return 0, stop
        if not 0 <= self.start < blob.size or stop < self.start:
            raise BlobRangeBeyondEnd(blob.id, start=self.start, stop=self.stop, size=blob.size)
        return self.start, stop


WHOLE = ByteRange()


class FreedBlobs(Value, frozen=True, kw_only=True):
    """How many blobs a sweep deleted, and how many bytes they had."""

    blobs: int = 0
    bytes: int = 0


class OpenBlob(Protocol):
    """A blob that is being read. Iterating over it gives its bytes piece by piece, once."""

    @property
    def blob(self) -> Blob: ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...


class BlobUses(Protocol):
    """The part of a store that a blob store reads before it deletes blobs."""

    async def filter_used_blobs(
        self, ids: Collection[str], *, thread_id: str | None = None
    ) -> frozenset[str]:
        """The ids, of those given, that commits of the thread use; without `thread_id`, commits of
        any thread."""
        ...


class BlobStore(Protocol):
    """Keeps blobs by scope and id. Neither `put` nor `open` holds a whole blob in memory."""

    async def put(
        self, scope: str, stream: AsyncIterable[bytes], media_type: str, name: str | None = None
    ) -> Blob:
        """Keep the bytes of a stream; they are durable on return.

        The same bytes under the same scope, media type and name are one blob, however often they
        are put. If the stream raises, or the disk is full, nothing is kept.

        Raises:
            InvalidRecord: the scope, the media type or the name cannot be kept.
            StoreUnavailable: the blob cannot be written; the text says why.
        """
        ...

    def open(
        self, scope: str, id: str, range: ByteRange = WHOLE
    ) -> AbstractAsyncContextManager[OpenBlob]:
        """Read a blob, or a range of it. A whole blob is compared with its digest at the end.

        Raises:
            BlobNotFound: the scope has no such blob.
            BlobRangeBeyondEnd: the range begins behind the end of the blob.
            BlobDamaged: the bytes are not those that were put.
        """
        ...

    async def delete_unreferenced(self, before_ms: int, *, scope: str | None = None) -> FreedBlobs:
        """Delete the blobs that were last put before that time and that no thread uses: those of
        one scope, or of all."""
        ...


class RunBlobs(msgspec.Struct, frozen=True, kw_only=True):
    """The blob store of a run: `blobs`, under `scope`.

    A tool result whose text has more than `max_inline_result` bytes does not stay in the log.
    """

    blobs: BlobStore
    uses: BlobUses
    scope: str = ""
    max_inline_result: int = INLINE_LIMIT


def blobs_of(blobs: RunBlobs | None, scope: str) -> RunBlobs | None:
    """The same blob store and limit, for a run of that tenant."""
    if blobs is None or blobs.scope == scope:
        return blobs
    return msgspec.structs.replace(blobs, scope=scope)


def blob_id(scope: str, sha256: str, media_type: str, name: str | None) -> str:
    """The id of a blob: 32 hexadecimal digits, made of its scope, content, type and name."""
    return digest([scope, sha256, media_type, name])


def is_blob_id(id: str) -> bool:
    return len(id) == 32 and _HEX.issuperset(id)


def is_scope(scope: str) -> bool:
    return len(scope) <= 63 and _IN_SCOPES.issuperset(scope)


def check_blob(scope: str, media_type: str, name: str | None) -> None:
    """Return if a blob may be put like this.

    Raises:
        InvalidRecord: it may not; the text says why.
    """
    if not is_scope(scope):
        raise InvalidRecord(
            f"scope {scope[:80]!r} of a blob: use at most 63 of the characters a-z, 0-9 and -"
        )
    for what, text in (("media type", media_type), ("name", name or "")):
        if len(text) > LONGEST_NAME:
            raise InvalidRecord(
                f"the {what} of a blob has {len(text)} characters: use at most {LONGEST_NAME}"
            )


async def put_bytes(
    blobs: BlobStore, scope: str, data: bytes, media_type: str, name: str | None = None
) -> Blob:
    """Keep bytes that are in memory already; see `BlobStore.put`."""
    return await blobs.put(scope, _pieces(data), media_type, name)


async def _pieces(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), PIECE):
        yield data[start : start + PIECE]


async def read_bytes(
    blobs: BlobStore, scope: str, id: str, range: ByteRange = WHOLE
) -> tuple[Blob, bytes]:
    """A blob and its bytes, or those of a range, in memory; see `BlobStore.open`."""
    async with blobs.open(scope, id, range) as opened:
        return opened.blob, b"".join([piece async for piece in opened])
