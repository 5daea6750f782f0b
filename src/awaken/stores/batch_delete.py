"""Deleting many threads without holding others up: in batches, with rests between them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from awaken.core.store.threads import Freed

T = TypeVar("T")

MOST = 200
"""The most threads of a batch, which is one transaction."""
_FIRST = 25
_SECONDS = 0.05
"""How long a batch may take: commits of other runs may have to wait for it."""


async def delete_in_batches(
    ids: Sequence[T], delete: Callable[[Sequence[T]], Awaitable[Freed]]
) -> Freed:
    """Delete all `ids` in their order, and rest after each batch for as long as it took.

    What was deleted stays deleted if this is cancelled.
    """
    clock = asyncio.get_running_loop().time
    freed, size, done = Freed(), _FIRST, 0
    while done < len(ids):
        began = clock()
        freed = _sum(freed, await delete(ids[done : done + size]))
        took = clock() - began
        done += size
        size = next_size(size, took)
        await asyncio.sleep(took)
    return freed


def next_size(size: int, took: float) -> int:
    """How many threads the next batch has, if one of `size` threads took so many seconds."""
    if took > _SECONDS:
        return max(1, int(size * _SECONDS / took))
    return min(MOST, 2 * size)


def _sum(one: Freed, other: Freed) -> Freed:
    return Freed(
        threads=one.threads + other.threads,
        runs=one.runs + other.runs,
        commits=one.commits + other.commits,
        bytes=one.bytes + other.bytes,
    )
