"""What became of a run's last commit, as one of five states, and which may follow which.

Settled ──> UnderWay ──> Settled      the usual way
Settled, UnderWay ──> Lost            the task that made the commit was cancelled
Settled, UnderWay, Lost ──> Refused   the store said no, or was away for too long
Lost ──> Settled                      the store was asked, and has it now
Refused ──> Settled                   the commit cannot be written at all, and is dropped
Lost, Refused ──> Held                the store is away, and the commit must not be forgotten
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from awaken.contract.commits import ThreadCommit
from awaken.domain.event import RunEvent
from awaken.errors import StorageError

Later = Sequence[int | RunEvent]
"""What listeners are sent after a commit: an event of the commit, by its index, or one that is not
stored."""


class Settled(msgspec.Struct, frozen=True):
    """Every commit so far was made; the next one can be."""


class UnderWay(msgspec.Struct, frozen=True, eq=False):
    """The last commit is being made by `task` while the run goes on."""

    task: asyncio.Task[None]


class Lost(msgspec.Struct, frozen=True, eq=False):
    """The last commit's caller was cancelled: the store may or may not have made it."""

    commit: ThreadCommit
    later: Later


class Refused(msgspec.Struct, frozen=True, eq=False):
    """The store did not take the last commit, and no other commit can follow it."""

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
