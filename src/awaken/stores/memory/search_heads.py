"""How far the threads of a memory store are, for its search index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from awaken.core.lifecycle import RunStatus
from awaken.core.search.index import ThreadHead
from awaken.stores.memory.paging import Ordered
from awaken.stores.memory.tables import RunRow, ThreadRow


class MemoryHeads:
    """Reads heads; see `Searchable`."""

    def __init__(
        self, threads: Mapping[str, ThreadRow], names: Ordered[str], runs: Mapping[str, RunRow]
    ) -> None:
        self._threads, self._names, self._runs = threads, names, runs

    def list_heads(self, after: str, limit: int) -> Sequence[ThreadHead]:
        names = islice(self._names.after(after), limit)
        return [_head(self._threads[name]) for name in names]

    def list_active(self, since_ms: int) -> Sequence[ThreadHead]:
        return [
            _head(thread)
            for thread in self._threads.values()
            if thread.active_at >= since_ms or self._is_running(thread)
        ]

    def _is_running(self, thread: ThreadRow) -> bool:
        run = self._runs.get(thread.open_run_id or "")
        return run is not None and run.record.status is RunStatus.RUNNING


def _head(thread: ThreadRow) -> ThreadHead:
    return ThreadHead(
        thread_id=thread.id,
        created_at=thread.created_at,
        updated_at=thread.updated_at,
        commits=len(thread.commits),
        revision=thread.metadata.revision,
    )
