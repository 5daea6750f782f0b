"""Making a commit whose first attempt failed, or one after a commit that no store could write."""

from __future__ import annotations

import logging

import msgspec

from awaken.clock import Clock
from awaken.core.aio.cancel import is_ours
from awaken.core.storable import leave_out_unstorable
from awaken.core.store.commits import Commits, Committed, ThreadCommit, has_outcomes
from awaken.errors import CommitUnknown, StorageError, StoreUnavailable

_ATTEMPTS = 3
PATIENCE = 10.0
"""For how many seconds a commit with the outcome of a call is retried while the store is away.
After that it is kept in memory."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
log = logging.getLogger("awaken.loop")


def is_worth_waiting(commit: ThreadCommit, error: object) -> bool:
    """Whether a commit has the outcome of a call, and the store may take it later."""
    return isinstance(error, StoreUnavailable | CommitUnknown) and has_outcomes(commit.calls)


def readable_part(commit: ThreadCommit) -> ThreadCommit:
    """The commit without the values that could not be read back from a store."""
    kept = leave_out_unstorable(commit) or commit
    messages = tuple([message for message in kept.messages if message.id])
    return msgspec.structs.replace(kept, messages=messages)


async def commit_again(
    commits: Commits,
    commit: ThreadCommit,
    error: BaseException,
    clock: Clock,
    *,
    patience: float = PATIENCE,
) -> Committed:
    """Make a commit that failed with `error`.

    If the answer was lost, the store is asked whether it made the commit. If the store is away and
    the commit has the outcome of a call, the commit is retried for `patience` seconds.

    Raises:
        StorageError: the commit was not made.
    """
    lost, pause, began = 0, _FIRST_PAUSE, clock.monotonic()
    while True:
        if isinstance(error, CommitUnknown) and lost < _ATTEMPTS:
            lost += 1
            log.warning("thread %s: %s; reading back", commit.thread_id, error)
        elif is_worth_waiting(commit, error) and clock.monotonic() - began < patience:
            log.warning("thread %s: %s; trying again", commit.thread_id, error)
            await clock.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        else:
            raise StorageError(error) from error
        try:
            committed = await commits.find_commit(commit)
            return committed if committed is not None else await commits.commit(commit)
        except BaseException as next_error:
            if is_ours(next_error):
                raise
            error = next_error
