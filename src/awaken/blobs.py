"""Blob stores: what they promise, and the one that keeps blobs in a folder.

Re-exports only.
"""

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

lazy_names(__name__, {})  # an error about a name of another module says which
