"""Checks of blob stores (06 §2.10): bytes come back as they were put, and only to their scope."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable

from awaken.core.blobs import PIECE, BlobStore, ByteRange, put_bytes, read_bytes
from awaken.core.store.store import Store
from awaken.errors import BlobNotFound, BlobRangeBeyondEnd, InvalidRecord
from awaken.testing.conformance.helpers import Suite, event, expect_error, write

BlobCheck = Callable[[BlobStore, Store], Awaitable[None]]

check = Suite[BlobCheck]()

LATER = 2**50
"""A time, in milliseconds, before which everything was put."""
LARGE = bytes(range(256)) * 4096
PLAIN = "text/plain"


class _Broken(Exception):
    """Raised by a stream that breaks off."""


async def in_pieces(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


@check
async def a_blob_comes_back_byte_for_byte(blobs: BlobStore, store: Store) -> None:
    """06/SV-14."""
    put = await blobs.put("", in_pieces(LARGE[:7], b"", LARGE[7:]), "image/png", "cat.png")

    found, content = await read_bytes(blobs, "", put.id)

    assert content == LARGE
    assert found == put
    assert (put.size, put.media_type, put.name) == (len(LARGE), "image/png", "cat.png")
    assert put.sha256 == hashlib.sha256(LARGE).hexdigest()


@check
async def a_blob_is_read_in_pieces(blobs: BlobStore, store: Store) -> None:
    put = await put_bytes(blobs, "", LARGE, PLAIN)

    async with blobs.open("", put.id) as opened:
        lengths = [len(piece) async for piece in opened]

    assert sum(lengths) == len(LARGE)
    assert max(lengths) <= PIECE


@check
async def an_empty_blob_is_a_blob(blobs: BlobStore, store: Store) -> None:
    put = await put_bytes(blobs, "", b"", PLAIN)

    assert await read_bytes(blobs, "", put.id) == (put, b"")


@check
async def a_range_is_read(blobs: BlobStore, store: Store) -> None:
    put = await put_bytes(blobs, "", b"0123456789", PLAIN)

    async def part(start: int, stop: int | None = None) -> bytes:
        return (await read_bytes(blobs, "", put.id, ByteRange(start=start, stop=stop)))[1]

    assert await part(3, 6) == b"345"
    assert await part(8) == b"89"
    assert await part(8, 100) == b"89"
    assert await part(4, 4) == b""


@check
async def a_range_beyond_the_end_is_refused(blobs: BlobStore, store: Store) -> None:
    """06, bad input."""
    put = await put_bytes(blobs, "", b"0123456789", PLAIN)

    for start, stop in ((10, None), (11, 12), (-1, None), (5, 4), (0, -1)):
        beyond = ByteRange(start=start, stop=stop)
        error = await expect_error(BlobRangeBeyondEnd, read_bytes(blobs, "", put.id, beyond))
        assert error.size == 10


@check
async def the_same_content_is_one_blob(blobs: BlobStore, store: Store) -> None:
    """Another name, type or scope makes another one."""
    first = await put_bytes(blobs, "", b"same", PLAIN, "a")
    again = await blobs.put("", in_pieces(b"sa", b"me"), PLAIN, "a")
    others = [
        await put_bytes(blobs, "", b"same", PLAIN, "b"),
        await put_bytes(blobs, "", b"same", PLAIN),
        await put_bytes(blobs, "", b"same", "text/html", "a"),
        await put_bytes(blobs, "acme", b"same", PLAIN, "a"),
    ]

    assert again == first
    assert len({first.id, *(other.id for other in others)}) == 5
    assert (await blobs.delete_unreferenced(LATER)).blobs == 5


@check
async def a_blob_is_seen_by_its_own_scope_only(blobs: BlobStore, store: Store) -> None:
    """06, bad input: another scope gets the error for a blob that never was."""
    put = await put_bytes(blobs, "acme", b"secret", PLAIN)
    unknown = str(await expect_error(BlobNotFound, read_bytes(blobs, "", "0" * 32)))

    for scope in ("", "other", "acm", "Acme", "acme/", "../acme"):
        error = await expect_error(BlobNotFound, read_bytes(blobs, scope, put.id))
        assert str(error).replace(put.id, "0" * 32) == unknown
    assert (await read_bytes(blobs, "acme", put.id))[1] == b"secret"


@check
async def an_id_that_is_none_finds_nothing(blobs: BlobStore, store: Store) -> None:
    """06, bad input: `/`, `..`, NUL and ten kilobytes."""
    put = await put_bytes(blobs, "", b"x", PLAIN)
    strange = ("", ".", "..", "../x", "a/b", "\0", "é" * 32, put.id.upper(), put.id + "\n")

    for id in (*strange, "a" * 10_000, f"../_/{put.id}", f"/{put.id}", put.id[:-1]):
        if id != put.id:
            await expect_error(BlobNotFound, read_bytes(blobs, "", id))


@check
async def a_scope_or_name_that_cannot_be_kept_is_refused(blobs: BlobStore, store: Store) -> None:
    for scope in ("A", "a/b", "..", "a" * 64, "é", "a\n"):
        await expect_error(InvalidRecord, put_bytes(blobs, scope, b"x", PLAIN))
    await expect_error(InvalidRecord, put_bytes(blobs, "", b"x", "x" * 300))
    await expect_error(InvalidRecord, put_bytes(blobs, "", b"x", PLAIN, "x" * 300))

    assert (await blobs.delete_unreferenced(LATER)).blobs == 0


@check
async def a_name_may_be_anything(blobs: BlobStore, store: Store) -> None:
    """It never becomes part of a path."""
    for name in ("../../etc/passwd", "a\0b", "CON", "\U0001f600" * 200, "\x1f" * 255, ""):
        put = await put_bytes(blobs, "", b"x", PLAIN, name)
        assert (await read_bytes(blobs, "", put.id))[0].name == name


@check
async def a_stream_that_breaks_off_leaves_nothing(blobs: BlobStore, store: Store) -> None:
    async def failing_stream() -> AsyncIterator[bytes]:
        yield b"half"
        raise _Broken

    try:
        await blobs.put("", failing_stream(), PLAIN)
    except _Broken:
        pass
    else:
        raise AssertionError("the stream's own error was expected")

    assert (await blobs.delete_unreferenced(LATER)).blobs == 0


# -- sweeping ---------------------------------------------------------------------------------


@check
async def a_sweep_deletes_what_no_thread_uses(blobs: BlobStore, store: Store) -> None:
    """06/SV-14: a deleted thread's blobs are gone after the next sweep."""
    kept = await put_bytes(blobs, "", b"kept", PLAIN)
    dropped = await put_bytes(blobs, "", b"dropped", PLAIN)
    orphan = await put_bytes(blobs, "", b"nobody's", PLAIN)
    await write(store, "t", blobs=(kept.id,))
    await write(store, "u", blobs=(dropped.id,))
    await store.delete_thread("u", at_ms=1)

    freed = await blobs.delete_unreferenced(LATER)

    assert (freed.blobs, freed.bytes) == (2, dropped.size + orphan.size)
    assert (await read_bytes(blobs, "", kept.id))[1] == b"kept"
    for gone in (dropped, orphan):
        await expect_error(BlobNotFound, read_bytes(blobs, "", gone.id))


@check
async def a_sweep_of_one_tenant_leaves_the_others(blobs: BlobStore, store: Store) -> None:
    """06 §5.6"""
    mine = [await put_bytes(blobs, "acme", data, PLAIN) for data in (b"one", b"two")]
    other = await put_bytes(blobs, "acme-2", b"one", PLAIN)
    default = await put_bytes(blobs, "", b"one", PLAIN)
    await write(store, "acme/t", blobs=(mine[0].id,))

    freed = await blobs.delete_unreferenced(LATER, scope="acme")

    assert (freed.blobs, freed.bytes) == (1, 3)
    assert (await read_bytes(blobs, "acme", mine[0].id))[1] == b"one"
    assert (await read_bytes(blobs, "acme-2", other.id))[1] == b"one"
    assert (await blobs.delete_unreferenced(LATER, scope="")).blobs == 1
    await expect_error(BlobNotFound, read_bytes(blobs, "", default.id))


@check
async def a_forks_blobs_outlive_its_origin(blobs: BlobStore, store: Store) -> None:
    """06/SV-14."""
    early = await put_bytes(blobs, "", b"early", PLAIN)
    late = await put_bytes(blobs, "", b"late", PLAIN)
    await write(store, "t", blobs=(early.id,), events=(event(),))
    await write(store, "t", blobs=(late.id,), events=(event(),))
    await store.fork("t", "fork", at=1, at_ms=1)
    await store.delete_thread("t", at_ms=2)

    assert (await blobs.delete_unreferenced(LATER)).blobs == 1

    assert (await read_bytes(blobs, "", early.id))[1] == b"early"
    await expect_error(BlobNotFound, read_bytes(blobs, "", late.id))


@check
async def a_sweep_spares_what_is_younger(blobs: BlobStore, store: Store) -> None:
    """A blob that was put waits for its first commit."""
    put = await put_bytes(blobs, "", b"young", PLAIN)

    assert (await blobs.delete_unreferenced(0)).blobs == 0
    assert (await read_bytes(blobs, "", put.id))[1] == b"young"


@check
async def a_deleted_blob_may_be_put_again(blobs: BlobStore, store: Store) -> None:
    put = await put_bytes(blobs, "", b"again", PLAIN)
    await blobs.delete_unreferenced(LATER)

    assert await put_bytes(blobs, "", b"again", PLAIN) == put
    assert (await read_bytes(blobs, "", put.id))[1] == b"again"
