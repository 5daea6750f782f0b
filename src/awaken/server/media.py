"""Media in messages, for protocols whose clients get no files from the server."""

from __future__ import annotations

from collections.abc import Sequence

from awaken.core.blobs import RunBlobs
from awaken.core.message import Message
from awaken.engine.large_content import loaded
from awaken.server.call import Call


async def with_media(call: Call, messages: Sequence[Message]) -> Sequence[Message]:
    """The messages with the bytes of their media in them, also of those that the store keeps as
    blobs. In place of a blob that is gone stands a text that says so."""
    blobs = call.runtime.blobs
    if blobs is None:
        return messages
    scope = call.principal.scope
    return await loaded(RunBlobs(blobs=blobs, uses=call.runtime.store, scope=scope), messages)
