"""Blobs in the database of a Postgres store, in parts of 1 MiB.

A blob is written part by part under a number of its own. Its row appears when it is whole; parts
without a row are deleted by a later sweep.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager

from awaken.clock import Clock
from awaken.core.blobs import (
    PIECE,
    WHOLE,
    Blob,
    ByteRange,
    FreedBlobs,
    blob_id,
    check_blob,
    is_blob_id,
    is_scope,
)
from awaken.errors import BlobDamaged, BlobNotFound, InvalidRecord
from awaken.stores.postgres.connections import Db
from awaken.stores.postgres.engine import Engine, EngineOpener

PART = 1024 * 1024
LARGEST = 64 * PART

_BEGIN = "INSERT INTO @blob_uploads (begun_at) VALUES (?) RETURNING pk"
_ADD_PART = "INSERT INTO @blob_parts (upload, number, part) VALUES (?, ?, ?)"
# The same blob may have been put before: then its parts stay, and only its time moves.
_FINISH = """
INSERT INTO @blobs (id, scope, upload, size, sha256, media_type, name, put_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET put_at = excluded.put_at RETURNING upload
"""
_DROP_PARTS = "DELETE FROM @blob_parts WHERE upload = ANY (?::bigint[])"
_DROP_UPLOADS = "DELETE FROM @blob_uploads WHERE pk = ANY (?::bigint[])"
_BLOB = "SELECT upload, size, sha256, media_type, name FROM @blobs WHERE id = ? AND scope = ?"
_PIECE = "SELECT substring(part FROM ? FOR ?) FROM @blob_parts WHERE upload = ? AND number = ?"
_SWEEP = """
DELETE FROM @blobs AS b WHERE b.id IN (
    SELECT o.id FROM @blobs AS o WHERE o.put_at < $1 AND ($2::text IS NULL OR o.scope = $2)
    AND NOT EXISTS (SELECT 1 FROM @blob_uses AS u WHERE u.blob = o.id) LIMIT 500 FOR UPDATE
) AND b.put_at < $1 RETURNING b.upload, b.size
"""
_UNFINISHED = """
SELECT u.pk FROM @blob_uploads AS u WHERE u.begun_at < ?
AND NOT EXISTS (SELECT 1 FROM @blobs AS b WHERE b.upload = u.pk)
"""


class PostgresBlobs:
    """Blobs by scope and id, in the database of the store."""

    def __init__(self, opener: EngineOpener, clock: Clock) -> None:
        self._opener = opener
        self._clock = clock

    async def put(
        self, scope: str, stream: AsyncIterable[bytes], media_type: str, name: str | None = None
    ) -> Blob:
        check_blob(scope, media_type, name)
        engine = await self._opener.engine()
        now = self._clock.now_ms()
        upload = await engine.write(lambda db: db.value(_BEGIN, now))
        try:
            size, sha256 = await _upload(engine, upload, stream)
            blob = Blob(
                id=blob_id(scope, sha256, media_type, name),
                size=size,
                sha256=sha256,
                media_type=media_type,
                name=name,
            )
            values = (blob.id, scope, upload, size, sha256, *_encode_names(media_type, name), now)
            kept = await engine.write(lambda db: db.value(_FINISH, *values))
        except BaseException:
            await engine.write(lambda db: _drop(db, [upload]))
            raise
        if kept != upload:
            await engine.write(lambda db: _drop(db, [upload]))
        return blob

    @asynccontextmanager
    async def open(
        self, scope: str, id: str, range: ByteRange = WHOLE
    ) -> AsyncIterator[OpenedBlob]:
        if not is_scope(scope) or not is_blob_id(id):
            raise BlobNotFound(id)
        engine = await self._opener.engine()
        row = await engine.read(lambda db: db.row(_BLOB, id, scope))
        if row is None:
            raise BlobNotFound(id)
        upload, size, sha256, media_type, name = row
        blob = Blob(
            id=id,
            size=size,
            sha256=sha256,
            media_type=media_type.decode(),
            name=name.decode() if name is not None else None,
        )
        yield OpenedBlob(engine, blob, upload, *range.within(blob))

    async def delete_unreferenced(self, before_ms: int, *, scope: str | None = None) -> FreedBlobs:
        engine = await self._opener.engine()
        blobs = size = 0
        while gone := await engine.write(lambda db: _sweep(db, before_ms, scope)):
            blobs, size = blobs + len(gone), size + sum(gone)
        if scope is None:
            await engine.write(lambda db: _drop_unfinished(db, before_ms))
        return FreedBlobs(blobs=blobs, bytes=size)


class OpenedBlob:
    """A blob of a database that is being read."""

    def __init__(self, engine: Engine, blob: Blob, upload: int, start: int, stop: int) -> None:
        self.blob = blob
        self._engine = engine
        self._upload = upload
        self._start = start
        self._stop = stop

    async def __aiter__(self) -> AsyncIterator[bytes]:
        digest, at = hashlib.sha256(), self._start
        while at < self._stop:
            number, offset = divmod(at, PART)
            length = min(PIECE, PART - offset, self._stop - at)
            values = (offset + 1, length, self._upload, number)
            piece = await self._engine.read(lambda db, values=values: db.value(_PIECE, *values))  # type: ignore[misc]
            if piece is None or len(piece) != length:
                raise BlobDamaged(self.blob.id, "a part of it is missing")
            digest.update(piece)
            at += length
            yield piece
        is_whole = (self._start, self._stop) == (0, self.blob.size)
        if is_whole and digest.hexdigest() != self.blob.sha256:
            raise BlobDamaged(self.blob.id, "its digest differs")


def _encode_names(media_type: str, name: str | None) -> tuple[bytes, bytes | None]:
    """What callers say about a blob, as bytes: it may be a text that Postgres does not take."""
    return media_type.encode(), name.encode() if name is not None else None


async def _upload(engine: Engine, upload: int, stream: AsyncIterable[bytes]) -> tuple[int, str]:
    """Write the parts of a stream; returns its size and digest.

    Raises:
        InvalidRecord: the stream is longer than a blob may be.
    """
    digest, size, number = hashlib.sha256(), 0, 0
    buffer = bytearray()

    async def flush(part: bytes) -> None:
        await engine.write(lambda db: db.run(_ADD_PART, upload, number, part))

    async for piece in stream:
        digest.update(piece)
        size += len(piece)
        if size > LARGEST:
            raise InvalidRecord(
                f"a blob in Postgres may have {LARGEST // PART} MiB: keep larger files elsewhere, "
                "and their addresses in messages"
            )
        buffer += piece
        while len(buffer) >= PART:
            await flush(bytes(buffer[:PART]))
            del buffer[:PART]
            number += 1
    if buffer:
        await flush(bytes(buffer))
    return size, digest.hexdigest()


async def _drop(db: Db, uploads: list[int]) -> None:
    await db.run(_DROP_PARTS, uploads)
    await db.run(_DROP_UPLOADS, uploads)


async def _sweep(db: Db, before_ms: int, scope: str | None) -> list[int]:
    """Delete some blobs that are not used; returns their sizes."""
    rows = await db.rows(_SWEEP, before_ms, scope)
    await _drop(db, [upload for upload, _ in rows])
    return [size for _, size in rows]


async def _drop_unfinished(db: Db, before_ms: int) -> None:
    await _drop(db, [pk for (pk,) in await db.rows(_UNFINISHED, before_ms)])
