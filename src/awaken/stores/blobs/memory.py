"""Blobs in the memory of one process."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.core.blobs import (
    PIECE,
    WHOLE,
    Blob,
    BlobUses,
    ByteRange,
    FreedBlobs,
    blob_id,
    check_blob,
)
from awaken.errors import BlobNotFound


class MemoryBlobs:
    """The blobs of a memory store."""

    def __init__(self, uses: BlobUses, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._uses = uses
        self._clock = clock
        # By scope and id: the blob, its content, and when it was last put.
        self._kept: dict[tuple[str, str], tuple[Blob, bytes, int]] = {}

    async def put(
        self, scope: str, stream: AsyncIterable[bytes], media_type: str, name: str | None = None
    ) -> Blob:
        check_blob(scope, media_type, name)
        data = b"".join([piece async for piece in stream])
        sha256 = hashlib.sha256(data).hexdigest()
        id = blob_id(scope, sha256, media_type, name)
        blob = Blob(id=id, size=len(data), sha256=sha256, media_type=media_type, name=name)
        self._kept[scope, id] = (blob, data, self._clock.now_ms())
        return blob

    @asynccontextmanager
    async def open(
        self, scope: str, id: str, range: ByteRange = WHOLE
    ) -> AsyncIterator[OpenMemoryBlob]:
        if (scope, id) not in self._kept:
            raise BlobNotFound(id)
        blob, data, _ = self._kept[scope, id]
        start, stop = range.within(blob)
        yield OpenMemoryBlob(blob, data[start:stop])

    async def delete_unreferenced(self, before_ms: int, *, scope: str | None = None) -> FreedBlobs:
        old = {
            key
            for key, (_, _, at_ms) in self._kept.items()
            if at_ms < before_ms and scope in (None, key[0])
        }
        used = await self._uses.filter_used_blobs({id for _, id in old})
        freed = [self._kept.pop(key)[0].size for key in old if key[1] not in used]
        return FreedBlobs(blobs=len(freed), bytes=sum(freed))


class OpenMemoryBlob:
    """A blob in memory that is being read."""

    def __init__(self, blob: Blob, data: bytes) -> None:
        self.blob = blob
        self._data = data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._data), PIECE):
            yield self._data[start : start + PIECE]
