"""Which threads other nodes follow. Pure: times are given."""

from __future__ import annotations

from collections.abc import Iterable

MOST_INTERESTS = 100_000


class Interests:
    """Threads, by their hashes, with the nodes that follow each, and until when their word holds.

    Args:
        most: how many pairs of a thread and a node are kept at most.
    """

    def __init__(self, most: int = MOST_INTERESTS) -> None:
        self._nodes: dict[str, dict[str, float]] = {}
        self._most, self._count = most, 0

    def __contains__(self, thread: str) -> bool:
        return thread in self._nodes

    def add(self, thread: str, node: str, until: float) -> bool:
        """Note that a node follows a thread. Returns whether there was room."""
        nodes = self._nodes.get(thread)
        if nodes is None or node not in nodes:
            if self._count >= self._most:
                return False
            self._count += 1
            nodes = self._nodes.setdefault(thread, {})
        nodes[node] = until
        return True

    def remove(self, thread: str, node: str) -> None:
        nodes = self._nodes.get(thread)
        if nodes is not None and nodes.pop(node, None) is not None:
            self._count -= 1
            if not nodes:
                del self._nodes[thread]

    def expire(self, now: float) -> None:
        """Forget the nodes whose word holds no longer."""
        over = [
            (thread, node)
            for thread, nodes in self._nodes.items()
            for node, until in nodes.items()
            if until <= now
        ]
        for thread, node in over:
            self.remove(thread, node)

    def clear(self) -> None:
        self._nodes.clear()
        self._count = 0


def chunks(threads: Iterable[str], size: int) -> Iterable[tuple[str, ...]]:
    """The threads in tuples of at most `size`."""
    rest = tuple(threads)
    return (rest[start : start + size] for start in range(0, len(rest), size))
