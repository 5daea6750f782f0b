"""Blob stores: what they promise, and the one that keeps blobs in a folder.

Re-exports only.
"""

from typing import TYPE_CHECKING

from awaken.core.blobs import (
    Blob,
    BlobStore,
    BlobUses,
    ByteRange,
    FreedBlobs,
    OpenBlob,
    put_bytes,
    read_bytes,
)
from awaken.lazy import lazy_names
from awaken.stores.blobs.folder import FolderBlobs

__all__ = [
    "Blob",
    "BlobStore",
    "BlobUses",
    "ByteRange",
    "FolderBlobs",
    "FreedBlobs",
    "OpenBlob",
    "put_bytes",
    "read_bytes",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, {})
