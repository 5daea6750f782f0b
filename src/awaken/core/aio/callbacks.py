"""Functions that are called when something happens."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

V = TypeVar("V")

log = logging.getLogger("awaken.runtime")


class Callbacks(Generic[V]):
    """The callbacks of one kind of event. `notify` calls them in the order of subscription."""

    __slots__ = ("_callbacks",)

    def __init__(self) -> None:
        self._callbacks: tuple[Callable[[V], object], ...] = ()

    def subscribe(self, callback: Callable[[V], object]) -> Callable[[], None]:
        """Call `callback` with every value from now on; returns a function that ends that.

        It must not block. An error in it is logged, and the other callbacks are called.
        """
        self._callbacks = (*self._callbacks, callback)

        def unsubscribe() -> None:
            self._callbacks = tuple(c for c in self._callbacks if c is not callback)

        return unsubscribe

    def notify(self, value: V) -> None:
        """Call every callback with `value`."""
        for callback in self._callbacks:
            try:
                callback(value)
            except Exception:
                log.exception("a subscriber failed")
