"""How the store of a process writes, and how long the process may go on."""

from __future__ import annotations

from collections.abc import Iterator

from awaken.core.store.store import CountsUnreadable, Store
from awaken.server.figures import Histogram, head, line

_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class StoreFigures:
    """Counts the batches of writes of one store, from now on. It is told once a batch, after it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seconds, self._sizes = Histogram(_SECONDS), Histogram(_SIZES)
        store.when_written(self._note)

    def lines(self) -> Iterator[str]:
        name = "awaken_commit_seconds"
        yield from head(name, "histogram", "Seconds that a batch of commits took.")
        yield from self._seconds.lines(name, {})
        name = "awaken_commit_batch"
        yield from head(name, "histogram", "Commits and other writes that shared a batch.")
        yield from self._sizes.lines(name, {})
        lease = self._store.lease
        yield from head("awaken_lease_held", "gauge", "Whether this process may start effects.")
        yield line("awaken_lease_held", {}, int(lease.held))
        name = "awaken_lease_seconds_left"
        yield from head(name, "gauge", "Seconds until the lease runs out if it is not renewed.")
        yield line(name, {}, lease.seconds_left)
        if isinstance(self._store, CountsUnreadable):
            name = "awaken_unreadable_rows_total"
            yield from head(name, "counter", "Rows of the store that this process cannot decode.")
            for kind, count in sorted(self._store.count_unreadable().items()):
                yield line(name, {"kind": kind}, count)

    def _note(self, size: int, seconds: float) -> None:
        self._sizes.observe(size)
        self._seconds.observe(seconds)
