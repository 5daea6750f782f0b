"""Changing a thread's metadata, as every store does it."""

from __future__ import annotations

import msgspec

from awaken.codec import dumps, loads
from awaken.core.metadata import MAX_METADATA, ThreadMetadata, ThreadPatch
from awaken.errors import (
    InvalidRecord,
    Serialization,
    UnreadableValue,
    VersionConflict,
    describe,
)


def changed_metadata(
    thread_id: str, known: ThreadMetadata, patch: ThreadPatch, expected_revision: int | None
) -> tuple[ThreadMetadata, bytes]:
    """The changed metadata, as a store returns it and as JSON.

    Raises:
        VersionConflict: the metadata has another revision than the expected one.
        Serialization: a value in the patch cannot be encoded.
        UnreadableValue: it could not be read back.
        InvalidRecord: the metadata would be larger than `MAX_METADATA`, and larger than it is.
    """
    if expected_revision is not None and expected_revision != known.revision:
        raise VersionConflict(thread_id, expected=expected_revision, actual=known.revision)
    try:
        text = dumps(patch.apply(known))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Serialization(f"the metadata of thread {thread_id!r}: {describe(error)}") from error
    if len(text) > max(MAX_METADATA, len(dumps(known))):
        raise InvalidRecord(
            f"the metadata of thread {thread_id!r} would have {len(text)} bytes, more than "
            f"{MAX_METADATA}: keep large values in blobs, and only their ids in `custom`"
        )
    try:
        return loads(text, ThreadMetadata), text
    except msgspec.ValidationError as error:
        raise UnreadableValue(f"the metadata of thread {thread_id!r}", error) from error
