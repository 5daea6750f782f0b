"""Blobs in a folder: one file each, with a head of 4 KiB and then the content.

A file is `<folder>/<scope>/<first two digits of the id>/<id>`; the default scope is `_`. The names
that callers give are inside the head and never part of a path.

Reading and writing block, and run in a thread of the event loop's pool. A caller that was cancelled
does not wait for that thread; so each file has a lock, and is not closed while it is used.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from awaken.clock import SYSTEM_CLOCK, Clock
from awaken.codec import dumps, loads
from awaken.core.blobs import (
    PIECE,
    WHOLE,
    Blob,
    BlobUses,
    ByteRange,
    FreedBlobs,
    blob_id,
    check_blob,
    is_blob_id,
    is_scope,
)
from awaken.errors import BlobDamaged, BlobNotFound, StoreUnavailable
from awaken.ids import UUID7

HEAD = 4096
"""The length of a file's head: the `Blob` as JSON, filled up with spaces."""
PART = "part-"
"""How the name of a file begins that is being written."""

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag
_BINARY = getattr(os, "O_BINARY", 0)  # and only Windows has this one
_DEFAULT_SCOPE = "_"
_BATCH = 500


class FolderBlobs:
    """Blobs as files. Several processes may use one folder at once.

    `uses` is the store whose threads refer to the blobs. The folder is made by the first `put`.
    """

    def __init__(
        self, folder: str | os.PathLike[str], uses: BlobUses, *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.folder = Path(folder)
        self._uses = uses
        self._clock = clock

    def _of_scope(self, scope: str) -> Path:
        return self.folder / (scope or _DEFAULT_SCOPE)

    async def put(
        self, scope: str, stream: AsyncIterable[bytes], media_type: str, name: str | None = None
    ) -> Blob:
        check_blob(scope, media_type, name)
        folder = self._of_scope(scope)
        with self._convert_os_errors():
            new = await asyncio.to_thread(NewBlobFile, folder)
        try:
            async for piece in stream:
                with self._convert_os_errors():
                    await asyncio.to_thread(new.write, piece)
            with self._convert_os_errors():
                return await asyncio.to_thread(
                    new.finish, folder, scope, media_type, name, self._clock.now_ms()
                )
        finally:
            new.drop()

    @contextmanager
    def _convert_os_errors(self) -> Iterator[None]:
        """Convert an error of the operating system to `StoreUnavailable`."""
        try:
            yield
        except OSError as error:
            raise StoreUnavailable(
                f"no blob can be written to {self.folder}: {error}; make the folder writable, and "
                "check that the disk has space"
            ) from error

    @asynccontextmanager
    async def open(
        self, scope: str, id: str, range: ByteRange = WHOLE
    ) -> AsyncIterator[OpenedBlob]:
        if not is_scope(scope) or not is_blob_id(id):
            raise BlobNotFound(id)
        path = self._of_scope(scope) / id[:2] / id
        try:
            file = await asyncio.to_thread(OpenBlobFile, path, id, range)
        except OSError as error:
            raise StoreUnavailable(f"blob {id} cannot be read from {path}: {error}") from error
        try:
            yield OpenedBlob(file)
        finally:
            file.close()

    async def delete_unreferenced(self, before_ms: int, *, scope: str | None = None) -> FreedBlobs:
        if scope is not None and not is_scope(scope):
            return FreedBlobs()
        folder = self.folder if scope is None else self._of_scope(scope)
        old = await asyncio.to_thread(_files_before, folder, before_ms)
        blobs = size = 0
        for start in range(0, len(old), _BATCH):
            batch = old[start : start + _BATCH]
            used = await self._uses.filter_used_blobs({_id_of(path) for path in batch})
            for freed in await asyncio.to_thread(_delete, batch, used, before_ms):
                blobs, size = blobs + 1, size + freed
        return FreedBlobs(blobs=blobs, bytes=size)


class OpenedBlob:
    """A blob of a folder that is being read."""

    def __init__(self, file: OpenBlobFile) -> None:
        self._file = file

    @property
    def blob(self) -> Blob:
        return self._file.blob

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while piece := await asyncio.to_thread(self._file.read):
            yield piece


class NewBlobFile:
    """A file that is being written; nothing reads it before it is finished."""

    def __init__(self, folder: Path) -> None:
        for each in (folder.parent, folder):
            each.mkdir(exist_ok=True, mode=0o700)
        self._path = folder / f"{PART}{UUID7.new()}"
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | _NO_FOLLOW | _BINARY
        descriptor = os.open(self._path, flags, 0o600)
        self._file: BinaryIO | None = os.fdopen(descriptor, "wb", buffering=0)
        self._lock = threading.Lock()
        self._sha256 = hashlib.sha256()
        self._size = 0
        self._file.seek(HEAD)

    def write(self, data: bytes) -> None:
        with self._lock:
            if self._file is None:
                return  # the caller was cancelled and has dropped the file
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
            self._sha256.update(data)
            self._size += len(data)

    def finish(
        self, folder: Path, scope: str, media_type: str, name: str | None, at_ms: int
    ) -> Blob:
        """Make the file durable and give it its name, in a subfolder of `folder`."""
        sha256 = self._sha256.hexdigest()
        id = blob_id(scope, sha256, media_type, name)
        blob = Blob(id=id, size=self._size, sha256=sha256, media_type=media_type, name=name)
        target = folder / id[:2]
        with self._lock:
            if self._file is None:
                return blob  # as in `write`
            self._file.seek(0)
            self._file.write(dumps(blob).ljust(HEAD))
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None
            is_new = not target.is_dir()
            target.mkdir(exist_ok=True, mode=0o700)
            set_time(self._path, at_ms)
            os.replace(self._path, target / id)
            sync_folder(target)
            if is_new:
                sync_folder(folder)
                sync_folder(folder.parent)
        return blob

    def drop(self) -> None:
        """Delete the file if it was not finished."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None
                with suppress(OSError):
                    os.unlink(self._path)


class OpenBlobFile:
    """A finished file that is being read."""

    def __init__(self, path: Path, id: str, wanted: ByteRange) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | _NO_FOLLOW | _BINARY)
        except (FileNotFoundError, NotADirectoryError):
            raise BlobNotFound(id) from None
        self._lock = threading.Lock()
        self._file = os.fdopen(descriptor, "rb", buffering=0)
        try:
            self.blob = self._read_head(id)
            self._at, self._stop = wanted.within(self.blob)
            self._file.seek(HEAD + self._at)
        except BaseException:
            self._file.close()
            raise
        is_whole = (self._at, self._stop) == (0, self.blob.size)
        self._sha256 = hashlib.sha256() if is_whole else None

    def _read_head(self, id: str) -> Blob:
        try:
            blob = loads(self._file.read(HEAD) or b"", Blob)
        except msgspec.DecodeError as error:
            raise BlobDamaged(id, f"its head cannot be read ({error})") from error
        size = os.fstat(self._file.fileno()).st_size - HEAD
        if blob.id != id or blob.size != size:
            raise BlobDamaged(id, f"its file has {size} bytes of content, not {blob.size}")
        return blob

    def read(self) -> bytes:
        """The next piece; empty at the end.

        Raises:
            BlobDamaged: all was read, and it is not what was put.
        """
        with self._lock:
            if self._file.closed:
                return b""  # the caller was cancelled
            piece = self._file.read(min(PIECE, self._stop - self._at)) or b""
        self._at += len(piece)
        if self._sha256 is not None:
            self._sha256.update(piece)
        if not piece and self._at < self._stop:
            raise BlobDamaged(self.blob.id, f"its file ends after {self._at} bytes")
        if not piece and self._sha256 is not None:
            found = self._sha256.hexdigest()
            if found != self.blob.sha256:
                raise BlobDamaged(self.blob.id, f"its sha256 is {found}, not {self.blob.sha256}")
        return piece

    def close(self) -> None:
        with self._lock:
            self._file.close()


def set_time(path: str | Path, at_ms: int) -> None:
    """Set the time that a sweep compares: by our clock, and not by that of the file system."""
    os.utime(path, ns=(at_ms * 1_000_000, at_ms * 1_000_000))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable; Windows cannot open folders, and does so by itself."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- the sweep --------------------------------------------------------------------------------


_GONE = ".gone"
"""How the name of a file ends that a sweep is deleting."""


def _id_of(path: Path) -> str:
    return path.name.removesuffix(_GONE)


def _is_before(path: Path, before_ms: int) -> bool:
    return path.stat(follow_symlinks=False).st_mtime_ns < before_ms * 1_000_000


def _files_before(folder: Path, before_ms: int) -> list[Path]:
    """The blobs and unfinished files that were written before that time."""
    found: list[Path] = []
    for where, _, names in os.walk(folder):
        for path in (Path(where, name) for name in names):
            if path.name.startswith(PART) or is_blob_id(_id_of(path)):
                with suppress(FileNotFoundError):
                    if _is_before(path, before_ms):
                        found.append(path)
    return found


def _delete(paths: Sequence[Path], used: frozenset[str], before_ms: int) -> list[int]:
    """Delete the files that are not used; returns the sizes of the deleted blobs."""
    freed: list[int] = []
    for path in paths:
        with suppress(OSError):  # another process deletes it, too, or reads it (on Windows)
            if path.name.startswith(PART):
                path.unlink()
            elif _id_of(path) in used:
                _bring_back(path)
            elif (size := _delete_blob(path, before_ms)) is not None:
                freed.append(size)
    return freed


def _delete_blob(path: Path, before_ms: int) -> int | None:
    """Delete a blob unless it was put again meanwhile; returns the size of its content."""
    gone = path if path.name.endswith(_GONE) else path.with_name(path.name + _GONE)
    # Between a look at the file's time and its deletion, a process could put the blob again, and
    # commit a use of it. Under another name it cannot: its `put` writes a new file.
    os.replace(path, gone)
    if not _is_before(gone, before_ms):
        _bring_back(gone)
        return None
    size = gone.stat().st_size - HEAD
    gone.unlink()
    return size


def _bring_back(path: Path) -> None:
    """Give a blob its name again; a sweep that was killed may have left it without."""
    if not path.name.endswith(_GONE):
        return
    with suppress(FileExistsError):
        os.link(path, path.with_name(_id_of(path)))
    path.unlink()
