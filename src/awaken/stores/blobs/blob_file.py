"""One blob as a file: writing it under another name, and reading it.

Everything here blocks, and runs in a thread of the event loop's pool. A caller that was cancelled
does not wait for that thread; so each file has a lock, and is not closed while it is used.
"""

from __future__ import annotations

import hashlib
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from awaken.codec import dumps, loads
from awaken.core.blobs import PIECE, Blob, ByteRange, blob_id
from awaken.errors import BlobDamaged, BlobNotFound
from awaken.ids import UUID7

HEAD = 4096
"""The length of a file's head: the `Blob` as JSON, filled up with spaces."""
PART = "part-"
"""How the name of a file begins that is being written."""

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag
_BINARY = getattr(os, "O_BINARY", 0)  # and only Windows has this one


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
