"""What a delegate has done, for a call that ends without the delegate's answer."""

from __future__ import annotations

import logging

from awaken.contract.backend import DurableDelegates
from awaken.errors import StoreError

log = logging.getLogger("awaken.loop")


async def done_beneath(delegates: DurableDelegates | None, thread_id: str, key: str) -> str | None:
    """What the delegate of the call `key` of a thread has done, as a text for the model.

    Returns `None` if the delegate has done nothing. If the store is away, the text says that it is
    unknown.
    """
    if delegates is None:
        return None
    try:
        return await delegates.done_by(thread_id, key)
    except StoreError as error:
        log.warning("what was done for call %s cannot be read: %s", key, error)
        return "it is unknown what it had done before that"


def with_done(text: str, done: str | None) -> str:
    """The text of a call's result, followed by what its delegate has done, if anything."""
    return text if done is None else f"{text}; {done}"
