"""Deleting many threads without holding others up: in batches, with rests between them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from awaken.core.store.threads import DeleteResult

T = TypeVar("T")

MAX_BATCH = 200
"""The most threads of a batch, which is one transaction."""
_FIRST_BATCH = 25
_BATCH_SECONDS = 0.05
"""How long a batch may take: commits of other runs may have to wait for it."""


async def delete_in_batches(
    ids: Sequence[T], delete: Callable[[Sequence[T]], Awaitable[DeleteResult]]
) -> DeleteResult:
    """Delete all `ids` in their order, and rest after each batch for as long as it took.

    What was deleted stays deleted if this is cancelled.
    """
    clock = asyncio.get_running_loop().time
    freed, size, done = DeleteResult(), _FIRST_BATCH, 0
    while done < len(ids):
        began = clock()
        freed = _add_freed(freed, await delete(ids[done : done + size]))
        took = clock() - began
        done += size
        size = next_size(size, took)
        await asyncio.sleep(took)
    return freed


def next_size(size: int, took: float) -> int:
    """How many threads the next batch has, if one of `size` threads took so many seconds."""
    if took > _BATCH_SECONDS:
        return max(1, int(size * _BATCH_SECONDS / took))
    return min(MAX_BATCH, 2 * size)


def _add_freed(one: DeleteResult, other: DeleteResult) -> DeleteResult:
    return DeleteResult(
        threads=one.threads + other.threads,
        runs=one.runs + other.runs,
        commits=one.commits + other.commits,
        bytes=one.bytes + other.bytes,
    )
