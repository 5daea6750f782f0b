"""Functions that are called when something happens."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

V = TypeVar("V")

log = logging.getLogger("awaken.runtime")


class Subscribers(Generic[V]):
    """Calls every subscriber with a value, in the order in which they subscribed."""

    __slots__ = ("_subscribers",)

    def __init__(self) -> None:
        self._subscribers: tuple[Callable[[V], object], ...] = ()

    def subscribe(self, subscriber: Callable[[V], object]) -> Callable[[], None]:
        """Call `subscriber` with every value from now on; returns a function that ends that.

        It must not block. An error in it is logged, and the other subscribers are called.
        """
        self._subscribers = (*self._subscribers, subscriber)

        def unsubscribe() -> None:
            self._subscribers = tuple(s for s in self._subscribers if s is not subscriber)

        return unsubscribe

    def tell(self, value: V) -> None:
        """Call every subscriber with `value`."""
        for subscriber in self._subscribers:
            try:
                subscriber(value)
            except Exception:
                log.exception("a subscriber failed")
