"""Parts of answers that an adapter keeps and sends back to their provider, but does not read."""

from __future__ import annotations

import logging
from functools import lru_cache

from awaken.codec import Json
from awaken.core.message import Opaque

log = logging.getLogger("awaken.llm")


def unread(origin: str, kind: str, data: Json) -> Opaque:
    """A part that the adapter does not know; a warning says so once for each kind."""
    _warn(origin, kind)
    return Opaque(origin=origin, kind=kind, data=data)


@lru_cache(maxsize=1024)
def _warn(origin: str, kind: str) -> None:
    log.warning(
        "%s sent a part of an answer that is not understood: %r. It is kept in the message as "
        "Opaque and sent back, and has no effect besides",
        origin,
        kind,
    )
