"""Blob stores: what they promise, and the one that keeps blobs in a folder.

Re-exports only.
"""

from awaken.blobs.folder import FolderBlobs
from awaken.contract.blobs import (
    Blob,
    BlobStore,
    BlobUses,
    ByteRange,
    FreedBlobs,
    OpenBlob,
    put_bytes,
    read_bytes,
)

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
