"""How many tasks may run and wait, and for how long they may run."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from typing import Generic, TypeVar

import msgspec

from awaken.core.aio.cancel import CancellationToken
from awaken.errors import ConfigError

K = TypeVar("K")
V = TypeVar("V")


class BackgroundLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many tasks there may be, and how long they may take.

    At most `per_thread` tasks of a thread, and `total` tasks in all, run at a time. Further tasks
    wait, at most `queue` of them. Tasks may start tasks, `depth` levels deep; each level has its
    own limits, so that no task waits for a slot held by its parent. `deadline` is the default for
    the seconds that a body may take. `grace` is how many seconds a body has to return after it was
    cancelled. A thread keeps its last `kept` ended tasks.

    Raises:
        ConfigError: a limit is out of range.
    """

    per_thread: int = 32
    total: int = 512
    queue: int = 10_000
    depth: int = 8
    deadline: float | None = None
    grace: float = 5.0
    kept: int = 50

    def __post_init__(self) -> None:
        for name in ("per_thread", "total", "depth"):
            if getattr(self, name) < 1:
                raise ConfigError(f"background limits: {name} is 1 or more")
        for name in ("queue", "grace", "kept"):
            if getattr(self, name) < 0:
                raise ConfigError(f"background limits: {name} is 0 or more")
        if self.deadline is not None and not self.deadline > 0:
            raise ConfigError("background limits: deadline is above 0 seconds, or None")


class Recent(Generic[K, V]):
    """A dictionary that keeps only the items that were put last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._items: OrderedDict[K, V] = OrderedDict()

    def put(self, key: K, value: V) -> None:
        self._items[key] = value
        self._items.move_to_end(key)
        while len(self._items) > self._most:
            self._items.popitem(last=False)

    def get(self, key: K) -> V | None:
        return self._items.get(key)

    def drop(self, key: K) -> None:
        self._items.pop(key, None)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __len__(self) -> int:
        return len(self._items)

    def values(self) -> list[V]:
        return list(self._items.values())


class _Waiter:
    """A task that waits for a slot."""

    __slots__ = ("depth", "thread_id", "turn")

    def __init__(self, thread_id: str, depth: int) -> None:
        self.thread_id = thread_id
        self.depth = depth
        self.turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def settle(self, admitted: bool) -> None:
        if not self.turn.done():
            self.turn.set_result(admitted)


class Slots:
    """Limits how many tasks run at a time; the others wait in the order in which they came."""

    def __init__(self, limits: BackgroundLimits) -> None:
        self._limits = limits
        self._threads: Counter[tuple[str, int]] = Counter()
        self._levels: Counter[int] = Counter()
        self._waiting: list[_Waiter] = []

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def has_free_slot(self, thread_id: str, depth: int) -> bool:
        return (
            self._levels[depth] < self._limits.total
            and self._threads[thread_id, depth] < self._limits.per_thread
        )

    def take(self, thread_id: str, depth: int) -> bool:
        """Take a slot if one is free. Returns whether it was."""
        if not self.has_free_slot(thread_id, depth):
            return False
        self._levels[depth] += 1
        self._threads[thread_id, depth] += 1
        return True

    async def enter(self, thread_id: str, depth: int, token: CancellationToken) -> bool:
        """Wait for a slot. Returns `False` if the token was cancelled first."""
        waiter = _Waiter(thread_id, depth)
        self._waiting.append(waiter)
        listener = token.on_cancel(lambda: waiter.settle(False))
        try:
            return await waiter.turn
        except asyncio.CancelledError:
            if waiter.turn.done() and not waiter.turn.cancelled() and waiter.turn.result():
                self.leave(thread_id, depth)
            raise
        finally:
            token.forget(listener)
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    def leave(self, thread_id: str, depth: int) -> None:
        """Give a slot back; the first waiting task that fits gets it."""
        self._levels[depth] -= 1
        self._threads[thread_id, depth] -= 1
        if not self._threads[thread_id, depth]:
            del self._threads[thread_id, depth]
        for waiter in tuple(self._waiting):
            if waiter.turn.done():
                continue
            if self.take(waiter.thread_id, waiter.depth):
                self._waiting.remove(waiter)
                return waiter.settle(True)
