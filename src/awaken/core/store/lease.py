"""The lease: whether a node may start effects now, as its store sees it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

from awaken.core.store.commits import Fence

ORPHANS_EVERY_MS = 60_000
"""After this time, by the clock of the caller, a lease looks again for delegates that wait though
their parent run has ended."""


class Lease(Protocol):
    """A node's right to act on the threads it owns. It may run out, and be regained.

    A node whose lease has run out may have lost its threads to other nodes. It starts no tool and
    asks no model until it holds the lease again; its commits are refused in any case where another
    node has claimed the thread.
    """

    @property
    def held(self) -> bool:
        """Whether the node may start an effect now. Reading it does no I/O."""
        ...

    @property
    def seconds_left(self) -> float:
        """Seconds until the lease runs out if it is not renewed; infinite if it cannot."""
        ...

    @property
    def look_every(self) -> float:
        """Seconds after which a node looks for the runs of dead owners."""
        ...

    @property
    def may_take(self) -> bool:
        """Whether the node may claim threads of dead owners now. A node that has just begun to hold
        its lease may not, because their owners may be about to renew theirs."""
        ...

    async def finds_work(self, *, at_ms: int, overdue_ms: int) -> bool:
        """Whether a look around may find anything: with `claim_next`, for whatever agent, with
        `list_interrupted`, or with `list_outboxes`. Never false if it would, with one exception:
        a waiting delegate whose parent run has ended, which is not to occur and takes a look at
        every waiting delegate, may be found up to `ORPHANS_EVERY_MS` late. It costs one small
        read at most, and a node asks before each look: where many nodes look every second, most
        of them have nothing to find.
        """
        ...

    async def regained(self) -> None:
        """Wait until the node holds the lease.

        Raises:
            LeaseLost: it takes too long; the runs of this node are to be left.
        """
        ...

    def when_lost(self, told: Callable[[Fence], None]) -> None:
        """Call `told` with each claim of this node that another node has taken, from now on."""
        ...


class NeverLost:
    """The lease of a store whose owners are alive exactly while their process is."""

    # A slot of the instance is read faster than an attribute of the class, several times a step.
    __slots__ = ("held",)
    seconds_left = math.inf
    look_every = 5.0
    may_take = True

    def __init__(self) -> None:
        self.held = True

    async def finds_work(self, *, at_ms: int, overdue_ms: int) -> bool:
        return True

    async def regained(self) -> None:
        return

    def when_lost(self, told: Callable[[Fence], None]) -> None:
        return


NEVER_LOST = NeverLost()
