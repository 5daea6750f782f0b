"""Joining commands that parallel hooks or tools made from one snapshot.

No store, no clock. A conflict is raised here and resolved in `awaken.engine.gather`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from awaken.core.state.command import Command, MutationBatch
from awaken.core.state.key import Merge
from awaken.errors import ParallelMergeConflict

Strategy = Callable[[str], Merge]


def conflicting_key(batches: Sequence[MutationBatch], strategy: Strategy) -> str | None:
    """The first exclusive key that two of the batches touch, or `None`."""
    seen: set[str] = set()
    for batch in batches:
        mine = dict.fromkeys(batch.touched_keys)
        for name in mine:
            if name in seen and strategy(name) is Merge.EXCLUSIVE:
                return name
        seen.update(mine)
    return None


def merge_parallel(commands: Sequence[Command], strategy: Strategy) -> Command:
    """One command with the updates of all, in the given order.

    Raises:
        ParallelMergeConflict: two commands touch the same exclusive key.
        MutationBaseRevisionMismatch: the commands were made from different revisions.
    """
    if len(commands) > 1:
        key = conflicting_key([command.batch for command in commands], strategy)
        if key is not None:
            raise ParallelMergeConflict(key)
    return Command.join(commands)
