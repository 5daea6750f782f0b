"""The five states of a run's journal, by what became of the last commit.

Settled ──> UnderWay ──> Settled        a commit beside the run, begun and made
Settled, UnderWay, Lost ──> Lost        the task that awaited the commit was cancelled
Settled, UnderWay, Lost ──> Refused     the store said no, or was away for too long
Lost ──> Settled                        the store was asked, and has the commit now
Refused ──> Settled                     no store could write the commit; it is dropped
Lost, Refused ──> Held                  the store is away, and the commit has outcomes of calls

A commit that the run awaits leaves the state `Settled` if all goes well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from awaken.core.event import RunEvent
from awaken.core.store.commits import ThreadCommit
from awaken.errors import StorageError

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


class Refused(msgspec.Struct, frozen=True, eq=False):
    """The store did not take the last commit; the next one would raise the same error."""

    commit: ThreadCommit
    error: StorageError


class Held(msgspec.Struct, frozen=True):
    """The store is away: commits are collected in `Journal.unkept`, to be made later."""


CommitState = Settled | UnderWay | Lost | Refused | Held
SETTLED, HELD = Settled(), Held()
_NEXT: dict[type[CommitState], tuple[type[CommitState], ...]] = {
    Settled: (UnderWay, Lost, Refused),
    UnderWay: (Settled, Lost, Refused),
    Lost: (Settled, Lost, Refused, Held),
    Refused: (Settled, Held),
    Held: (),
}


def may_follow(state: CommitState, following: CommitState) -> bool:
    return type(following) in _NEXT[type(state)]
