"""The five states of a run's journal, by the outcome of the last commit; and commits that failed.

Settled ──> UnderWay ──> Settled              a commit beside the run, begun and made
Settled, UnderWay, Lost ──> Lost              the task that awaited the commit was cancelled
Settled, UnderWay, Lost ──> RefusedCommit     the store refused it, or was away for too long
Lost ──> Settled                              the store was asked, and has the commit now
RefusedCommit ──> Settled                     no store could write the commit; it is dropped
Lost, RefusedCommit ──> Held                  the store is away; the commit has outcomes of calls

A commit that the run awaits leaves the state `Settled` if all goes well. `commit_again` retries a
commit whose first attempt failed; `readable_part` is what is committed in place of a commit that no
store could write.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from awaken.clock import Clock
from awaken.core.aio.cancel import is_cancellation
from awaken.core.event import RunEvent
from awaken.core.storable import leave_out_unstorable
from awaken.core.store.commands import ThreadCommand
from awaken.core.store.commits import Commits, Committed, ThreadCommit, commit_once, has_outcomes
from awaken.core.suspension import Ticket
from awaken.errors import CommitUnknown, StorageError, StoreUnavailable

log = logging.getLogger("awaken.loop")


Later = Sequence[int | RunEvent]
"""What listeners are sent after a commit: an event of the commit, by its index, or one that is not
stored."""


class Settled(msgspec.Struct, frozen=True):
    """Every commit so far was made, or dropped; the next one can be made."""


class UnderWay(msgspec.Struct, eq=False):
    """The last commit is being made by `task` while the run goes on.

    `begun` is false until the task has started: if it is cancelled before, nothing was written.
    """

    task: asyncio.Task[None]
    commit: ThreadCommit
    later: Later
    begun: bool = False


class Lost(msgspec.Struct, frozen=True, eq=False):
    """The task that awaited the last commit was cancelled: the store may have made it or not."""

    commit: ThreadCommit
    later: Later


class RefusedCommit(msgspec.Struct, frozen=True, eq=False):
    """The store did not take the last commit; the next one would raise the same error."""

    commit: ThreadCommit
    error: StorageError


class Held(msgspec.Struct, frozen=True):
    """The store is away: commits are collected in `Journal.pending_commits`, to be made later."""


CommitState = Settled | UnderWay | Lost | RefusedCommit | Held
SETTLED, HELD = Settled(), Held()
_NEXT: dict[type[CommitState], tuple[type[CommitState], ...]] = {
    Settled: (UnderWay, Lost, RefusedCommit),
    UnderWay: (Settled, Lost, RefusedCommit),
    Lost: (Settled, Lost, RefusedCommit, Held),
    RefusedCommit: (Settled, Held),
    Held: (),
}


def may_follow(state: CommitState, following: CommitState) -> bool:
    return type(following) in _NEXT[type(state)]


class CommitExtras(msgspec.Struct, kw_only=True):
    """The parts of a commit that few commits have; see `ThreadCommit`."""

    tickets: list[Ticket] = []
    acks: list[int] = []
    sends: list[ThreadCommand] = []
    blobs: list[str] = []
    parent_thread_id: str | None = None
    ends_stream: bool = False
    rewinds_to: int | None = None

    def add_to(self, commit: ThreadCommit) -> ThreadCommit:
        return msgspec.structs.replace(
            commit,
            tickets=tuple(self.tickets),
            acks=tuple(self.acks),
            sends=tuple(self.sends),
            parent_thread_id=self.parent_thread_id,
            ends_stream=self.ends_stream,
            blobs=tuple(self.blobs),
            rewinds_to=self.rewinds_to,
        )


# -- commits that failed ----------------------------------------------------------------------


_ATTEMPTS = 3
PATIENCE = 10.0
"""For how many seconds a commit with the outcome of a call is retried while the store is away.
After that it is kept in memory."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0


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
            return await commit_once(commits, commit, is_tried=True)
        except BaseException as next_error:
            if is_cancellation(next_error):
                raise
            error = next_error
