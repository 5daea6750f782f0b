"""Places for blobs; each needs nothing but the contract."""

from awaken.blobs.folder import FolderBlobs

__all__ = ["FolderBlobs"]
