"""What delegates had done whose callers get no answer from them."""

from __future__ import annotations

import logging

from awaken.contract.backend import DurableDelegates
from awaken.errors import StoreError

log = logging.getLogger("awaken.loop")


async def done_beneath(delegates: DurableDelegates | None, key: str) -> str | None:
    """What the delegate of a call that ends without its answer had done; `None` if nothing.

    If the store is away, says that it is unknown.
    """
    if delegates is None:
        return None
    try:
        return await delegates.done_by(key)
    except StoreError as error:
        log.warning("what was done for call %s cannot be read: %s", key, error)
        return "it is unknown what it had done before that"


def with_done(text: str, done: str | None) -> str:
    """What the model is told of a call, with the work that its delegate had done."""
    return text if done is None else f"{text}; {done}"
